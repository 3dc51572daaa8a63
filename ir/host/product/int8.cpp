// Products of i8 in 32 bits by the dot product of four bytes (AVX512-VNNI).
//
// The instruction multiplies bytes without a sign by bytes with one. So lhs lies in its panels with 128 added
// to each number, and sums begin with what that makes too much: -128 times the sum of a column of rhs, which
// packing leaves behind each panel of it. All of it wraps, and so do the sums.

#include "ir/host/product/parts.h"

#if defined(__x86_64__)

#define LZ_AVX512_TARGET "avx512f,avx512bw,avx512vl,avx512vnni"
#include "ir/host/product/avx512_tiles.h"

namespace lz::ir {
namespace {

/// Four bytes in memory and sums of 32 bits in registers, which are moved as if they were f32.
struct QuadLanes : FloatLanes {
    LZ_AVX512_INLINE Register add_product(Register sum, Register x, Register y) {
        return _mm512_castsi512_ps(
            _mm512_dpbusd_epi32(_mm512_castps_si512(sum), _mm512_castps_si512(x), _mm512_castps_si512(y)));
    }
    /// What stands behind the panel of rhs for this register of columns.
    LZ_AVX512_INLINE Register start(const ProductTile &tile, int column) {
        return load(static_cast<const float *>(tile.rhs) + tile.steps * tile.rhs_step + column * kCount);
    }
    LZ_AVX512_INLINE Register go_on(Register sum, Register start) {
        return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(sum), _mm512_castps_si512(start)));
    }
};

constexpr int kQuad = 4;

/// Numbers of lhs, whose panels have the rows of a tile, are shifted.
template <int Width>
LZ_AVX512_INLINE __m512i placed(__m512i bytes) {
    return Width == kTileRows ? _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)) : bytes;
}

/// 16 bytes of each of four steps along k as quads.
LZ_AVX512_INLINE __m512i joined(__m128i a, __m128i b, __m128i c, __m128i d) {
    const __m512i low =
        _mm512_or_si512(_mm512_cvtepu8_epi32(a), _mm512_slli_epi32(_mm512_cvtepu8_epi32(b), 8));
    const __m512i high = _mm512_or_si512(_mm512_slli_epi32(_mm512_cvtepu8_epi32(c), 16),
                                         _mm512_slli_epi32(_mm512_cvtepu8_epi32(d), 24));
    return _mm512_or_si512(low, high);
}

/// The panel's rows lie side by side.
template <int Width>
LZ_AVX512 void pack_rows(float *to, const int8_t *from, int64_t count, int64_t depth, int64_t stride) {
    using L = FloatLanes;
    const __mmask16 low = first_lanes<L>(count), high = first_lanes<L>(count - L::kCount);
    for (int64_t k = 0; k < depth; k += kQuad, to += Width, from += kQuad * stride) {
        __m128i parts[2][kQuad];
#pragma GCC unroll 4
        for (int p = 0; p < kQuad; ++p) {
            const bool there = k + p < depth;
            const int8_t *const row = there ? from + p * stride : from;
            _mm_prefetch(reinterpret_cast<const char *>(row + Width), _MM_HINT_T1);
            parts[0][p] = _mm_maskz_loadu_epi8(there ? low : __mmask16{0}, row);
            if constexpr (Width > L::kCount)
                parts[1][p] = _mm_maskz_loadu_epi8(there ? high : __mmask16{0}, row + L::kCount);
        }
        const auto quads = [&](int half) LZ_AVX512 {
            return _mm512_castsi512_ps(
                placed<Width>(joined(parts[half][0], parts[half][1], parts[half][2], parts[half][3])));
        };
        store_part<L, Width, 0>(to, quads(0));
        if constexpr (Width > L::kCount)
            store_part<L, Width, L::kCount>(to, quads(1));
    }
}

