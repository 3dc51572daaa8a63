// Products of floats with AVX and FMA.

#include "ir/host/product/parts.h"

#if defined(__x86_64__)

#define LZ_AVX_TARGET "avx,fma"
#include "ir/host/product/avx_tiles.h"

#define LZ_GATHERED LZ_AVX
#define LZ_GATHERED_INLINE LZ_AVX_INLINE
#include "ir/host/product/gathered.h"
#endif

namespace lz::ir {

#if defined(__x86_64__)

namespace {

// --- panels

/// A register that holds rows of a panel from `column` on. A whole one may run over into the next step, which
/// is written later, unless a part of it is written already.
template <class T, int Width>
LZ_AVX_INLINE void store_part(T *step, int column, typename Lanes<T>::Register x) {
    using L = Lanes<T>;
    if (column + L::kCount <= Width || Width <= L::kCount)
        L::store(step + column, x);
    else
        L::store(step + column, x, L::first(Width - column));
}

template <class T, int Width>
LZ_AVX void pack_rows(T *to, const T *from, int64_t count, int64_t depth, int64_t stride) {
    using L = Lanes<T>;
    for (int64_t k = 0; k < depth; ++k, to += Width, from += stride) {
#pragma GCC unroll 4
        for (int column = 0; column < Width; column += L::kCount) {
            _mm_prefetch(reinterpret_cast<const char *>(from + Width + column), _MM_HINT_T1);
            store_part<T, Width>(to, column, L::load(from + column, L::first(count - column)));
        }
    }
}

/// The rows of one register from `column` on: at most `Width - column` of them are packed, and `count` are
/// there.
template <class T, int Width>
LZ_AVX_INLINE void pack_square(T *to, const T *from, int64_t count, int64_t depth, int64_t stride,
                               int column) {
    using L = Lanes<T>;
    const int rows = Width - column < L::kCount ? Width - column : L::kCount;
    int64_t offsets[L::kCount];
#pragma GCC unroll 8
    for (int i = 0; i < L::kCount; ++i) {
        const int64_t row = column + (i < rows ? i : rows - 1);
        offsets[i] = (row < count ? row : count - 1) * stride;
    }
    for (int64_t k = 0; k < depth; k += L::kCount, to += L::kCount * Width) {
        const typename L::Mask mask = L::first(depth - k);
        typename L::Register square[L::kCount];
#pragma GCC unroll 8
        for (int i = 0; i < L::kCount; ++i) {
            const T *const row = from + offsets[i] + k;
            if (i < rows)
                _mm_prefetch(reinterpret_cast<const char *>(row + stride * Width), _MM_HINT_T1);
            square[i] = L::load(row, mask);
        }
        L::transpose(square);
#pragma GCC unroll 8
        for (int l = 0; l < L::kCount; ++l)
            store_part<T, Width>(to + l * Width, column, square[l]);
    }
}

template <class T, int Width>
LZ_AVX void pack_columns(T *to, const T *from, int64_t count, int64_t depth, int64_t stride) {
    pack_square<T, Width>(to, from, count, depth, stride, 0);
    if constexpr (Width > Lanes<T>::kCount)
        pack_square<T, Width>(to, from, count, depth, stride, Lanes<T>::kCount);
}

template <class T, int Width>
void pack_width(T *to, const T *from, int64_t count, int64_t depth, int64_t stride_i, int64_t stride_k) {
    if (stride_i == 1) {
        pack_rows<T, Width>(to, from, count, depth, stride_k);
    } else if (stride_k == 1) {
        pack_columns<T, Width>(to, from, count, depth, stride_i);
    } else {
        for (int64_t k = 0; k < depth; ++k)
            for (int64_t i = 0; i < count; ++i)
                to[k * Width + i] = from[i * stride_i + k * stride_k];
    }
}

template <class T>
void pack(void *to, const void *from, int64_t count, int64_t depth, int64_t stride_i, int64_t stride_k,
          int64_t width) {
    (width == kTileRows ? pack_width<T, kTileRows>
                        : pack_width<T, 2 * Lanes<T>::kCount>)(static_cast<T *>(to),
                                                               static_cast<const T *>(from), count, depth,
                                                               stride_i, stride_k);
}

/// As gathered.h wants them.
template <class T>
struct Gathered : Lanes<T> {
    using L = Lanes<T>;
    static constexpr bool kChooses = false;
    LZ_AVX_INLINE typename L::Mask lanes(int begin, int end) {
        return _mm256_castps_si256(
            _mm256_andnot_ps(_mm256_castsi256_ps(L::first(begin)), _mm256_castsi256_ps(L::first(end))));
    }
    template <int Width, int Column>
    LZ_AVX_INLINE void store_part(T *to, typename L::Register x) {
        ir::store_part<T, Width>(to, Column, x);
    }
};

constexpr PartSet kParts = {
    kTileRows,
    32,
    {"lz_multiply_tile_avx_f32", "lz_pack_panel_avx_f32", multiply_tile<Lanes<float>>, pack<float>,
     "lz_pack_gathered_avx_f32", pack_gathered<Gathered<float>, kTileRows>, "lz_pack_panels_avx_f32",
     pack_panels<Gathered<float>>},
    {"lz_multiply_tile_avx_f64", "lz_pack_panel_avx_f64", multiply_tile<Lanes<double>>, pack<double>,
     "lz_pack_gathered_avx_f64", pack_gathered<Gathered<double>, kTileRows>, "lz_pack_panels_avx_f64",
     pack_panels<Gathered<double>>},
};

} // namespace

const PartSet *const kAvxParts = &kParts;

#else

const PartSet *const kAvxParts = nullptr;

#endif

} // namespace lz::ir
