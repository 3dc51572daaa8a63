// Products of bf16 by the dot product of pairs (AVX512-BF16), with the bits of fused multiply-adds in f32.
//
// The instruction adds to a sum the product of a pair's high halves and then that of its low halves, each by
// one fused multiply-add. So of two neighbours along k the first one lies in the high half of a pair, and
// sums are those of ascending k. But it takes subnormals, of operands, of sums and between the two steps, for
// zero, and subnormals count (S66). Where none can arise it is the same: each product is a multiple of
// 2^-14 of the product of its factors' powers of two, and so are sums of them. If that is at least
// the smallest normal number for the smallest factors that there are, every sum is zero or normal. Packing
// leaves the smallest exponent behind each panel (exponent_of); tiles for which it is too small are
// multiplied in f32.

#include "ir/host/product/parts.h"

#if defined(__x86_64__)

#define LZ_AVX512_TARGET "avx512f,avx512bw,avx512vl,avx512bf16"
#include "ir/host/product/avx512_tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lz::ir {
namespace {

/// Pairs of bf16 in memory, sums of f32 in registers.
struct PairLanes : FloatLanes {
    LZ_AVX512_INLINE Register add_product(Register sum, Register x, Register y) {
        return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(y));
    }
};

// --- the exponents of a panel

/// Biased exponents of the smallest factors of two panels from which on no sum of their products can be
/// subnormal: 2^(x - 127) * 2^(y - 127) * 2^-14 is at least 2^-126.
constexpr int32_t kSafeExponents = 142;
/// That of a panel which has a subnormal or what is not finite: with no other's it is enough.
constexpr int32_t kNoExponent = -1000;
/// Sums that a pass begins with lie between these bits, or are zero: they are multiples of what products are
/// multiples of, or larger.
constexpr uint32_t kLeastSum = 0x0c800000, kInfinity = 0x7f800000; // 2^-102

/// The least and the greatest magnitude of what was packed, but for zeros.
struct Magnitudes {
    __m512i least = {}, greatest = {}; ///< 16 bits each, the former less 1

    LZ_AVX512_INLINE Magnitudes none() { return {_mm512_set1_epi16(-1), _mm512_setzero_si512()}; }
    LZ_AVX512_INLINE void add(Magnitudes &m, __m512i halves) {
        const __m512i magnitude = _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
        m.least = _mm512_min_epu16(m.least, _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)));
        m.greatest = _mm512_max_epu16(m.greatest, magnitude);
    }
    LZ_AVX512_INLINE int32_t exponent(const Magnitudes &m) {
        alignas(64) uint16_t least[32], greatest[32];
        _mm512_store_si512(least, m.least);
        _mm512_store_si512(greatest, m.greatest);
        uint32_t low = 0xffff, high = 0;
        for (int l = 0; l < 32; ++l) {
            low = low < least[l] ? low : least[l];
            high = high > greatest[l] ? high : greatest[l];
        }
        const auto exponent = static_cast<int32_t>((low + 1) >> 7);
        return exponent == 0 || high >= 0x7f80 ? kNoExponent : exponent;
    }
};

/// Where it stands: behind `steps` steps of a panel of so many rows.
int32_t exponent_of(const void *panel, int64_t steps, int64_t rows) {
    return static_cast<const int32_t *>(panel)[steps * rows];
}

// --- the microkernel

/// Whether sums that a pass begins with are such that none after them can be subnormal.
LZ_AVX512 bool sums_are_safe(const ProductTile &tile) {
    for (int64_t i = 0; i < tile.rows; ++i) {
        const float *const row = static_cast<const float *>(tile.sums) + i * tile.sums_row;
        for (int64_t j = 0; j < tile.width; j += FloatLanes::kCount) {
            const __m512i magnitude = _mm512_and_si512(
                _mm512_castps_si512(FloatLanes::load(row + j, first_lanes<FloatLanes>(tile.width - j))),
                _mm512_set1_epi32(0x7fffffff));
            const __m512i above = _mm512_sub_epi32(magnitude, _mm512_set1_epi32(kLeastSum));
            const __mmask16 other =
                _mm512_cmpge_epu32_mask(above, _mm512_set1_epi32(static_cast<int>(kInfinity - kLeastSum)));
            if (_mm512_mask_test_epi32_mask(other, magnitude, magnitude))
                return false;
        }
    }
    return true;
}

