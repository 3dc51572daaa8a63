#include "lazuli/data/images.h"

#include "frontend/data/image_files.h"
#include "frontend/data/packed_file.h"
#include "lazuli/ops/views.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>

namespace lz::data {

namespace {

/// Adopts the text as elements.
Tensor adopted(std::string bytes, DType dtype, const Sizes &sizes, Location loc) {
    if (bytes.empty())
        return empty(sizes, {.dtype = dtype, .device = Device::cpu()}, loc);
    auto owner = std::make_unique<std::string>(std::move(bytes));
    Tensor made = lz::detail::tensor_adopting(
        owner->data(), dtype, sizes, [](void *, void *text) { delete static_cast<std::string *>(text); },
        owner.get(), loc);
    (void)owner.release();
    return made;
}

uint32_t big_endian(const std::string &bytes, size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < sizeof value; ++i)
        value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
    return value;
}

Tensor read_idx(const std::string &path, const char *function, Location loc) {
    PackedFile file(path, function, loc);
    const std::string magic = file.read_exactly(4, "its first number");
    struct Row {
        uint8_t code;
        DType dtype;
    };
    constexpr Row kDtypes[] = {{0x08, DType::U8},  {0x09, DType::I8},  {0x0b, DType::I16},
                               {0x0c, DType::I32}, {0x0d, DType::F32}, {0x0e, DType::F64}};
    const auto *row = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                   [&](const Row &r) { return r.code == static_cast<uint8_t>(magic[2]); });
    const auto rank = static_cast<size_t>(static_cast<uint8_t>(magic[3]));
    if (magic[0] != 0 || magic[1] != 0 || row == std::end(kDtypes) || rank == 0 || rank > 8)
        file.fail(fmt::format("it begins with {:#010x}, which is no IDX file", big_endian(magic, 0)));
    const std::string extents = file.read_exactly(4 * rank, "its shape");
    Sizes sizes;
    const auto width = static_cast<size_t>(size_of(row->dtype));
    uint64_t bytes = width;
    bool none = false;
    for (size_t i = 0; i < rank; ++i) {
        sizes.push_back(big_endian(extents, 4 * i));
        none |= sizes.back() == 0;
        // Of what has no elements, too: a tensor's strides are such numbers.
        const auto extent = std::max<uint64_t>(static_cast<uint64_t>(sizes.back()), 1);
        if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > INT64_MAX)
            file.fail("its shape has more elements than a 64-bit number can count");
    }
    if (none)
        bytes = 0;
    std::string elements = file.read_exactly(bytes, "its elements");
    file.check_end();
    if (width > 1) // big-endian in the file
        for (size_t at = 0; at < elements.size(); at += width)
            std::reverse(elements.begin() + static_cast<std::ptrdiff_t>(at),
                         elements.begin() + static_cast<std::ptrdiff_t>(at + width));
    return adopted(std::move(elements), row->dtype, sizes, loc);
}

std::string plain_or_packed(const std::string &path) {
    return !is_there(path) && is_there(path + ".gz") ? path + ".gz" : path;
}

Tensor as_floats(const Tensor &bytes, Location loc) {
    return div(bytes.to(DType::F32, loc), 255.0, loc);
}

std::array<Tensor, 2> read_mnist(const std::string &root, bool train, Location loc) {
    const std::string start = root + (train ? "/train" : "/t10k");
    const std::string images_path = plain_or_packed(start + "-images-idx3-ubyte"),
                      labels_path = plain_or_packed(start + "-labels-idx1-ubyte");
    const Tensor images = read_idx(images_path, "MNIST", loc), labels = read_idx(labels_path, "MNIST", loc);
    if (images.dim() != 3 || images.dtype() != DType::U8)
        throw IoError(fmt::format("MNIST: \"{}\" holds no images", images_path), loc);
    if (labels.dim() != 1 || labels.dtype() != DType::U8 || labels.size(0) != images.size(0))
        throw IoError(
            fmt::format("MNIST: \"{}\" holds no label for each of {} images", labels_path, images.size(0)),
            loc);
    return {as_floats(images.unsqueeze(1, loc), loc), labels.to(DType::I64, loc)};
}

std::array<Tensor, 2> tensors_of(ImageRecords records, Location loc) {
    const auto count = static_cast<int64_t>(records.labels.size());
    const Tensor images = adopted(std::move(records.pixels), DType::U8, {count, 3, 32, 32}, loc);
    return {as_floats(images, loc), tensor(records.labels, {.device = Device::cpu()}, loc)};
}

std::array<Tensor, 2> read_cifar10(const std::string &root, bool train, Location loc) {
    std::vector<std::string> paths = {root + "/test_batch.bin"};
    if (train) {
        paths.clear();
        for (int i = 1; i <= 5; ++i)
            paths.push_back(fmt::format("{}/data_batch_{}.bin", root, i));
    }
    return tensors_of(read_cifar(paths, 1, 10, "CIFAR10", loc), loc);
}

} // namespace

ImageRecords read_cifar(const std::vector<std::string> &paths, size_t label_bytes, int classes,
                        const char *function, Location loc) {
    constexpr size_t kImage = size_t{3} * 32 * 32, kMaxRecords = 1'000'000;
    const size_t record = label_bytes + kImage;
    ImageRecords out;
    for (const std::string &path : paths) {
        PackedFile file(plain_or_packed(path), function, loc);
        const std::string bytes = file.read(record * kMaxRecords);
        file.check_end();
        if (bytes.empty() || bytes.size() % record != 0)
            file.fail(fmt::format("it has {} bytes, which are not records of {}", bytes.size(), record));
        for (size_t at = 0; at < bytes.size(); at += record) {
            const auto label = static_cast<uint8_t>(bytes[at + label_bytes - 1]);
            if (label >= classes)
                file.fail(fmt::format("record {} has the label {}; there are {} classes", at / record, label,
                                      classes));
            out.labels.push_back(label);
            out.pixels.append(bytes, at + label_bytes, kImage);
        }
    }
    return out;
}

Tensor read_idx(const std::string &path, Location loc) {
    return read_idx(path, "read_idx", loc);
}

MNIST::MNIST(const std::string &root, bool train, Location loc)
    : TensorDataset<2>(read_mnist(root, train, loc), loc) {}
CIFAR10::CIFAR10(const std::string &root, bool train, Location loc)
    : TensorDataset<2>(read_cifar10(root, train, loc), loc) {}
CIFAR100::CIFAR100(const std::string &root, bool train, Location loc)
    : TensorDataset<2>(
          tensors_of(read_cifar({root + (train ? "/train.bin" : "/test.bin")}, 2, 100, "CIFAR100", loc), loc),
          loc) {}

} // namespace lz::data
