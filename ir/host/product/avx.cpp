#include "ir/host/product/parts.h"

#if defined(__x86_64__)
#include <immintrin.h>

// The compiler may use AVX and FMA in these functions and in no other: a file of its own with -mavx would
// hand out what it shares with others, too.
#define LZ_AVX __attribute__((target("avx,fma")))
#define LZ_AVX_INLINE __attribute__((target("avx,fma"), always_inline)) static inline

#define LZ_GATHERED LZ_AVX
#define LZ_GATHERED_INLINE LZ_AVX_INLINE
#include "ir/host/product/gathered.h"
#endif

namespace lz::ir {

#if defined(__x86_64__)

namespace {

constexpr int kTileRows = 6;

template <class T>
struct Lanes;

template <>
struct Lanes<float> {
    using T = float;
    using Register = __m256;
    using Mask = __m256i;
    static constexpr int kCount = 8;

    /// The first `count` lanes, all of them from kCount on, none below 0.
    LZ_AVX_INLINE Mask first(int64_t count) {
        static constexpr int32_t kLanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
        const int64_t there = count < 0 ? 0 : count > kCount ? kCount : count;
        return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(kLanes + kCount - there));
    }
    LZ_AVX_INLINE Register zero() { return _mm256_setzero_ps(); }
    LZ_AVX_INLINE Register load(const float *from) { return _mm256_loadu_ps(from); }
    LZ_AVX_INLINE Register load(const float *from, Mask mask) { return _mm256_maskload_ps(from, mask); }
    /// x, of which the lanes in the mask are 0, with those loaded.
    LZ_AVX_INLINE Register join(Register x, const float *from, Mask mask) {
        return _mm256_or_ps(x, load(from, mask));
    }
    LZ_AVX_INLINE Register broadcast(const float *from) { return _mm256_broadcast_ss(from); }
    LZ_AVX_INLINE Register add_product(Register sum, Register x, Register y) {
        return _mm256_fmadd_ps(x, y, sum);
    }
    LZ_AVX_INLINE void store(float *to, Register x) { _mm256_storeu_ps(to, x); }
    LZ_AVX_INLINE void store(float *to, Register x, Mask mask) { _mm256_maskstore_ps(to, mask, x); }

    /// Swaps rows and columns of a square.
    LZ_AVX_INLINE void transpose(Register (&x)[kCount]) {
        Register pairs[kCount], fours[kCount];
#pragma GCC unroll 4
        for (int i = 0; i < kCount; i += 2) {
            pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
            pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
        }
#pragma GCC unroll 2
        for (int i = 0; i < kCount; i += 4) {
            fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
            fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
            fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
            fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
        }
#pragma GCC unroll 4
        for (int i = 0; i < kCount / 2; ++i) {
            x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
            x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
        }
    }
};

template <>
struct Lanes<double> {
    using T = double;
    using Register = __m256d;
    using Mask = __m256i;
    static constexpr int kCount = 4;

    LZ_AVX_INLINE Mask first(int64_t count) {
        static constexpr int64_t kLanes[8] = {-1, -1, -1, -1};
        const int64_t there = count < 0 ? 0 : count > kCount ? kCount : count;
        return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(kLanes + kCount - there));
    }
    LZ_AVX_INLINE Register zero() { return _mm256_setzero_pd(); }
    LZ_AVX_INLINE Register load(const double *from) { return _mm256_loadu_pd(from); }
    LZ_AVX_INLINE Register load(const double *from, Mask mask) { return _mm256_maskload_pd(from, mask); }
    LZ_AVX_INLINE Register join(Register x, const double *from, Mask mask) {
        return _mm256_or_pd(x, load(from, mask));
    }
    LZ_AVX_INLINE Register broadcast(const double *from) { return _mm256_broadcast_sd(from); }
    LZ_AVX_INLINE Register add_product(Register sum, Register x, Register y) {
        return _mm256_fmadd_pd(x, y, sum);
    }
    LZ_AVX_INLINE void store(double *to, Register x) { _mm256_storeu_pd(to, x); }
    LZ_AVX_INLINE void store(double *to, Register x, Mask mask) { _mm256_maskstore_pd(to, mask, x); }

    LZ_AVX_INLINE void transpose(Register (&x)[kCount]) {
        Register pairs[kCount];
#pragma GCC unroll 2
        for (int i = 0; i < kCount; i += 2) {
            pairs[i] = _mm256_unpacklo_pd(x[i], x[i + 1]);
            pairs[i + 1] = _mm256_unpackhi_pd(x[i], x[i + 1]);
        }
#pragma GCC unroll 2
        for (int i = 0; i < kCount / 2; ++i) {
            x[i] = _mm256_permute2f128_pd(pairs[i], pairs[i + 2], 0x20);
            x[i + 2] = _mm256_permute2f128_pd(pairs[i], pairs[i + 2], 0x31);
        }
    }
};

// --- the microkernel

