#include "ir/host/product_parts.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lz::ir {

#if defined(__x86_64__)

// The compiler may use AVX-512 in these functions and in no other: a file of its own with -mavx512f would
// hand out what it shares with others, too.
namespace {

#define LZ_AVX512 __attribute__((target("avx512f")))
#define LZ_AVX512_INLINE __attribute__((target("avx512f"), always_inline)) static inline

constexpr int kTileRows = 14, kRowStep = 2;
constexpr int64_t kLine = 64;
/// What a tile of sums takes, rounded up to a power of two.
constexpr int64_t kTileRoom = 2048;
static_assert(kTileRows * 2 * kLine <= kTileRoom);

template <class T>
struct Lanes;

template <>
struct Lanes<float> {
    using Register = __m512;
    using Mask = __mmask16;
    static constexpr int kCount = 16;

    LZ_AVX512_INLINE Register zero() { return _mm512_setzero_ps(); }
    LZ_AVX512_INLINE Register load(const float *from) { return _mm512_loadu_ps(from); }
    LZ_AVX512_INLINE Register load(const float *from, Mask mask) { return _mm512_maskz_loadu_ps(mask, from); }
    LZ_AVX512_INLINE Register broadcast(const float *from) { return _mm512_set1_ps(*from); }
    LZ_AVX512_INLINE Register add_product(Register sum, Register x, Register y) {
        return _mm512_fmadd_ps(x, y, sum);
    }
    LZ_AVX512_INLINE void store(float *to, Register x) { _mm512_storeu_ps(to, x); }
    LZ_AVX512_INLINE void store(float *to, Register x, Mask mask) { _mm512_mask_storeu_ps(to, mask, x); }
    /// Lane l is lane from[l] of x or, from kCount on, of y.
    using Index = int32_t;
    LZ_AVX512_INLINE Register choose(Register x, Register y, const Index *from) {
        return _mm512_permutex2var_ps(x, _mm512_loadu_si512(from), y);
    }
};

template <>
struct Lanes<double> {
    using Register = __m512d;
    using Mask = __mmask8;
    static constexpr int kCount = 8;

    LZ_AVX512_INLINE Register zero() { return _mm512_setzero_pd(); }
    LZ_AVX512_INLINE Register load(const double *from) { return _mm512_loadu_pd(from); }
    LZ_AVX512_INLINE Register load(const double *from, Mask mask) {
        return _mm512_maskz_loadu_pd(mask, from);
    }
    LZ_AVX512_INLINE Register broadcast(const double *from) { return _mm512_set1_pd(*from); }
    LZ_AVX512_INLINE Register add_product(Register sum, Register x, Register y) {
        return _mm512_fmadd_pd(x, y, sum);
    }
    LZ_AVX512_INLINE void store(double *to, Register x) { _mm512_storeu_pd(to, x); }
    LZ_AVX512_INLINE void store(double *to, Register x, Mask mask) { _mm512_mask_storeu_pd(to, mask, x); }
    using Index = int64_t;
    LZ_AVX512_INLINE Register choose(Register x, Register y, const Index *from) {
        return _mm512_permutex2var_pd(x, _mm512_loadu_si512(from), y);
    }
};

/// The first `count` lanes, all of them from kCount on, none below 0.
template <class T>
LZ_AVX512_INLINE typename Lanes<T>::Mask first_lanes(int64_t count) {
    constexpr int64_t lanes = Lanes<T>::kCount;
    const int64_t there = count < 0 ? 0 : count > lanes ? lanes : count;
    return static_cast<typename Lanes<T>::Mask>((1u << there) - 1);
}

// --- the microkernel

/// Row `row` of lhs. The addresses of rows 0, 3, 5 and 10 are carried: the others are 1, 2, 4 or 8 rows
/// further, which an instruction adds by itself.
template <class T>
LZ_AVX512_INLINE const T *row_of(const T *const (&carried)[4], int row, int64_t lhs_row) {
    switch (row) {
    case 0:
    case 1:
    case 2:
    case 8:
        return carried[0] + row * lhs_row;
    case 3:
    case 4:
        return carried[1] + (row - 3) * lhs_row;
    default:
        return row < 10 ? carried[2] + (row - 5) * lhs_row : carried[3] + (row - 10) * lhs_row;
    }
}

template <class T, int Rows, int Columns>
LZ_AVX512 void multiply(const T *lhs, const T *rhs, T *sums, int64_t steps, int64_t lhs_row, int64_t lhs_step,
                        int64_t rhs_step, bool first, const char *next, int64_t lhs_last, int64_t width) {
    using L = Lanes<T>;
    using Register = typename L::Register;
    constexpr int kRowOfSums = 2 * L::kCount;
    Register sum[Rows][Columns];
#pragma GCC unroll 14
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < Columns; ++j)
            sum[i][j] = first ? L::zero() : L::load(sums + i * kRowOfSums + j * L::kCount);
    const typename L::Mask mask = first_lanes<T>(width);
    const int64_t row = steps > 0 ? lhs_row : 0; // an operand without elements is nowhere
    const T *carried[4] = {lhs, lhs + 3 * row, lhs + 5 * row, lhs + 10 * row};
    int64_t line = 0;
    for (int64_t step = 0; step < steps; ++step) {
        // A line of the next tile a step, again and again: the panels that stream through the cache would
        // push them out.
        _mm_prefetch(next + line, _MM_HINT_T0);
        line = (line + kLine) & (kTileRoom - 1);
        Register y[Columns];
#pragma GCC unroll 2
        for (int j = 0; j < Columns; ++j) {
            const T *const column = rhs + j * L::kCount;
            _mm_prefetch(reinterpret_cast<const char *>(column + kStepsAhead * rhs_step), _MM_HINT_T0);
            y[j] = Columns == 1 ? L::load(column, mask) : L::load(column);
        }
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i) {
            const Register x =
                L::broadcast(i + 1 == Rows ? carried[0] + lhs_last : row_of<T>(carried, i, lhs_row));
#pragma GCC unroll 2
            for (int j = 0; j < Columns; ++j)
                sum[i][j] = L::add_product(sum[i][j], x, y[j]);
        }
#pragma GCC unroll 4
        for (const T *&row : carried)
            row += lhs_step;
        rhs += rhs_step;
    }
