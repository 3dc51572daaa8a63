#include "runtime/library/element.h"
#include "runtime/library/functions.h"

#include "runtime/api/parallel.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <utility>

namespace lz::runtime {

namespace {

/// Elements worth handing to another thread.
constexpr int64_t kRange = 4096;
/// From this length on counting digits beats comparing.
constexpr int64_t kRadixLength = 2048;
constexpr int kDigitBits = 11;

/// An unsigned key whose order is the dtype's: NaN above everything, -0 equal to +0.
template <ir::DType D>
auto key_of(typename Element<D>::Storage value) {
    using Storage = typename Element<D>::Storage;
    if constexpr (ir::is_float(D)) {
        using Bits = std::conditional_t<sizeof(Storage) == 2, uint16_t,
                                        std::conditional_t<sizeof(Storage) == 4, uint32_t, uint64_t>>;
        constexpr auto kSign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
        // Bits of infinity: what is above, without the sign, is NaN.
        constexpr auto kInfinity = static_cast<Bits>(D == ir::DType::F16    ? 0x7C00
                                                     : D == ir::DType::BF16 ? 0x7F80
                                                     : D == ir::DType::F32  ? 0x7F800000
                                                                            : 0x7FF0000000000000);
        auto bits = std::bit_cast<Bits>(value);
        auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
        if (magnitude > kInfinity)
            return std::numeric_limits<Bits>::max();
        if (magnitude == 0)
            return kSign;
        return static_cast<Bits>(bits & kSign ? ~bits : bits | kSign);
    } else if constexpr (D == ir::DType::Bool || D == ir::DType::U8) {
        return static_cast<uint8_t>(value);
    } else {
        using Unsigned = std::make_unsigned_t<Storage>;
        constexpr auto kSign = static_cast<Unsigned>(Unsigned{1} << (sizeof(Unsigned) * 8 - 1));
        return static_cast<Unsigned>(static_cast<Unsigned>(value) ^ kSign);
    }
}

/// A key with the place it came from, ordered by both: no two are equal, so that any sort is a stable one.
struct Packed { ///< keys to 32 bits, rows to 2^32 elements
    uint64_t bits;
    static Packed make(uint64_t key, int64_t place) { return {key << 32 | static_cast<uint64_t>(place)}; }
    uint64_t key() const { return bits >> 32; }
    int64_t place() const { return static_cast<int64_t>(bits & UINT32_MAX); }
    friend bool operator<(Packed a, Packed b) { return a.bits < b.bits; }
};
struct Wide {
    uint64_t bits;
    int64_t from;
    static Wide make(uint64_t key, int64_t place) { return {key, place}; }
    uint64_t key() const { return bits; }
    int64_t place() const { return from; }
    friend bool operator<(const Wide &a, const Wide &b) {
        return a.bits != b.bits ? a.bits < b.bits : a.from < b.from;
    }
};

/// Least significant digit first, each pass stable; digits that are the same everywhere cost no pass. Returns
/// where the sorted items are: `items` or `other`.
template <class Item>
Item *radix_sort(Item *items, Item *other, int64_t n, int key_bits) {
    constexpr size_t kDigits = size_t{1} << kDigitBits;
    for (int shift = 0; shift < key_bits; shift += kDigitBits) {
        std::array<int64_t, kDigits> place{};
        auto digit = [shift](const Item &item) {
            return static_cast<size_t>(item.key() >> shift) & (kDigits - 1);
        };
        for (int64_t i = 0; i < n; ++i)
            ++place[digit(items[i])];
        if (place[digit(items[0])] == n)
            continue;
        int64_t sum = 0;
        for (int64_t &count : place)
            sum += std::exchange(count, sum);
        for (int64_t i = 0; i < n; ++i)
            other[place[digit(items[i])]++] = items[i];
        std::swap(items, other);
    }
    return items;
}

template <ir::DType D>
struct Sort {
    using Storage = typename Element<D>::Storage;

    /// One row, whose elements are `step` apart.
    template <class Item>
    static void row(const Storage *in, Storage *values, int64_t *indices, int64_t n, int64_t step,
                    bool descending, Item *items, Item *other) {
        using Key = decltype(key_of<D>(Storage{}));
        for (int64_t i = 0; i < n; ++i) {
            Key key = key_of<D>(in[i * step]);
            items[i] = Item::make(descending ? static_cast<Key>(~key) : key, i);
        }
        if (n >= kRadixLength)
            items = radix_sort(items, other, n, static_cast<int>(sizeof(Key)) * 8);
        else
            std::sort(items, items + n);
        for (int64_t i = 0; i < n; ++i) {
            int64_t place = items[i].place();
            values[i * step] = in[place * step];
            indices[i * step] = place;
        }
    }

    template <class Item>
    static void rows(const LibraryArgs &args) {
        const int64_t outer = args.ints[1], extent = args.ints[2], inner = args.ints[3];
        const bool descending = args.ints[4] != 0;
        const auto *in = static_cast<const Storage *>(args.buffers[0]);
        auto *values = static_cast<Storage *>(args.buffers[1]);
        auto *indices = static_cast<int64_t *>(args.buffers[2]);
        parallel_for(outer * inner, kRange / extent + 1, [&](int64_t begin, int64_t end) {
            auto length = static_cast<size_t>(extent);
            auto items = std::make_unique_for_overwrite<Item[]>(length);
            auto other = std::make_unique_for_overwrite<Item[]>(extent >= kRadixLength ? length : 0);
            for (int64_t r = begin; r < end; ++r) {
                int64_t at = r / inner * extent * inner + r % inner;
                row(in + at, values + at, indices + at, extent, inner, descending, items.get(), other.get());
            }
        });
    }

    static void run(const LibraryArgs &args) {
        if (args.ints[1] == 0 || args.ints[2] == 0 || args.ints[3] == 0)
            return;
        if (sizeof(Storage) <= 4 && args.ints[2] <= INT64_C(0xFFFFFFFF))
            rows<Packed>(args);
        else
            rows<Wide>(args);
    }
};

} // namespace

void sort(const LibraryArgs &args) {
    DTypeTable<Sort>::at(args.ints[0])(args);
}

} // namespace lz::runtime