/// The same in f32, a register of columns after the other.
template <int Rows>
LZ_AVX512 void multiply_widened(const ProductTile &tile) {
    using L = FloatLanes;
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    for (int64_t column = 0; column < tile.width; column += L::kCount) {
        const L::Mask mask = first_lanes<L>(tile.width - column);
        __m512 sum[Rows];
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i)
            sum[i] = tile.first ? L::zero() : L::load(sums_of<float>(tile, i) + column, mask);
        const auto *lhs = static_cast<const float *>(tile.lhs);
        const float *rhs = static_cast<const float *>(tile.rhs) + column;
        for (int64_t step = 0; step < tile.steps; ++step, lhs += tile.lhs_step, rhs += tile.rhs_step) {
            const __m512i y = _mm512_castps_si512(L::load(rhs));
            const __m512 y0 = _mm512_castsi512_ps(_mm512_and_si512(y, high)),
                         y1 = _mm512_castsi512_ps(_mm512_slli_epi32(y, 16));
#pragma GCC unroll 14
            for (int i = 0; i < Rows; ++i) {
                const __m512i x = _mm512_castps_si512(L::broadcast(lhs + i * tile.lhs_row));
                sum[i] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, high)), y0, sum[i]);
                sum[i] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)), y1, sum[i]);
            }
        }
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i)
            L::store(sums_of<float>(tile, i) + column, sum[i], mask);
    }
}

/// Whether this processor's instruction does what is said above, in that order and with two roundings, seen
/// by sums that others would make otherwise.
LZ_AVX512 bool instruction_is_known() {
    const auto dot = [](float sum, uint32_t x, uint32_t y) LZ_AVX512 {
        const __m512 sums = PairLanes::add_product(
            _mm512_set1_ps(sum), _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(x))),
            _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(y))));
        return _mm512_cvtss_f32(sums);
    };
    const auto expected = [](float sum, uint32_t x, uint32_t y) LZ_AVX512 {
        const auto half = [](uint32_t bits) { return std::bit_cast<float>(bits); };
        return std::fma(half(x << 16), half(y << 16),
                        std::fma(half(x & 0xffff0000u), half(y & 0xffff0000u), sum));
    };
    struct {
        float sum;
        uint32_t x, y;
    } const kCases[] = {
        {0x1p24F, 0x3f803f80, 0x3f803f80},    // 2^24 + 1 + 1: two roundings to even lose both
        {-0x1p24F, 0x4b803f80, 0x3f803f80},   // 2^24 cancels first, then 1 is added
        {0x1p24F, 0x3f80cb80, 0x3f803f80},    // 1 is lost first, then 2^24 cancels
        {-0x1.02p0F, 0x3f813f81, 0x3f813f81}, // products are not rounded
    };
    return std::ranges::all_of(kCases, [&](const auto &c) {
        return std::bit_cast<uint32_t>(dot(c.sum, c.x, c.y)) ==
               std::bit_cast<uint32_t>(expected(c.sum, c.x, c.y));
    });
}

void multiply_pairs(const ProductTile &tile) {
    static const bool known = instruction_is_known();
    static constexpr auto kWidened = []<size_t... Less>(std::index_sequence<Less...>) {
        return std::array<MultiplyTile *, sizeof...(Less)>{multiply_widened<int{Less} + 1>...};
    }(std::make_index_sequence<kTileRows>{});
    const int32_t exponents = tile.steps == 0 ? kNoExponent
                                              : exponent_of(tile.lhs, tile.steps, tile.lhs_step) +
                                                    exponent_of(tile.rhs, tile.steps, tile.rhs_step);
    if (known && exponents >= kSafeExponents && (tile.first || sums_are_safe(tile)))
        multiply_tile<PairLanes>(tile);
    else
        kWidened[static_cast<size_t>(tile.rows - 1)](tile);
}

// --- panels

/// What stands beside a last element of k that has no neighbour. Products of an lhs's and an rhs's are -0,
/// which changes no sum.
template <int Width>
constexpr uint16_t kNeighbour = Width == kTileRows ? 0x8000 : 0;

/// 16 elements of each of two steps along k as pairs.
LZ_AVX512_INLINE __m512i joined(__m256i first, __m256i second) {
    return _mm512_or_si512(_mm512_slli_epi32(_mm512_cvtepu16_epi32(first), 16),
                           _mm512_cvtepu16_epi32(second));
}