#pragma GCC unroll 14
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < Columns; ++j)
            L::store(sums + i * kRowOfSums + j * L::kCount, sum[i][j]);
}

template <class T>
void multiply_tile(const void *lhs, const void *rhs, void *sums, int64_t steps, int64_t lhs_row,
                   int64_t lhs_step, int64_t rhs_step, int64_t first, const void *next, int64_t lhs_last,
                   int64_t width, int64_t rows) {
    using Function = decltype(multiply<T, kRowStep, 1>);
    static constexpr Function *kFunctions[][2] = {
        {multiply<T, 2, 1>, multiply<T, 2, 2>},   {multiply<T, 4, 1>, multiply<T, 4, 2>},
        {multiply<T, 6, 1>, multiply<T, 6, 2>},   {multiply<T, 8, 1>, multiply<T, 8, 2>},
        {multiply<T, 10, 1>, multiply<T, 10, 2>}, {multiply<T, 12, 1>, multiply<T, 12, 2>},
        {multiply<T, 14, 1>, multiply<T, 14, 2>},
    };
    static_assert(sizeof kFunctions / sizeof kFunctions[0] == kTileRows / kRowStep);
    kFunctions[rows / kRowStep - 1][width > Lanes<T>::kCount](
        static_cast<const T *>(lhs), static_cast<const T *>(rhs), static_cast<T *>(sums), steps, lhs_row,
        lhs_step, rhs_step, first != 0, static_cast<const char *>(next), lhs_last, width);
}

// --- panels

/// A register that holds rows of a panel from `Column` on. A whole one may run over into the next step, which
/// is written later, unless a part of it is written already.
template <class T, int Width, int Column>
LZ_AVX512_INLINE void store_part(T *step, typename Lanes<T>::Register x) {
    using L = Lanes<T>;
    if constexpr (Column + L::kCount <= Width || Width <= L::kCount)
        L::store(step + Column, x);
    else
        L::store(step + Column, x, first_lanes<T>(Width - Column));
}

template <class T, int Width>
LZ_AVX512 void pack_rows(T *to, const T *from, int64_t count, int64_t depth, int64_t stride) {
    using L = Lanes<T>;
    constexpr bool kTwo = Width > L::kCount;
    const typename L::Mask low = first_lanes<T>(count), high = first_lanes<T>(count - L::kCount);
    for (int64_t k = 0; k < depth; ++k, to += Width, from += stride) {
        _mm_prefetch(reinterpret_cast<const char *>(from + Width), _MM_HINT_T1);
        store_part<T, Width, 0>(to, L::load(from, low));
        if constexpr (kTwo) {
            _mm_prefetch(reinterpret_cast<const char *>(from + Width + L::kCount), _MM_HINT_T1);
            store_part<T, Width, L::kCount>(to, L::load(from + L::kCount, high));
        }
    }
}