/// One element of k of each row and column. Strides are in bytes.
template <class T, int Rows, int Columns>
LZ_AVX_INLINE void multiply_step(typename Lanes<T>::Register (&sum)[Rows][Columns], const char *lhs,
                                 const char *fourth, int64_t lhs_row, const char *rhs, int64_t ahead,
                                 typename Lanes<T>::Mask mask) {
    using L = Lanes<T>;
    _mm_prefetch(rhs + ahead, _MM_HINT_T0);
    typename L::Register y[Columns];
#pragma GCC unroll 2
    for (int j = 0; j < Columns; ++j) {
        const T *const column = reinterpret_cast<const T *>(rhs) + j * L::kCount;
        y[j] = Columns == 1 ? L::load(column, mask) : L::load(column);
    }
#pragma GCC unroll 6
    for (int i = 0; i < Rows; ++i) {
        const char *const row = i < 3 ? lhs + i * lhs_row : fourth + (i - 3) * lhs_row;
        const auto x = L::broadcast(reinterpret_cast<const T *>(row));
#pragma GCC unroll 2
        for (int j = 0; j < Columns; ++j)
            sum[i][j] = L::add_product(sum[i][j], x, y[j]);
    }
}

template <class T, int Rows, int Columns>
LZ_AVX void multiply(const ProductTile &tile) {
    using L = Lanes<T>;
    constexpr int kLast = Columns - 1;
    const typename L::Mask mask = L::first(tile.width - kLast * L::kCount);
    const bool whole = tile.width == Columns * L::kCount;
    typename L::Register sum[Rows][Columns];
    if (tile.first) {
#pragma GCC unroll 6
        for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
            for (int j = 0; j < Columns; ++j)
                sum[i][j] = L::zero();
    } else {
#pragma GCC unroll 6
        for (int i = 0; i < Rows; ++i) {
            const T *const from = static_cast<const T *>(tile.sums) + i * tile.sums_row;
            if constexpr (Columns == 2)
                sum[i][0] = L::load(from);
            sum[i][kLast] =
                whole ? L::load(from + kLast * L::kCount) : L::load(from + kLast * L::kCount, mask);
        }
    }
    constexpr int64_t kBytes = sizeof(T);
    const int64_t lhs_row = tile.lhs_row * kBytes, lhs_step = tile.lhs_step * kBytes,
                  rhs_step = tile.rhs_step * kBytes, ahead = kStepsAhead * rhs_step;
    const char *lhs = static_cast<const char *>(tile.lhs), *rhs = static_cast<const char *>(tile.rhs);
    const char *fourth = tile.steps > 0 ? lhs + 3 * lhs_row : lhs; // an operand without elements is nowhere
    // A plain loop, so that all sums and addresses stay in registers: with two steps at a time GCC kept some
    // on the stack, and a product took 1.3 times as long (Zen 3). The sums of the next tile are asked for
    // near the end, or the panels that stream through the cache would push them out.
    int64_t steps = tile.steps > kStepsAhead ? tile.steps - kStepsAhead : 0;
    for (int part = 0; part < 2; ++part) {
        if (part == 1)
#pragma GCC unroll 6
            for (int i = 0; i < Rows; ++i)
                _mm_prefetch(static_cast<const char *>(tile.next) + i * tile.sums_row * kBytes, _MM_HINT_T0);
        for (int64_t step = 0; step < steps; ++step) {
            multiply_step<T, Rows, Columns>(sum, lhs, fourth, lhs_row, rhs, ahead, mask);
            lhs += lhs_step;
            fourth += lhs_step;
            rhs += rhs_step;
        }
        steps = tile.steps - steps;
    }
#pragma GCC unroll 6
    for (int i = 0; i < Rows; ++i) {
        T *const to = static_cast<T *>(tile.sums) + i * tile.sums_row;
        if constexpr (Columns == 2)
            L::store(to, sum[i][0]);
        if (whole)
            L::store(to + kLast * L::kCount, sum[i][kLast]);
        else
            L::store(to + kLast * L::kCount, sum[i][kLast], mask);
    }
}

template <class T>
void multiply_tile(const ProductTile &tile) {
    static constexpr MultiplyTile *kFunctions[][2] = {
        {multiply<T, 1, 1>, multiply<T, 1, 2>}, {multiply<T, 2, 1>, multiply<T, 2, 2>},
        {multiply<T, 3, 1>, multiply<T, 3, 2>}, {multiply<T, 4, 1>, multiply<T, 4, 2>},
        {multiply<T, 5, 1>, multiply<T, 5, 2>}, {multiply<T, 6, 1>, multiply<T, 6, 2>},
    };
    static_assert(sizeof kFunctions / sizeof kFunctions[0] == kTileRows);
    kFunctions[tile.rows - 1][tile.width > Lanes<T>::kCount](tile);
}

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
    {"lz_multiply_tile_avx_f32", "lz_pack_panel_avx_f32", multiply_tile<float>, pack<float>,
     "lz_pack_gathered_avx_f32", pack_gathered<Gathered<float>, kTileRows>, "lz_pack_panels_avx_f32",
     pack_panels<Gathered<float>>},
    {"lz_multiply_tile_avx_f64", "lz_pack_panel_avx_f64", multiply_tile<double>, pack<double>,
     "lz_pack_gathered_avx_f64", pack_gathered<Gathered<double>, kTileRows>, "lz_pack_panels_avx_f64",
     pack_panels<Gathered<double>>},
};

} // namespace

const PartSet *const kAvxParts = &kParts;

#else

const PartSet *const kAvxParts = nullptr;

#endif

} // namespace lz::ir
