#pragma once
/// What is sorted: keys, whose order as unsigned integers is that of the elements, with the places they come
/// from.

#include "ir/types/dtype.h"
#include "runtime/library/element.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lz::runtime {

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

} // namespace lz::runtime