/// Swaps rows and columns of a square.
template <class T, int Half = Lanes<T>::kCount / 2>
LZ_AVX512_INLINE void transpose(typename Lanes<T>::Register (&square)[Lanes<T>::kCount]) {
    using L = Lanes<T>;
    // Ever smaller squares of half the size are swapped across the diagonal.
    alignas(64) typename L::Index even[L::kCount], odd[L::kCount];
#pragma GCC unroll 16
    for (int l = 0; l < L::kCount; ++l) {
        even[l] = static_cast<typename L::Index>((l & Half ? L::kCount : 0) + (l & ~Half));
        odd[l] = even[l] + Half;
    }
#pragma GCC unroll 16
    for (int i = 0; i < L::kCount; ++i)
        if (!(i & Half)) {
            const auto x = square[i], y = square[i + Half];
            square[i] = L::choose(x, y, even);
            square[i + Half] = L::choose(x, y, odd);
        }
    if constexpr (Half > 1)
        transpose<T, Half / 2>(square);
}

/// The rows of one register: at most `Width - Column` of them are packed, and `count` are there.
template <class T, int Width, int Column>
LZ_AVX512 void pack_square(T *to, const T *from, int64_t count, int64_t depth, int64_t stride) {
    using L = Lanes<T>;
    constexpr int kRows = Width - Column < L::kCount ? Width - Column : L::kCount;
    int64_t offsets[kRows];
    for (int i = 0; i < kRows; ++i)
        offsets[i] = (Column + i < count ? Column + i : count - 1) * stride;
    for (int64_t k = 0; k < depth; k += L::kCount, to += L::kCount * Width) {
        const typename L::Mask mask = first_lanes<T>(depth - k);
        typename L::Register square[L::kCount];
#pragma GCC unroll 16
        for (int i = 0; i < L::kCount; ++i) {
            const T *const row = from + offsets[i < kRows ? i : kRows - 1] + k;
            if (i < kRows)
                _mm_prefetch(reinterpret_cast<const char *>(row + stride * Width), _MM_HINT_T1);
            square[i] = L::load(row, mask);
        }
        transpose<T>(square);
#pragma GCC unroll 16
        for (int l = 0; l < L::kCount; ++l)
            store_part<T, Width, Column>(to + l * Width, square[l]);
    }
}

template <class T, int Width>
void pack_columns(T *to, const T *from, int64_t count, int64_t depth, int64_t stride) {
    pack_square<T, Width, 0>(to, from, count, depth, stride);
    if constexpr (Width > Lanes<T>::kCount)
        pack_square<T, Width, Lanes<T>::kCount>(to, from, count, depth, stride);
}

template <class T>
void pack_rows_of(void *to, const void *from, int64_t count, int64_t depth, int64_t stride, int64_t width) {
    (width == kTileRows ? pack_rows<T, kTileRows>
                        : pack_rows<T, 2 * Lanes<T>::kCount>)(static_cast<T *>(to),
                                                              static_cast<const T *>(from), count, depth,
                                                              stride);
}

template <class T>
void pack_columns_of(void *to, const void *from, int64_t count, int64_t depth, int64_t stride,
                     int64_t width) {
    (width == kTileRows ? pack_columns<T, kTileRows>
                        : pack_columns<T, 2 * Lanes<T>::kCount>)(static_cast<T *>(to),
                                                                 static_cast<const T *>(from), count, depth,
                                                                 stride);
}

constexpr PartSet kParts = {
    kTileRows,
    kRowStep,
    int{kLine},
    {"lz_multiply_tile_f32", "lz_pack_rows_f32", "lz_pack_columns_f32", multiply_tile<float>,
     pack_rows_of<float>, pack_columns_of<float>},
    {"lz_multiply_tile_f64", "lz_pack_rows_f64", "lz_pack_columns_f64", multiply_tile<double>,
     pack_rows_of<double>, pack_columns_of<double>},
};

} // namespace

const PartSet *const kAvx512Parts = &kParts;

#else

const PartSet *const kAvx512Parts = nullptr;

#endif

} // namespace lz::ir