template <int Width>
LZ_AVX512 Magnitudes pack_rows(float *to, const uint16_t *from, int64_t count, int64_t depth,
                               int64_t stride) {
    using L = FloatLanes;
    Magnitudes magnitudes = Magnitudes::none();
    const __mmask16 low = first_lanes<L>(count), high = first_lanes<L>(count - L::kCount);
    for (int64_t k = 0; k < depth; k += 2, to += Width, from += 2 * stride) {
        const bool both = k + 1 < depth;
        const uint16_t *const next = both ? from + stride : from;
        const __mmask16 next_low = both ? low : 0, next_high = both ? high : 0;
        const __m256i none = _mm256_set1_epi16(static_cast<short>(kNeighbour<Width>));
        _mm_prefetch(reinterpret_cast<const char *>(from + Width), _MM_HINT_T1);
        _mm_prefetch(reinterpret_cast<const char *>(next + Width), _MM_HINT_T1);
        const __m512i pairs =
            joined(_mm256_maskz_loadu_epi16(low, from), _mm256_mask_loadu_epi16(none, next_low, next));
        Magnitudes::add(magnitudes, pairs);
        store_part<L, Width, 0>(to, _mm512_castsi512_ps(pairs));
        if constexpr (Width > L::kCount) {
            const __m512i more = joined(_mm256_maskz_loadu_epi16(high, from + L::kCount),
                                        _mm256_mask_loadu_epi16(none, next_high, next + L::kCount));
            Magnitudes::add(magnitudes, more);
            store_part<L, Width, L::kCount>(to, _mm512_castsi512_ps(more));
        }
    }
    return magnitudes;
}

/// The rows of one register, as in avx512.cpp; 32 elements along k are 16 pairs.
template <int Width, int Column>
LZ_AVX512 void pack_square(float *to, const uint16_t *from, int64_t count, int64_t depth, int64_t stride,
                           Magnitudes &magnitudes) {
    using L = FloatLanes;
    constexpr int kRows = Width - Column < L::kCount ? Width - Column : L::kCount;
    const __m512i none = _mm512_set1_epi16(static_cast<short>(kNeighbour<Width>));
    int64_t offsets[kRows];
    for (int i = 0; i < kRows; ++i)
        offsets[i] = (Column + i < count ? Column + i : count - 1) * stride;
    for (int64_t k = 0; k < depth; k += 2 * L::kCount, to += L::kCount * Width) {
        const int64_t left = depth - k;
        const __mmask32 mask = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
        __m512 square[L::kCount];
#pragma GCC unroll 16
        for (int i = 0; i < L::kCount; ++i) {
            const uint16_t *const row = from + offsets[i < kRows ? i : kRows - 1] + k;
            if (i < kRows)
                _mm_prefetch(reinterpret_cast<const char *>(row + stride * Width), _MM_HINT_T1);
            const __m512i halves = _mm512_mask_loadu_epi16(none, mask, row);
            Magnitudes::add(magnitudes, halves);
            square[i] = _mm512_castsi512_ps(_mm512_rol_epi32(halves, 16));
        }
        transpose<L>(square);
#pragma GCC unroll 16
        for (int l = 0; l < L::kCount; ++l)
            store_part<L, Width, Column>(to + l * Width, square[l]);
    }
}

template <int Width>
LZ_AVX512 void pack_width(void *panel, const uint16_t *from, int64_t count, int64_t depth, int64_t stride_i,
                          int64_t stride_k) {
    auto *const to = static_cast<float *>(panel);
    Magnitudes magnitudes = Magnitudes::none();
    if (stride_i == 1) {
        magnitudes = pack_rows<Width>(to, from, count, depth, stride_k);
    } else if (stride_k == 1) {
        pack_square<Width, 0>(to, from, count, depth, stride_i, magnitudes);
        if constexpr (Width > FloatLanes::kCount)
            pack_square<Width, FloatLanes::kCount>(to, from, count, depth, stride_i, magnitudes);
    } else {
        auto *const pairs = static_cast<uint32_t *>(panel);
        for (int64_t k = 0; k < depth; k += 2)
            for (int64_t i = 0; i < count; ++i) {
                const uint16_t *const at = from + i * stride_i + k * stride_k;
                const uint32_t pair =
                    uint32_t{at[0]} << 16 | (k + 1 < depth ? at[stride_k] : kNeighbour<Width>);
                Magnitudes::add(magnitudes, _mm512_set1_epi32(static_cast<int>(pair)));
                pairs[k / 2 * Width + i] = pair;
            }
    }
    static_cast<int32_t *>(panel)[(depth + 1) / 2 * Width] = Magnitudes::exponent(magnitudes);
}

void pack_pairs(void *to, const void *from, int64_t count, int64_t depth, int64_t stride_i, int64_t stride_k,
                int64_t width) {
    (width == kTileRows ? pack_width<kTileRows>
                        : pack_width<2 * FloatLanes::kCount>)(to, static_cast<const uint16_t *>(from), count,
                                                              depth, stride_i, stride_k);
}

constexpr ProductParts kParts = {"lz_multiply_tile_bf16", "lz_pack_panel_bf16", multiply_pairs, pack_pairs};

} // namespace

const ProductParts *const kBf16Parts = &kParts;

} // namespace lz::ir

#else

namespace lz::ir {

const ProductParts *const kBf16Parts = nullptr;

} // namespace lz::ir

#endif
