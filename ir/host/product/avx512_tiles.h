#pragma once
/// What the parts of products that use AVX-512 share (parts.h): the microkernel and the ways into a
/// panel. The file that includes this says in LZ_AVX512_TARGET which instructions its functions may use:
/// the compiler may use them in these functions and in no other. A file of its own with -mavx512f would hand
/// out what it shares with others, too.
///
/// A type of lanes, L below, says what is in a register: L::T in memory, L::kCount of them in an L::Register,
/// and what a step does with them.

#include "ir/host/product/parts.h"

#include <immintrin.h>

#include <cstdint>

#define LZ_AVX512 __attribute__((target(LZ_AVX512_TARGET)))
#define LZ_AVX512_INLINE __attribute__((target(LZ_AVX512_TARGET), always_inline)) static inline

namespace lz::ir {
namespace {

constexpr int kTileRows = 14, kRowStep = 2;
constexpr int64_t kLine = 64;

struct FloatLanes {
    using T = float;
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

/// The first `count` lanes, all of them from kCount on, none below 0.
template <class L>
LZ_AVX512_INLINE typename L::Mask first_lanes(int64_t count) {
    const int64_t there = count < 0 ? 0 : count > L::kCount ? L::kCount : count;
    return static_cast<typename L::Mask>((1u << there) - 1);
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

/// Where the sums of row `row` lie.
template <class T, int Rows>
LZ_AVX512_INLINE T *sums_of(const ProductTile &tile, int row) {
    return static_cast<T *>(tile.sums) + (row + 1 == Rows ? tile.sums_last : row * tile.sums_row);
}

template <class L, int Rows, int Columns>
LZ_AVX512 void multiply(const ProductTile &tile) {
    using T = typename L::T;
    using Register = typename L::Register;
    constexpr int kLast = Columns - 1;
    const typename L::Mask mask = first_lanes<L>(tile.width - kLast * L::kCount);
    const bool whole = tile.width == Columns * L::kCount;
    Register sum[Rows][Columns];
    if (tile.first) {
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
            for (int j = 0; j < Columns; ++j)
                sum[i][j] = L::zero();
    } else {
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i) {
            const T *const from = sums_of<T, Rows>(tile, i);
            if constexpr (Columns == 2)
                sum[i][0] = L::load(from);
            sum[i][kLast] = L::load(from + kLast * L::kCount, mask);
        }
    }
    const int64_t steps = tile.steps, lhs_step = tile.lhs_step, rhs_step = tile.rhs_step;
    const int64_t row = steps > 0 ? tile.lhs_row : 0; // an operand without elements is nowhere
    const T *const lhs = static_cast<const T *>(tile.lhs), *rhs = static_cast<const T *>(tile.rhs);
    const T *carried[4] = {lhs, lhs + 3 * row, lhs + 5 * row, lhs + 10 * row};
    const int64_t last = tile.lhs_last;
    // A row of the next tile a step, again and again: the panels that stream through the cache would push
    // them out.
    const int64_t next_row = tile.sums_row * int64_t{sizeof(T)};
    const char *const next = static_cast<const char *>(tile.next);
    int64_t ahead = 0;
    for (int64_t step = 0; step < steps; ++step) {
        _mm_prefetch(next + ahead, _MM_HINT_T0);
        _mm_prefetch(next + ahead + kLine, _MM_HINT_T0);
        ahead = step % 16 == 15 ? 0 : ahead + next_row;
        Register y[Columns];
#pragma GCC unroll 2
        for (int j = 0; j < Columns; ++j) {
            const T *const column = rhs + j * L::kCount;
            _mm_prefetch(reinterpret_cast<const char *>(column + kStepsAhead * rhs_step), _MM_HINT_T0);
            y[j] = Columns == 1 ? L::load(column, mask) : L::load(column);
        }
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i) {
            const Register x = L::broadcast(i + 1 == Rows ? carried[0] + last : row_of<T>(carried, i, row));
#pragma GCC unroll 2
            for (int j = 0; j < Columns; ++j)
                sum[i][j] = L::add_product(sum[i][j], x, y[j]);
        }
#pragma GCC unroll 4
        for (const T *&from : carried)
            from += lhs_step;
        rhs += rhs_step;
    }
#pragma GCC unroll 14
    for (int i = 0; i < Rows; ++i) {
        T *const to = sums_of<T, Rows>(tile, i);
        if constexpr (Columns == 2)
            L::store(to, sum[i][0]);
        if (whole)
            L::store(to + kLast * L::kCount, sum[i][kLast]);
        else
            L::store(to + kLast * L::kCount, sum[i][kLast], mask);
    }
}

template <class L>
void multiply_tile(const ProductTile &tile) {
    static constexpr MultiplyTile *kFunctions[][2] = {
        {multiply<L, 2, 1>, multiply<L, 2, 2>},   {multiply<L, 4, 1>, multiply<L, 4, 2>},
        {multiply<L, 6, 1>, multiply<L, 6, 2>},   {multiply<L, 8, 1>, multiply<L, 8, 2>},
        {multiply<L, 10, 1>, multiply<L, 10, 2>}, {multiply<L, 12, 1>, multiply<L, 12, 2>},
        {multiply<L, 14, 1>, multiply<L, 14, 2>},
    };
    static_assert(sizeof kFunctions / sizeof kFunctions[0] == kTileRows / kRowStep);
    kFunctions[tile.rows / kRowStep - 1][tile.width > L::kCount](tile);
}

// --- panels

/// A register that holds rows of a panel from `Column` on. A whole one may run over into the next step, which
/// is written later, unless a part of it is written already.
template <class L, int Width, int Column>
LZ_AVX512_INLINE void store_part(typename L::T *step, typename L::Register x) {
    if constexpr (Column + L::kCount <= Width || Width <= L::kCount)
        L::store(step + Column, x);
    else
        L::store(step + Column, x, first_lanes<L>(Width - Column));
}

/// Swaps rows and columns of a square.
template <class L, int Half = L::kCount / 2>
LZ_AVX512_INLINE void transpose(typename L::Register (&square)[L::kCount]) {
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
        transpose<L, Half / 2>(square);
}

} // namespace
} // namespace lz::ir
