// Which format a file has, and where its tensors go.
#include "frontend/io/formats.h"

#include <fmt/format.h>

#include <istream>
#include <iterator>
#include <ostream>
#include <vector>

namespace lz {

namespace io {

StateDict read_any(const Source &source, const LoadOptions &options) {
    if (is_safetensors_index(source))
        return read_safetensors_index(source, options);
    Budget budget(options.max_unpacked_bytes);
    if (source.begins_with("\x93NUMPY"))
        return StateDict({{"tensor", read_npy(source, budget)}}, source.loc);
    // An archive without entries begins with its directory's end.
    if (source.begins_with("PK\3\4") || source.begins_with("PK\5\6")) {
        const ZipReader archive(source);
        if (!pickle_of(archive))
            return read_npz(source, archive, budget);
        const PickleValue value =
            read_pytorch(source, archive, budget, [](const Tensor &tensor) { return tensor; });
        try {
            return value.state_dict(source.loc);
        } catch (const StateError &) {
            source.fail("two of its tensors would have one name; see io::load_pytorch");
        }
    }
    if (is_old_pytorch(source))
        source.fail(kOldPytorch);
    return read_safetensors(source);
}

namespace {

std::vector<Tensor> all_of(const StateDict &tensors, const char *function, Location loc) {
    for (const auto &[name, tensor] : tensors)
        if (!tensor.defined())
            throw StateError(fmt::format("{}: the tensor named {} is undefined", function, in_quotes(name)),
                             loc);
    return tensors.values();
}

bool ends_with(const std::string &path, std::string_view ending) {
    return path.size() > ending.size() && path.ends_with(ending);
}

StateDict named(const Tensor &tensor) {
    StateDict one;
    one.insert("tensor", tensor);
    return one;
}

StateDict numbered(const std::vector<Tensor> &tensors) {
    StateDict all;
    for (size_t i = 0; i < tensors.size(); ++i)
        all.insert(std::to_string(i), tensors[i]);
    return all;
}

StateDict placed(StateDict tensors, const LoadOptions &options, Location loc) {
    if (!options.device || options.device->is_cpu())
        return tensors;
    for (auto &[name, tensor] : tensors)
        tensor = tensor.to(*options.device, loc);
    eval(tensors.values(), loc);
    return tensors;
}

Tensor only_one(const StateDict &tensors, const std::string &from, Location loc) {
    if (tensors.size() != 1)
        throw IoError(
            fmt::format("load_tensor: {} has {} tensors; `load` reads them all", from, tensors.size()), loc);
    return tensors.items()[0].second;
}

} // namespace
} // namespace io

void save(const StateDict &tensors, const std::string &path, const SaveOptions &options, Location loc) {
    // Whatever fails in computing them, fails before a file is touched.
    eval(io::all_of(tensors, "save", loc), loc);
    if (io::ends_with(path, ".npz"))
        return io::write_npz(tensors, path, options.compress, loc);
    if (io::ends_with(path, ".npy"))
        return io::write_npy(tensors, path, loc);
    if (io::ends_with(path, ".pt") || io::ends_with(path, ".pth"))
        return io::write_pytorch(tensors, path, loc);
    io::write_safetensors(tensors, path, options, loc);
}

void save(const Tensor &tensor, const std::string &path, const SaveOptions &options, Location loc) {
    save(io::named(tensor), path, options, loc);
}

void save(const std::vector<Tensor> &tensors, const std::string &path, const SaveOptions &options,
          Location loc) {
    save(io::numbered(tensors), path, options, loc);
}

void save(const StateDict &tensors, std::ostream &stream, const SaveOptions &options, Location loc) {
    eval(io::all_of(tensors, "save", loc), loc);
    io::write_safetensors(tensors, stream, options, loc);
}

void save(const Tensor &tensor, std::ostream &stream, const SaveOptions &options, Location loc) {
    save(io::named(tensor), stream, options, loc);
}

void save(const std::vector<Tensor> &tensors, std::ostream &stream, const SaveOptions &options,
          Location loc) {
    save(io::numbered(tensors), stream, options, loc);
}

StateDict load(const std::string &path, const LoadOptions &options, Location loc) {
    return io::placed(io::read_any(io::open_file(path, options.memory_map, "load", loc), options), options,
                      loc);
}

StateDict load(std::istream &stream, const LoadOptions &options, Location loc) {
    const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    io::Source source{"the stream", {}, nullptr, "load", loc};
    if (stream.bad() || (text.empty() && !stream.good() && !stream.eof()))
        source.fail("it failed while it was read");
    const io::Buffer buffer(text.size());
    std::memcpy(buffer.data(), text.data(), text.size());
    source.owner = buffer.owner();
    source.bytes = buffer.span();
    if (io::is_safetensors_index(source))
        source.fail("it is an index of several files; load it by its path");
    return io::placed(io::read_any(source, options), options, loc);
}

Tensor load_tensor(const std::string &path, const LoadOptions &options, Location loc) {
    return io::only_one(load(path, options, loc), io::in_quotes(path), loc);
}

void load(Tensor &tensor, const std::string &path, const LoadOptions &options, Location loc) {
    tensor = load_tensor(path, options, loc);
}

void load(Tensor &tensor, std::istream &stream, const LoadOptions &options, Location loc) {
    tensor = io::only_one(load(stream, options, loc), "the stream", loc);
}

void load(std::vector<Tensor> &tensors, const std::string &path, const LoadOptions &options, Location loc) {
    tensors = load(path, options, loc).values();
}

void load(std::vector<Tensor> &tensors, std::istream &stream, const LoadOptions &options, Location loc) {
    tensors = load(stream, options, loc).values();
}

} // namespace lz
