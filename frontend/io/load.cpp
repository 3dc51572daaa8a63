// Which format a file has, and where its tensors go.
#include "frontend/io/formats.h"

#include <fmt/format.h>

#include <vector>

namespace lz {

namespace io {

StateDict read_any(const Source &source, const LoadOptions &options) {
    // Eight characters of an index would be a length of a header beyond any file.
    if (source.begins_with("{"))
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

} // namespace
} // namespace io

void save(const StateDict &tensors, const std::string &path, const SaveOptions &options, Location loc) {
    // Whatever fails in computing them, fails before a file is touched.
    eval(io::all_of(tensors, "save", loc), loc);
    if (io::ends_with(path, ".safetensors"))
        return io::write_safetensors(tensors, path, options, loc);
    if (io::ends_with(path, ".npz"))
        return io::write_npz(tensors, path, options.compress, loc);
    if (io::ends_with(path, ".npy"))
        return io::write_npy(tensors, path, loc);
    if (io::ends_with(path, ".pt") || io::ends_with(path, ".pth"))
        return io::write_pytorch(tensors, path, loc);
    throw IoError(
        fmt::format("save: {} ends with none of .safetensors, .pt, .npz and .npy", io::in_quotes(path)), loc);
}

void save(const Tensor &tensor, const std::string &path, const SaveOptions &options, Location loc) {
    StateDict one;
    one.insert("tensor", tensor);
    save(one, path, options, loc);
}

StateDict load(const std::string &path, const LoadOptions &options, Location loc) {
    StateDict tensors = io::read_any(io::open_file(path, options.memory_map, "load", loc), options);
    if (!options.device || options.device->is_cpu())
        return tensors;
    for (auto &[name, tensor] : tensors)
        tensor = tensor.to(*options.device, loc);
    eval(tensors.values(), loc);
    return tensors;
}

Tensor load_tensor(const std::string &path, const LoadOptions &options, Location loc) {
    const StateDict tensors = load(path, options, loc);
    if (tensors.size() != 1)
        throw IoError(fmt::format("load_tensor: {} has {} tensors; `load` reads them all",
                                  io::in_quotes(path), tensors.size()),
                      loc);
    return tensors.items()[0].second;
}

} // namespace lz
