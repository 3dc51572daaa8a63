// torch/serialization.py: an archive with a pickle, data.pkl, and an entry data/<key> for each storage.
#include "frontend/io/formats.h"
#include "frontend/io/pickle.h"
#include "frontend/io/strided.h"

#include "lazuli/ops/views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace lz::io {

namespace {

/// Makes tensors of an archive's storages.
class Storages {
public:
    Storages(const Source &source, const ZipReader &archive, std::string folder, Budget &budget)
        : source_(source), archive_(archive), folder_(std::move(folder)), budget_(budget) {}

    Tensor make(const PickledTensor &t) {
        const std::string what = "a tensor of storage " + in_quotes(t.storage);
        const uint64_t bytes = checked_bytes(source_, what, t.sizes, t.dtype);
        const Source storage = open(t);
        if (t.sizes.size() != t.strides.size())
            source_.fail(
                fmt::format("{} has {} sizes and {} strides", what, t.sizes.size(), t.strides.size()));
        if (bytes == 0)
            return tensor_of(storage, what, {}, t.dtype, t.sizes);
        check_within(t, what);
        const auto width = static_cast<size_t>(size_of(t.dtype));
        const auto begin = static_cast<size_t>(t.offset) * width;
        if (is_row_major(t.sizes, t.strides))
            return tensor_of(storage, what, storage.bytes.subspan(begin, bytes), t.dtype, t.sizes);
        if (!budget_.take(bytes))
            source_.fail(
                fmt::format("{} is a view of shape [{}], which is more than the {} bytes that may be taken "
                            "(max_unpacked_bytes)",
                            what, fmt::join(t.sizes, ","), budget_.max()));
        return gathered(t, storage, begin, what);
    }

private:
    Source open(const PickledTensor &t) {
        const auto width = static_cast<uint64_t>(size_of(t.dtype));
        auto found = opened_.find(t.storage);
        if (found == opened_.end()) {
            const ZipEntry *const entry = archive_.find(folder_ + "data/" + t.storage);
            if (!entry)
                source_.fail(fmt::format("storage {} is not in it", in_quotes(t.storage)));
            found = opened_.emplace(t.storage, archive_.open(*entry, budget_, false)).first;
        }
        if (t.storage_numel < 0 ||
            static_cast<uint64_t>(t.storage_numel) > found->second.bytes.size() / width)
            source_.fail(fmt::format("storage {} would have {} elements of {}, and {} bytes are there",
                                     in_quotes(t.storage), t.storage_numel, name(t.dtype),
                                     found->second.bytes.size()));
        return found->second;
    }
    void check_within(const PickledTensor &t, const std::string &what) const {
        __int128 last = t.offset, distinct = 1;
        bool wrong = t.offset < 0;
        for (size_t i = 0; i < t.sizes.size(); ++i) {
            wrong |= t.strides[i] < 0;
            last += static_cast<__int128>(t.sizes[i] - 1) * t.strides[i];
            wrong |= last >= t.storage_numel;
            if (t.strides[i] != 0 && !wrong)
                distinct *= t.sizes[i];
        }
        if (wrong || last >= t.storage_numel)
            source_.fail(fmt::format(
                "{} with sizes [{}], strides [{}] and offset {} reaches beyond the storage's {} "
                "elements",
                what, fmt::join(t.sizes, ","), fmt::join(t.strides, ","), t.offset, t.storage_numel));
        if (distinct > t.storage_numel)
            source_.fail(fmt::format("{} with sizes [{}] and strides [{}] has elements that overlap", what,
                                     fmt::join(t.sizes, ","), fmt::join(t.strides, ",")));
    }
    /// A copy in row-major order; axes of stride 0 are expanded, not copied.
    Tensor gathered(const PickledTensor &t, const Source &storage, size_t begin,
                    const std::string &what) const {
        Sizes sizes = t.sizes;
        for (size_t i = 0; i < sizes.size(); ++i)
            if (t.strides[i] == 0)
                sizes[i] = 1;
        const Buffer buffer = in_row_major_order(storage.bytes.data() + begin, sizes, t.strides,
                                                 static_cast<size_t>(size_of(t.dtype)));
        Source copy = storage;
        copy.bytes = buffer.span();
        copy.owner = buffer.owner();
        const Tensor made = tensor_of(copy, what, copy.bytes, t.dtype, sizes);
        return sizes == t.sizes ? made : made.expand(t.sizes, source_.loc);
    }

    const Source &source_;
    const ZipReader &archive_;
    std::string folder_;
    Budget &budget_;
    std::map<std::string, Source> opened_;
};

} // namespace

const ZipEntry *pickle_of(const ZipReader &archive) {
    for (const ZipEntry &entry : archive.entries())
        if (entry.name == "data.pkl" || (entry.name.ends_with("/data.pkl") &&
                                         entry.name.find('/') == entry.name.size() - sizeof("data.pkl")))
            return &entry;
    return nullptr;
}

bool is_old_pytorch(const Source &source) {
    return source.begins_with("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");
}

PickleValue read_pytorch(const Source &source, const ZipReader &archive, Budget &budget,
                         const std::function<Tensor(const Tensor &)> &place) {
    const ZipEntry *const pickle = pickle_of(archive);
    if (!pickle)
        source.fail("it is an archive without data.pkl, and not of PyTorch");
    const std::string folder = pickle->name.substr(0, pickle->name.size() - (sizeof("data.pkl") - 1));
    if (const ZipEntry *const order = archive.find(folder + "byteorder")) {
        const Source text = archive.open(*order, budget, false);
        if (text.text(0, text.bytes.size()) != "little")
            source.fail("its numbers are big-endian; save it on a little-endian machine");
    }
    Storages storages(source, archive, folder, budget);
    Source program = archive.open(*pickle, budget, false);
    program.name = source.name;
    return unpickle(program, [&](const PickledTensor &tensor) { return place(storages.make(tensor)); });
}

PickleValue load_pytorch(const std::string &path, const LoadOptions &options, Location loc) {
    const Source source = open_file(path, options.memory_map, "load_pytorch", loc);
    if (is_old_pytorch(source))
        source.fail(kOldPytorch);
    Budget budget(options.max_unpacked_bytes);
    std::vector<Tensor> moved;
    const PickleValue value = read_pytorch(source, ZipReader(source), budget, [&](const Tensor &tensor) {
        if (!options.device)
            return tensor;
        moved.push_back(tensor.to(*options.device, loc));
        return moved.back();
    });
    eval(moved, loc);
    return value;
}

} // namespace lz::io
