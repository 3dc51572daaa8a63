#pragma once
/// Bytes that a reader reads, and how they become tensors.

#include "lazuli/io.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lz::io {

/// How much unpacking and copying of views may still take.
class Budget {
public:
    /// LoadOptions::max_unpacked_bytes.
    explicit Budget(int64_t max_bytes) : max_(max_bytes) {}
    /// Whether so many bytes more are within it; takes them.
    bool take(uint64_t bytes);
    /// All of it, known after the first `take`.
    int64_t max() const { return max_; }

private:
    int64_t max_;
    uint64_t taken_ = 0;
};

/// The bytes of a file, or a part of them. Copies share what they read from.
struct Source {
    std::string name;                  ///< the path, as it was given
    std::span<const std::byte> bytes;  ///< all of it
    std::shared_ptr<const void> owner; ///< keeps `bytes`; null where someone else does
    const char *function = "load";     ///< what the user called
    Location loc;

    /// Throws IoError: `load: cannot read "model.npz": <what>`.
    [[noreturn]] void fail(const std::string &what) const;
    /// A little-endian number; `at` and its bytes have been checked.
    template <class T>
    T number(size_t at) const {
        T value;
        std::memcpy(&value, bytes.data() + at, sizeof value);
        return value;
    }
    /// The bytes as text.
    std::string_view text(size_t at, size_t size) const {
        return {reinterpret_cast<const char *>(bytes.data()) + at, size};
    }
    bool begins_with(std::string_view start) const {
        return bytes.size() >= start.size() && text(0, start.size()) == start;
    }
    /// The same owner and place, other bytes.
    Source part(std::string part_name, std::span<const std::byte> part_bytes) const {
        return {std::move(part_name), part_bytes, owner, function, loc};
    }
};

/// Maps the file, or reads it. Throws IoError.
Source open_file(const std::string &path, bool memory_map, const char *function, Location loc);

/// Bytes of so many elements; fails for a rank above 8, and for what no memory holds. `what` names the
/// tensor: `tensor "w"`.
uint64_t checked_bytes(const Source &source, const std::string &what, const Sizes &sizes, DType dtype);

/// Fails unless all bytes are 0 or 1.
void check_bools(const Source &source, const std::string &what, std::span<const std::byte> bytes);

/// A tensor on the CPU of `bytes`, which are a part of the source's: the memory itself where the address
/// suits the dtype, else a copy. Their number has been checked.
Tensor tensor_of(const Source &source, const std::string &what, std::span<const std::byte> bytes, DType dtype,
                 const Sizes &sizes);

/// Memory for elements that are still to be filled in.
class Buffer {
public:
    explicit Buffer(size_t bytes);
    std::byte *data() const { return data_.get(); }
    size_t size() const { return size_; }
    std::span<const std::byte> span() const { return {data_.get(), size_}; }
    std::shared_ptr<std::byte> owner() const { return data_; }

private:
    std::shared_ptr<std::byte> data_;
    size_t size_;
};

/// `"w"`, cut short and without what would spoil a line.
std::string in_quotes(std::string_view name);

} // namespace lz::io
