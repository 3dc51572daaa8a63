#include "runtime/library/sort/ahead.h"

#include "runtime/library/avx512.h"

#include <cstring>
#include <type_traits>

namespace lz::runtime {

namespace {

/// The next kTogether elements of a row.
struct Group {
    int64_t begin;
    uint64_t fresh; ///< those that have not been looked at
};
inline Group group_at(int64_t from, int64_t extent) {
    const int64_t before = from + kTogether > extent ? from + kTogether - extent : 0;
    return {from - before, ~uint64_t{0} << before};
}

/// Whether all of kTogether elements are known to come behind `bound`, or with it: by vectors that every
/// x86-64 has, which do not compare integers of 64 bits.
template <class Storage, bool Descending>
bool all_behind(const Storage *in, Storage bound) {
    using Elements [[gnu::vector_size(16)]] = Storage;
    constexpr int64_t kLanes = sizeof(Elements) / sizeof(Storage);
    const Elements bounds = Elements{} + bound;
    auto behind = bounds == bounds; // no number is so behind NaN
    for (int64_t i = 0; i < kTogether; i += kLanes) {
        Elements x;
        std::memcpy(&x, in + i, sizeof(x));
        behind &= Descending ? x <= bounds : x >= bounds;
    }
    uint64_t words[2];
    std::memcpy(words, &behind, sizeof(words));
    return (words[0] & words[1]) == ~uint64_t{0};
}

/// On every machine.
template <class Storage, bool Descending>
Ahead find_anywhere(const Storage *row, int64_t from, int64_t extent, Storage bound) {
    for (; from < extent; from += kTogether) {
        const auto [begin, fresh] = group_at(from, extent);
        if constexpr (!std::is_same_v<Storage, int64_t>)
            if (all_behind<Storage, Descending>(row + begin, bound))
                continue;
        uint64_t places = 0;
        for (int64_t i = 0; i < kTogether; ++i)
            places |= uint64_t{!(Descending ? row[begin + i] <= bound : row[begin + i] >= bound)} << i;
        if ((places & fresh) != 0)
            return {begin, places & fresh};
    }
    return {extent, 0};
}

#if defined(LAZULI_AVX512)

/// A register of elements: `ahead` has a bit for each that is not known to come behind, or with, the bound.
template <class Storage>
struct Lanes;

#define LZ_INTEGER_LANES(TYPE, SUFFIX, SET)                                                                  \
    template <>                                                                                              \
    struct Lanes<TYPE> {                                                                                     \
        using Register = __m512i;                                                                            \
        LAZULI_AVX512 static Register broadcast(TYPE x) {                                                    \
            return _mm512_set1_##SET(static_cast<std::make_signed_t<TYPE>>(x));                              \
        }                                                                                                    \
        LAZULI_AVX512 static Register load(const TYPE *from) { return _mm512_loadu_si512(from); }            \
        template <bool Descending>                                                                           \
        LAZULI_AVX512 static uint64_t ahead(Register x, Register bound) {                                    \
            return Descending ? _mm512_cmpgt_##SUFFIX##_mask(x, bound)                                       \
                              : _mm512_cmplt_##SUFFIX##_mask(x, bound);                                      \
        }                                                                                                    \
    };
LZ_INTEGER_LANES(int8_t, epi8, epi8)
LZ_INTEGER_LANES(uint8_t, epu8, epi8)
LZ_INTEGER_LANES(int16_t, epi16, epi16)
LZ_INTEGER_LANES(int32_t, epi32, epi32)
LZ_INTEGER_LANES(int64_t, epi64, epi64)
#undef LZ_INTEGER_LANES

#define LZ_FLOAT_LANES(TYPE, REGISTER, SUFFIX)                                                               \
    template <>                                                                                              \
    struct Lanes<TYPE> {                                                                                     \
        using Register = REGISTER;                                                                           \
        LAZULI_AVX512 static Register broadcast(TYPE x) { return _mm512_set1_##SUFFIX(x); }                  \
        LAZULI_AVX512 static Register load(const TYPE *from) { return _mm512_loadu_##SUFFIX(from); }         \
        template <bool Descending>                                                                           \
        LAZULI_AVX512 static uint64_t ahead(Register x, Register bound) {                                    \
            return _mm512_cmp_##SUFFIX##_mask(x, bound, Descending ? _CMP_NLE_UQ : _CMP_NGE_UQ);             \
        }                                                                                                    \
    };
LZ_FLOAT_LANES(float, __m512, ps)
LZ_FLOAT_LANES(double, __m512d, pd)
#undef LZ_FLOAT_LANES

template <class Storage, bool Descending>
LAZULI_AVX512 Ahead find_by_avx512(const Storage *row, int64_t from, int64_t extent, Storage bound) {
    using L = Lanes<Storage>;
    constexpr int kLanes = 64 / sizeof(Storage);
    const auto bounds = L::broadcast(bound);
    for (; from < extent; from += kTogether) {
        const auto [begin, fresh] = group_at(from, extent);
        uint64_t places = 0;
#pragma GCC unroll 8
        for (int i = 0; i < kTogether; i += kLanes)
            places |= L::template ahead<Descending>(L::load(row + begin + i), bounds) << i;
        if ((places & fresh) != 0)
            return {begin, places & fresh};
    }
    return {extent, 0};
}

/// Floats in the order of integers, but for zeros, of which -0 is the lower one here, and NaNs.
LAZULI_AVX512 __m512i in_order(__m512i halves) {
    return _mm512_xor_si512(halves, _mm512_srli_epi16(_mm512_srai_epi16(halves, 15), 1));
}

template <uint16_t Infinity, bool Descending>
LAZULI_AVX512 Ahead find_half_by_avx512(const uint16_t *row, int64_t from, int64_t extent, uint16_t bound) {
    const uint64_t unknown = (bound & 0x7FFF) > Infinity ? ~uint64_t{0} : 0;
    const __m512i bounds = in_order(_mm512_set1_epi16(static_cast<int16_t>(bound))),
                  magnitude = _mm512_set1_epi16(0x7FFF), infinity = _mm512_set1_epi16(Infinity);
    for (; from < extent; from += kTogether) {
        const auto [begin, fresh] = group_at(from, extent);
        uint64_t places = unknown;
        for (int i = 0; i < kTogether; i += 32) {
            const __m512i x = _mm512_loadu_si512(row + begin + i);
            const uint64_t ahead = Descending ? _mm512_cmpgt_epi16_mask(in_order(x), bounds)
                                              : _mm512_cmplt_epi16_mask(in_order(x), bounds);
            places |= (ahead | _mm512_cmpgt_epi16_mask(_mm512_and_si512(x, magnitude), infinity)) << i;
        }
        if ((places & fresh) != 0)
            return {begin, places & fresh};
    }
    return {extent, 0};
}

#endif

} // namespace

template <class Storage>
FindAhead<Storage> find_ahead(bool descending) {
#if defined(LAZULI_AVX512)
    if (has_avx512())
        return descending ? find_by_avx512<Storage, true> : find_by_avx512<Storage, false>;
#endif
    return descending ? find_anywhere<Storage, true> : find_anywhere<Storage, false>;
}

template FindAhead<int8_t> find_ahead(bool);
template FindAhead<uint8_t> find_ahead(bool);
template FindAhead<int16_t> find_ahead(bool);
template FindAhead<int32_t> find_ahead(bool);
template FindAhead<int64_t> find_ahead(bool);
template FindAhead<float> find_ahead(bool);
template FindAhead<double> find_ahead(bool);

FindAhead<uint16_t> find_half_ahead([[maybe_unused]] uint16_t infinity, [[maybe_unused]] bool descending) {
#if defined(LAZULI_AVX512)
    if (has_avx512()) {
        if (infinity == 0x7C00)
            return descending ? find_half_by_avx512<0x7C00, true> : find_half_by_avx512<0x7C00, false>;
        return descending ? find_half_by_avx512<0x7F80, true> : find_half_by_avx512<0x7F80, false>;
    }
#endif
    return nullptr;
}

} // namespace lz::runtime
