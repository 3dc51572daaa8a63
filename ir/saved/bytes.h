#pragma once
/// Values in a file, one after the other. For this folder alone.

#include "ir/diagnostic.h"
#include "ir/location.h"
#include "ir/types/type.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lz::ir {

[[noreturn]] inline void damaged(const std::string &what) {
    throw Failure(ErrorKind::Io, "is damaged: " + what);
}

class ByteWriter {
public:
    template <class T>
    void put(T value)
        requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
    {
        put(std::as_bytes(std::span(&value, 1)));
    }
    void put(bool value) { put(static_cast<uint8_t>(value)); }
    void put(std::string_view text) {
        put_count(text.size());
        put(std::as_bytes(std::span(text)));
    }
    void put(const std::string &text) { put(std::string_view(text)); }
    void put(const TensorType &type) {
        put(type.dtype);
        put(type.device.kind);
        put(type.device.index);
        put(static_cast<uint8_t>(type.shape.rank()));
        for (const int64_t extent : type.shape)
            put(extent);
    }
    void put(const Location &loc) {
        put(std::string_view(loc.known() ? loc.file : ""));
        put(loc.line);
        put(function_name(loc.function));
    }
    void put(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    void put_count(size_t count) {
        LZ_CHECK(count <= std::numeric_limits<uint32_t>::max(), "a program file holds fewer");
        put(static_cast<uint32_t>(count));
    }
    template <class T, class F>
    void put_each(const std::vector<T> &items, F &&f) {
        put_count(items.size());
        for (const T &item : items)
            f(item);
    }
    void align(size_t to) { bytes_.resize((bytes_.size() + to - 1) / to * to); }
    size_t size() const { return bytes_.size(); }
    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

/// Every get throws damaged() where the bytes end or hold what cannot be.
class ByteReader {
public:
    explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <class T>
    void get(T &value)
        requires std::is_arithmetic_v<T>
    {
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
    }
    void get(bool &value) {
        const auto byte = get_as<uint8_t>();
        if (byte > 1)
            damaged("a yes or no is neither");
        value = byte != 0;
    }
    void get(std::string &text) {
        const auto bytes = take(count(1));
        text.assign(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    }
    void get(TensorType &type) {
        type.dtype = get_enum<DType>(static_cast<uint8_t>(kNumDTypes));
        type.device.kind = get_enum<DeviceKind>(2);
        get(type.device.index);
        const auto rank = get_as<uint8_t>();
        if (rank > kMaxRank)
            damaged("a shape has too many axes");
        type.shape = Shape();
        int64_t elements = 1;
        for (uint8_t axis = 0; axis < rank; ++axis) {
            const auto extent = get_as<int64_t>();
            if (extent < 0)
                damaged("an extent is negative");
            if (__builtin_mul_overflow(elements, extent == 0 ? 1 : extent, &elements) ||
                elements > kMostElements)
                damaged("a tensor is larger than memory can be");
            type.shape.push_back(extent);
        }
    }
    void get(Location &loc) {
        const auto file = get_as<std::string>();
        get(loc.line);
        const auto function = get_as<std::string>();
        loc.file = file.empty() ? nullptr : intern_file(file);
        loc.function = function.empty() ? uint16_t{0} : intern_function(function);
    }
    template <class T>
    T get_as() {
        T value{};
        get(value);
        return value;
    }
    template <class E>
    E get_enum(uint8_t count) {
        const auto value = get_as<uint8_t>();
        if (value >= count)
            damaged("a kind is unknown");
        return static_cast<E>(value);
    }
    /// How many items follow, of at least so many bytes each.
    uint32_t count(size_t bytes_each) {
        const auto n = get_as<uint32_t>();
        if (n > rest_.size() / bytes_each)
            damaged("a list is longer than the file");
        return n;
    }
    template <class T, class F>
    void get_each(std::vector<T> &items, size_t bytes_each, F &&f) {
        items.resize(count(bytes_each));
        for (T &item : items)
            f(item);
    }
    bool at_end() const { return rest_.empty(); }

private:
    static constexpr int64_t kMostElements = int64_t{1} << 56;

    std::span<const std::byte> take(size_t bytes) {
        if (bytes > rest_.size())
            damaged("it ends early");
        const auto taken = rest_.first(bytes);
        rest_ = rest_.subspan(bytes);
        return taken;
    }
    std::span<const std::byte> rest_;
};

} // namespace lz::ir