/// The rows of one register, as in avx512.cpp; 64 bytes along k are 16 quads.
template <int Width, int Column>
LZ_AVX512 void pack_square(float *to, const int8_t *from, int64_t count, int64_t depth, int64_t stride) {
    using L = FloatLanes;
    constexpr int kRows = Width - Column < L::kCount ? Width - Column : L::kCount;
    constexpr int64_t kDepth = kQuad * L::kCount;
    int64_t offsets[kRows];
    for (int i = 0; i < kRows; ++i)
        offsets[i] = (Column + i < count ? Column + i : count - 1) * stride;
    for (int64_t k = 0; k < depth; k += kDepth, to += L::kCount * Width) {
        const int64_t left = depth - k;
        const __mmask64 mask = left >= kDepth ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
        __m512 square[L::kCount];
#pragma GCC unroll 16
        for (int i = 0; i < L::kCount; ++i) {
            const int8_t *const row = from + offsets[i < kRows ? i : kRows - 1] + k;
            if (i < kRows)
                _mm_prefetch(reinterpret_cast<const char *>(row + stride * Width), _MM_HINT_T1);
            square[i] = _mm512_castsi512_ps(placed<Width>(_mm512_maskz_loadu_epi8(mask, row)));
        }
        transpose<L>(square);
#pragma GCC unroll 16
        for (int l = 0; l < L::kCount; ++l)
            store_part<L, Width, Column>(to + l * Width, square[l]);
    }
}

/// -128 times the sum of each column, behind the panel.
LZ_AVX512 void add_starts(float *panel, int64_t steps) {
    constexpr int kColumns = 2 * FloatLanes::kCount;
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sums[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int64_t step = 0; step < steps; ++step)
        for (int j = 0; j < 2; ++j)
            sums[j] = _mm512_dpbusd_epi32(
                sums[j], ones, _mm512_loadu_si512(panel + step * kColumns + j * FloatLanes::kCount));
    for (int j = 0; j < 2; ++j)
        _mm512_storeu_si512(panel + steps * kColumns + j * FloatLanes::kCount,
                            _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sums[j], 7)));
}

template <int Width>
LZ_AVX512 void pack_width(void *panel, const int8_t *from, int64_t count, int64_t depth, int64_t stride_i,
                          int64_t stride_k) {
    auto *const to = static_cast<float *>(panel);
    if (stride_i == 1) {
        pack_rows<Width>(to, from, count, depth, stride_k);
    } else if (stride_k == 1) {
        pack_square<Width, 0>(to, from, count, depth, stride_i);
        if constexpr (Width > FloatLanes::kCount)
            pack_square<Width, FloatLanes::kCount>(to, from, count, depth, stride_i);
    } else {
        auto *const bytes = static_cast<uint8_t *>(panel);
        for (int64_t k = 0; k < (depth + kQuad - 1) / kQuad * kQuad; ++k)
            for (int64_t i = 0; i < Width; ++i) {
                const bool there = i < count && k < depth;
                const auto x = static_cast<uint8_t>(there ? from[i * stride_i + k * stride_k] : 0);
                bytes[(k / kQuad * Width + i) * kQuad + k % kQuad] =
                    Width == kTileRows ? static_cast<uint8_t>(x ^ 0x80) : x;
            }
    }
    if constexpr (Width != kTileRows)
        add_starts(to, (depth + kQuad - 1) / kQuad);
}

void pack_quads(void *to, const void *from, int64_t count, int64_t depth, int64_t stride_i, int64_t stride_k,
                int64_t width) {
    (width == kTileRows ? pack_width<kTileRows>
                        : pack_width<2 * FloatLanes::kCount>)(to, static_cast<const int8_t *>(from), count,
                                                              depth, stride_i, stride_k);
}

constexpr ProductParts kParts = {"lz_multiply_tile_i8", "lz_pack_panel_i8", multiply_tile<QuadLanes>,
                                 pack_quads};

} // namespace

const ProductParts *const kInt8Parts = &kParts;

} // namespace lz::ir

#else

namespace lz::ir {

const ProductParts *const kInt8Parts = nullptr;

} // namespace lz::ir

#endif
