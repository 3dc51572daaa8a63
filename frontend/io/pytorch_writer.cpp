// What torch.save(state_dict, path) writes (torch/serialization.py): an archive with a pickle of protocol 2,
// data.pkl, in which tensors name their storages, and an entry data/<key> for each storage. torch.load reads
// it with weights_only, too.
#include "frontend/io/formats.h"
#include "frontend/io/replaced_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <vector>

namespace lz::io {

namespace {

struct Storage {
    DType dtype;
    std::string_view name;
};
constexpr Storage kStorages[] = {
    {DType::Bool, "BoolStorage"},     {DType::U8, "ByteStorage"},   {DType::I8, "CharStorage"},
    {DType::I16, "ShortStorage"},     {DType::I32, "IntStorage"},   {DType::I64, "LongStorage"},
    {DType::F16, "HalfStorage"},      {DType::F32, "FloatStorage"}, {DType::F64, "DoubleStorage"},
    {DType::BF16, "BFloat16Storage"},
};

/// Opcodes, as Python's Lib/pickletools.py describes them.
class PickleWriter {
public:
    PickleWriter() { text_ = "\x80\x02"; }

    void begin_dict() {
        ordered_dict();
        text_ += '(';
    }
    void end_dict() { text_ += "u."; }
    void text(std::string_view value) {
        text_ += 'X';
        number(static_cast<uint32_t>(value.size()));
        text_ += value;
    }
    /// A row-major tensor of a storage.
    void tensor(const Tensor &x, const std::string &storage_key) {
        const auto *const storage = std::ranges::find(kStorages, x.dtype(), &Storage::dtype);
        global("torch._utils", "_rebuild_tensor_v2");
        text_ += "((";
        text("storage");
        global("torch", storage->name);
        text(storage_key);
        text("cpu");
        integer(x.numel());
        text_ += "tQ"; // a persistent id: the storage
        integer(0);    // where the tensor begins in it
        const Sizes sizes = x.sizes();
        std::vector<int64_t> strides(sizes.size(), 1);
        for (size_t i = sizes.size(); i > 1; --i)
            strides[i - 2] = strides[i - 1] * std::max<int64_t>(sizes[i - 1], 1);
        integers(sizes);
        integers(strides);
        text_ += '\x89'; // it does not require grad
        ordered_dict();  // hooks
        text_ += "tR";
    }
    const std::string &finished() const { return text_; }

private:
    template <class T>
    void number(T value) {
        text_.append(reinterpret_cast<const char *>(&value), sizeof value);
    }
    void global(std::string_view module, std::string_view name) {
        text_ += fmt::format("c{}\n{}\n", module, name);
    }
    void ordered_dict() {
        global("collections", "OrderedDict");
        text_ += ")R";
    }
    void integer(int64_t value) {
        if (value >= 0 && value <= std::numeric_limits<int32_t>::max()) {
            text_ += 'J';
            number(static_cast<int32_t>(value));
        } else {
            text_ += "\x8a\x08"; // so many bytes
            number(value);
        }
    }
    template <class Range>
    void integers(const Range &values) {
        text_ += '(';
        for (const int64_t value : values)
            integer(value);
        text_ += 't';
    }

    std::string text_;
};

/// The archive's folder is called as the file.
std::string folder_of(const std::string &path) {
    const size_t slash = path.find_last_of('/');
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    return name.substr(0, name.find_last_of('.'));
}

} // namespace

void write_pytorch(const StateDict &tensors, const std::string &path, Location loc) {
    PickleWriter pickle;
    std::vector<const Tensor *> storages;
    std::unordered_map<const void *, std::string> keys; // of tensors that have two names, too
    pickle.begin_dict();
    for (const auto &[name, tensor] : tensors) {
        const auto [key, is_new] = keys.emplace(tensor.id(), std::to_string(storages.size()));
        if (is_new)
            storages.push_back(&tensor);
        pickle.text(name);
        pickle.tensor(tensor, key->second);
    }
    pickle.end_dict();

    ReplacedFile file(path, "save", loc);
    ZipWriter archive(file);
    const std::string folder = folder_of(path) + "/";
    archive.add(folder + "data.pkl", pickle.finished(), {}, false);
    archive.add(folder + "byteorder", "little", {}, false);
    for (size_t i = 0; i < storages.size(); ++i) {
        const Tensor host = storages[i]->detach(loc).cpu(loc);
        archive.add(folder + "data/" + std::to_string(i), {}, elements_of(host, loc), false);
    }
    archive.add(folder + "version", "3\n", {}, false);
    archive.finish();
    file.commit();
}

} // namespace lz::io
