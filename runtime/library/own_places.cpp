#include "runtime/library/own_places.h"

#include "runtime/library/avx512.h"

#include <array>
#include <bit>
#include <cstring>
#include <numeric>

namespace lz::runtime {

namespace {

constexpr auto kAll = [] {
    std::array<int32_t, kPlacesAtOnce> all{};
    std::iota(all.begin(), all.end(), 0);
    return all;
}();

bool any_outside(const int64_t *places, int64_t length, int64_t extent) {
    using Words [[gnu::vector_size(16)]] = uint64_t;
    constexpr int64_t kWords = 2;
    const uint64_t last = static_cast<uint64_t>(extent) - 1;
    Words signs{}; // set where the place is negative, or what is left behind it
    int64_t i = 0;
    for (; i + kWords <= length; i += kWords) {
        Words some;
        std::memcpy(&some, places + i, sizeof(some));
        signs |= some | (last - some);
    }
    bool any = (signs[0] | signs[1]) >> 63;
    for (; i < length; ++i)
        any |= is_outside(places[i], extent);
    return any;
}

/// How many places were looked at, how many of them are in the range, and whether some are outside the axis.
struct Picked {
    int64_t looked_at = 0, count = 0;
    bool outside = false;
};

#if defined(LAZULI_AVX512)
/// Looks at whole groups of 16 places. They may be where those in the range go: a group is read before what
/// is in it goes there.
LAZULI_AVX512 Picked pick(const int64_t *places, int64_t length, const PlaceRange &range, int64_t *own_places,
                          int32_t *positions) {
    const __m512i low = _mm512_set1_epi64(range.low), own = _mm512_set1_epi64(range.high - range.low),
                  all = _mm512_set1_epi64(range.extent);
    int64_t i = 0, count = 0;
    unsigned outside = 0;
    for (; i + 16 <= length; i += 16) {
        const __m512i a = _mm512_loadu_si512(places + i), b = _mm512_loadu_si512(places + i + 8),
                      at = _mm512_loadu_si512(kAll.data() + i);
        outside |= static_cast<unsigned>(_mm512_cmpge_epu64_mask(a, all) | _mm512_cmpge_epu64_mask(b, all));
        const __mmask8 in_a = _mm512_cmplt_epu64_mask(_mm512_sub_epi64(a, low), own),
                       in_b = _mm512_cmplt_epu64_mask(_mm512_sub_epi64(b, low), own);
        const auto in = static_cast<__mmask16>(in_a | in_b << 8);
        _mm512_storeu_si512(own_places + count, _mm512_maskz_compress_epi64(in_a, a));
        _mm512_storeu_si512(own_places + count + std::popcount(in_a), _mm512_maskz_compress_epi64(in_b, b));
        _mm512_storeu_si512(positions + count, _mm512_maskz_compress_epi32(in, at));
        count += std::popcount(in);
    }
    return {i, count, outside != 0};
}
#endif

} // namespace

OwnPlaces find_own_places(const int64_t *places, int64_t length, const PlaceRange &range, int64_t *own_places,
                          int32_t *positions) {
    const auto own = static_cast<uint64_t>(range.high - range.low);
    if (own == static_cast<uint64_t>(range.extent) && !any_outside(places, length, range.extent))
        return {length, places, kAll.data(), false};
    Picked picked;
#if defined(LAZULI_AVX512)
    if (has_avx512())
        picked = pick(places, length, range, own_places, positions);
#endif
    auto [i, count, outside] = picked;
    for (; i < length; ++i) { // without a branch: indices come in any order
        const int64_t place = places[i];
        outside |= is_outside(place, range.extent);
        own_places[count] = place;
        positions[count] = static_cast<int32_t>(i);
        count += static_cast<uint64_t>(place) - static_cast<uint64_t>(range.low) < own;
    }
    return {count, own_places, positions, outside};
}

} // namespace lz::runtime
