#include "frontend/io/source.h"

#include "lazuli/device/memory.h"
#include "lazuli/ops/creation.h"

#include <fmt/format.h>

#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lz::io {

namespace {

constexpr size_t kAlignment = 64; // of memory that is ours, as the allocator's

struct Descriptor {
    int fd = -1;
    ~Descriptor() {
        if (fd >= 0)
            close(fd);
    }
};

std::string system_says(int error) {
    return std::strerror(error);
}

} // namespace

bool Budget::take(uint64_t bytes) {
    if (max_ <= 0)
        max_ = mem_get_info(Device::cpu()).first;
    if (bytes > static_cast<uint64_t>(max_) || taken_ > static_cast<uint64_t>(max_) - bytes)
        return false;
    taken_ += bytes;
    return true;
}

void Source::fail(const std::string &what) const {
    throw IoError(fmt::format("{}: cannot read {}: {}", function, in_quotes(name), what), loc);
}

std::string in_quotes(std::string_view name) {
    constexpr size_t kShown = 200;
    std::string out = "\"";
    for (const char c : name.substr(0, kShown))
        out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
    return out + (name.size() > kShown ? "...\"" : "\"");
}

Buffer::Buffer(size_t bytes)
    : data_(
          static_cast<std::byte *>(::operator new(std::max<size_t>(bytes, 1), std::align_val_t(kAlignment))),
          [](std::byte *p) { ::operator delete(p, std::align_val_t(kAlignment)); }),
      size_(bytes) {}

Source open_file(const std::string &path, bool memory_map, const char *function, Location loc) {
    Source source{path, {}, nullptr, function, loc};
    const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (file.fd < 0)
        source.fail(system_says(errno));
    struct stat status{};
    if (fstat(file.fd, &status) != 0)
        source.fail(system_says(errno));
    if (!S_ISREG(status.st_mode))
        source.fail("it is no regular file");
    const auto size = static_cast<size_t>(status.st_size);
    if (size == 0)
        return source;
    if (memory_map) {
        // Private and writable: who writes through `mutable_data` gets pages of its own, and the file stays.
        void *const pages =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.fd, 0);
        if (pages == MAP_FAILED)
            source.fail(system_says(errno));
        source.owner = std::shared_ptr<const void>(
            pages, [size](const void *p) { munmap(const_cast<void *>(p), size); });
        source.bytes = {static_cast<const std::byte *>(pages), size};
        return source;
    }
    const Buffer buffer(size);
    for (size_t got = 0; got < size;) {
        const ssize_t n = read(file.fd, buffer.data() + got, size - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            source.fail(system_says(errno));
        if (n == 0)
            source.fail(fmt::format("it ended after {} of {} bytes while it was read", got, size));
        got += static_cast<size_t>(n);
    }
    source.owner = buffer.owner();
    source.bytes = buffer.span();
    return source;
}

uint64_t checked_bytes(const Source &source, const std::string &what, const Sizes &sizes, DType dtype) {
    constexpr size_t kMaxRank = 8;
    if (sizes.size() > kMaxRank)
        source.fail(fmt::format("{} has {} axes; a tensor has at most {}", what, sizes.size(), kMaxRank));
    int64_t bytes = size_of(dtype);
    bool none = false;
    for (const int64_t extent : sizes) {
        if (extent < 0)
            source.fail(fmt::format("{} has an axis of {} elements", what, extent));
        none |= extent == 0;
        if (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes))
            source.fail(what + " has more elements than a 64-bit number can count");
    }
    return none ? 0 : static_cast<uint64_t>(bytes);
}

void check_bools(const Source &source, const std::string &what, std::span<const std::byte> bytes) {
    for (const std::byte b : bytes)
        if (static_cast<uint8_t>(b) > 1)
            source.fail(fmt::format("{} is of bools and has the byte {}", what, static_cast<int>(b)));
}

Tensor tensor_of(const Source &source, const std::string &what, std::span<const std::byte> bytes, DType dtype,
                 const Sizes &sizes) {
    if (bytes.empty())
        return empty(sizes, {.dtype = dtype, .device = Device::cpu()}, source.loc);
    if (dtype == DType::Bool)
        check_bools(source, what, bytes);
    auto *const data = const_cast<std::byte *>(bytes.data()); // the pages are private: see open_file
    if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(dtype)) != 0)
        return from_blob(static_cast<const void *>(data), sizes, {.dtype = dtype, .device = Device::cpu()},
                         source.loc);
    auto context = std::make_unique<std::shared_ptr<const void>>(source.owner);
    Tensor made = detail::tensor_adopting(
        data, dtype, sizes,
        [](void *, void *owner) { delete static_cast<std::shared_ptr<const void> *>(owner); }, context.get(),
        source.loc);
    context.release();
    return made;
}

} // namespace lz::io
