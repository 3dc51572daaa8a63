#pragma once
/// The microkernel of 16 registers of 32 bytes, for what is in a register of any kind: tiles of 6 rows and
/// two registers. The file that includes this says in LZ_AVX_TARGET which instructions its functions may use,
/// which are AVX and FMA at least. A file of its own with -mavx would hand out what it shares with others,
/// too.
///
/// A type of lanes, L below, says what a register is:
///     T                               an element in memory
///     Register, Mask, kCount          its lanes, and which of them
///     first(count)                    the first lanes
///     zero, load, broadcast, store    which may have a mask behind them
///     add_product(sum, x, y)

#include "ir/host/product/parts.h"

#include <array>
#include <cstddef>
#include <immintrin.h>
#include <utility>

#define LZ_AVX __attribute__((target(LZ_AVX_TARGET)))
#define LZ_AVX_INLINE __attribute__((target(LZ_AVX_TARGET), always_inline)) static inline

namespace lz::ir {
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
template <class L, int Rows, int Columns>
LZ_AVX_INLINE void multiply_step(typename L::Register (&sum)[Rows][Columns], const char *lhs,
                                 const char *fourth, int64_t lhs_row, const char *rhs, int64_t ahead,
                                 typename L::Mask mask) {
    using T = typename L::T;
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

template <class L, int Rows, int Columns>
LZ_AVX void multiply(const ProductTile &tile) {
    using T = typename L::T;
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
            multiply_step<L, Rows, Columns>(sum, lhs, fourth, lhs_row, rhs, ahead, mask);
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

/// By the tile's rows, and one or two registers of columns.
template <class L, size_t... Less>
constexpr auto microkernels(std::index_sequence<Less...>) {
    return std::array<std::array<MultiplyTile *, 2>, sizeof...(Less)>{
        {{multiply<L, int{Less} + 1, 1>, multiply<L, int{Less} + 1, 2>}...}};
}
template <class L>
void multiply_tile(const ProductTile &tile) {
    static constexpr auto kFunctions = microkernels<L>(std::make_index_sequence<kTileRows>{});
    kFunctions[static_cast<size_t>(tile.rows - 1)][tile.width > L::kCount](tile);
}

} // namespace
} // namespace lz::ir
