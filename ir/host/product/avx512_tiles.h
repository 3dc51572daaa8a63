#pragma once
/// What the parts of products that use AVX-512 share (parts.h): the microkernel and the ways into a
/// panel. The file that includes this says in LZ_AVX512_TARGET which instructions its functions may use:
/// the compiler may use them in these functions and in no other. A file of its own with -mavx512f would hand
/// out what it shares with others, too.
///
/// A type of lanes, L below, says what is in a register: L::T in memory, L::kCount of them in an L::Register,
/// what a step does with them, and what the sums of a register of columns begin with in each pass.

#include "ir/host/product/parts.h"

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#if !defined(__clang__) // GCC 12 says so of its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define LZ_AVX512 __attribute__((target(LZ_AVX512_TARGET)))
#define LZ_AVX512_INLINE __attribute__((target(LZ_AVX512_TARGET), always_inline)) static inline
#define LZ_AVX512_LAMBDA __attribute__((target(LZ_AVX512_TARGET), always_inline))

namespace lz::ir {
namespace {

constexpr int kTileRows = 14;
constexpr int64_t kLine = 64;
struct FloatLanes {
    using T = float;
    using Register = __m512;
    using Mask = __mmask16;
    static constexpr int kCount = 16;

    LZ_AVX512_INLINE Register zero() { return _mm512_setzero_ps(); }
    LZ_AVX512_INLINE Register load(const float *from) { return _mm512_loadu_ps(from); }
    LZ_AVX512_INLINE Register load(const float *from, Mask mask) { return _mm512_maskz_loadu_ps(mask, from); }
    /// x with the lanes in the mask loaded.
    LZ_AVX512_INLINE Register join(Register x, const float *from, Mask mask) {
        return _mm512_mask_loadu_ps(x, mask, from);
    }
    LZ_AVX512_INLINE Register broadcast(const float *from) { return _mm512_set1_ps(*from); }
    /// In the register that the sum is in: compilers that choose another for it run short of them in long
    /// loops.
    LZ_AVX512_INLINE Register add_product(Register sum, Register x, Register y) {
        asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
        return sum;
    }
    LZ_AVX512_INLINE Register start(const ProductTile &, int) { return zero(); }
    LZ_AVX512_INLINE Register go_on(Register sum, Register) { return sum; }
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

/// Row `row` of lhs, rows being `row_bytes` apart. The addresses of rows 0, 3, 5 and 10 are carried: the
/// others are 1, 2, 4 or 8 rows further, which an instruction adds by itself where the distance is in bytes.
LZ_AVX512_INLINE const char *row_of(const char *const (&carried)[4], int row, int64_t row_bytes) {
    switch (row) {
    case 0:
    case 1:
    case 2:
    case 8:
        return carried[0] + row * row_bytes;
    case 3:
    case 4:
        return carried[1] + (row - 3) * row_bytes;
    case 10:
    case 11:
    case 12:
        return carried[3] + (row - 10) * row_bytes;
    default:
        return carried[2] + (row - 5) * row_bytes;
    }
}

/// Where the sums of row `row` lie.
template <class T>
LZ_AVX512_INLINE T *sums_of(const ProductTile &tile, int row) {
    return static_cast<T *>(tile.sums) + row * tile.sums_row;
}

/// Sums of a tile in registers.
template <class L, int Rows, int Columns>
struct Sums {
    typename L::Register of[Rows][Columns];
};

template <class L, int Rows, int Columns>
LZ_AVX512_INLINE void load_sums(Sums<L, Rows, Columns> &sum, const ProductTile &tile, typename L::Mask mask) {
    constexpr int kLast = Columns - 1;
    typename L::Register start[Columns];
#pragma GCC unroll 2
    for (int j = 0; j < Columns; ++j)
        start[j] = L::start(tile, j);
    if (tile.first) {
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 2
            for (int j = 0; j < Columns; ++j)
                sum.of[i][j] = start[j];
    } else {
        const auto *from = static_cast<const typename L::T *>(tile.sums);
        const int64_t row = tile.sums_row;
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i, from += row) {
            if constexpr (Columns == 2)
                sum.of[i][0] = L::go_on(L::load(from), start[0]);
            sum.of[i][kLast] = L::go_on(L::load(from + kLast * L::kCount, mask), start[kLast]);
        }
    }
}

template <class L, int Rows, int Columns>
LZ_AVX512_INLINE void store_sums(const Sums<L, Rows, Columns> &sum, const ProductTile &tile,
                                 typename L::Mask mask) {
    constexpr int kLast = Columns - 1;
    auto *to = static_cast<typename L::T *>(tile.sums); // stores do not make the compiler read it again
    const int64_t row = tile.sums_row;
    if (tile.width == Columns * L::kCount) {
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i, to += row)
#pragma GCC unroll 2
            for (int j = 0; j < Columns; ++j)
                L::store(to + j * L::kCount, sum.of[i][j]);
    } else {
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i, to += row) {
            if constexpr (Columns == 2)
                L::store(to, sum.of[i][0]);
            L::store(to + kLast * L::kCount, sum.of[i][kLast], mask);
        }
    }
}

template <class L, int Rows, int Columns>
LZ_AVX512 void multiply(const ProductTile &tile) {
    using T = typename L::T;
    using Register = typename L::Register;
    const typename L::Mask mask = first_lanes<L>(tile.width - (Columns - 1) * L::kCount);
    Sums<L, Rows, Columns> sum;
    load_sums(sum, tile, mask);
    const int64_t steps = tile.steps;
    const auto in_bytes = [](int64_t elements) { return elements * int64_t{sizeof(T)}; };
    // The loop has just enough registers for what it needs of these.
    int64_t row = steps > 0 ? in_bytes(tile.lhs_row) : 0; // an operand without elements is nowhere
    const int64_t lhs_step = in_bytes(tile.lhs_step);
    const int64_t rhs_step = in_bytes(tile.rhs_step);
    const int64_t rhs_ahead = (rhs_step % kSharedSets == 0 ? kStepsAheadInSets : kStepsAhead) * rhs_step;
    const char *const lhs = static_cast<const char *>(tile.lhs), *rhs = static_cast<const char *>(tile.rhs);
    const char *carried[4] = {lhs, lhs + 3 * row, lhs + 5 * row, lhs + 10 * row};
    const int64_t next_row = in_bytes(tile.sums_row);
    const char *const next = static_cast<const char *>(tile.next);
    for (int64_t step = 0; step < steps; ++step) {
        asm("" : "+r"(row)); // so that 2, 4 and 8 rows are not kept in registers of their own
        // A row of the next tile a step, again and again: the panels that stream through the cache would push
        // them out.
        const char *const ahead = next + step % 16 * next_row;
        _mm_prefetch(ahead, _MM_HINT_T0);
        if constexpr (Columns == 2)
            _mm_prefetch(ahead + kLine, _MM_HINT_T0);
        Register y[Columns];
#pragma GCC unroll 2
        for (int j = 0; j < Columns; ++j) {
            const char *const column = rhs + j * kLine;
            _mm_prefetch(column + rhs_ahead, _MM_HINT_T0);
            const auto *const from = reinterpret_cast<const T *>(column);
            y[j] = Columns == 1 ? L::load(from, mask) : L::load(from);
        }
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i) {
            const Register x = L::broadcast(reinterpret_cast<const T *>(row_of(carried, i, row)));
#pragma GCC unroll 2
            for (int j = 0; j < Columns; ++j)
                sum.of[i][j] = L::add_product(sum.of[i][j], x, y[j]);
        }
#pragma GCC unroll 4
        for (const char *&from : carried)
            from += lhs_step;
        rhs += rhs_step;
    }
    store_sums(sum, tile, mask);
}

/// The same of two registers of columns, where rhs comes from a near cache by itself (a packed panel, or a
/// small operand), and rows of lhs lie in a packed panel or, otherwise, each with its elements side by side,
/// so that the compiler knows most distances. Nothing is asked for ahead but the next tile's sums, at last:
/// what a step does beside its multiplications takes their place. A Xeon of the Granite Rapids kind takes
/// 0.92 of the time for f32 of 512 and for f64 of 1024 so, and for 2 to 14 rows by 512 x 512 0.6 to 0.9.
template <class L, int Rows, bool Panel>
LZ_AVX512 void multiply_near(const ProductTile &tile) {
    using T = typename L::T;
    using Register = typename L::Register;
    constexpr int kColumns = 2;
#if defined(__clang__)
    constexpr int kAtOnce = Panel ? 2 : 1; // clang 22 runs out of registers for two rows at once
#else
    constexpr int kAtOnce = 2;
#endif
    const typename L::Mask mask = first_lanes<L>(tile.width - L::kCount);
    Sums<L, Rows, kColumns> sum;
    load_sums(sum, tile, mask);
    const int64_t steps = tile.steps;
    int64_t row = Panel || steps <= 0 ? 0 : tile.lhs_row * int64_t{sizeof(T)};
    const int64_t rhs_step = tile.rhs_step * int64_t{sizeof(T)};
    const char *const lhs = static_cast<const char *>(tile.lhs), *rhs = static_cast<const char *>(tile.rhs);
    const char *carried[4] = {lhs, lhs + 3 * row, lhs + 5 * row, lhs + 10 * row};
    const auto multiply_step = [&](int step) LZ_AVX512_LAMBDA {
        Register y[kColumns];
#pragma GCC unroll 2
        for (int j = 0; j < kColumns; ++j)
            y[j] = L::load(reinterpret_cast<const T *>(rhs + step * rhs_step) + j * L::kCount);
#pragma GCC unroll 14
        for (int i = 0; i < Rows; ++i) {
            const Register x =
                Panel ? L::broadcast(reinterpret_cast<const T *>(carried[0]) + step * kTileRows + i)
                      : L::broadcast(reinterpret_cast<const T *>(row_of(carried, i, row)) + step);
#pragma GCC unroll 2
            for (int j = 0; j < kColumns; ++j)
                sum.of[i][j] = L::add_product(sum.of[i][j], x, y[j]);
        }
    };
    const auto pass = [&](int count) LZ_AVX512_LAMBDA {
#pragma GCC unroll 4
        for (const char *&from : carried)
            from += count * (Panel ? kTileRows : 1) * int{sizeof(T)};
        rhs += count * rhs_step;
    };
    const int64_t turns = steps > kTileRows ? (steps - kTileRows) / kAtOnce : 0;
    for (int64_t turn = 0; turn < turns; ++turn) {
        asm("" : "+r"(row)); // as in multiply
        multiply_step(0);
        if constexpr (kAtOnce == 2)
            multiply_step(1);
        pass(kAtOnce);
    }
    const char *next = static_cast<const char *>(tile.next);
    const int64_t next_row = tile.sums_row * int64_t{sizeof(T)};
    for (int64_t step = kAtOnce * turns; step < steps; ++step) {
        asm("" : "+r"(row));
        _mm_prefetch(next, _MM_HINT_T0);
        _mm_prefetch(next + kLine, _MM_HINT_T0);
        next += next_row;
        multiply_step(0);
        pass(1);
    }
    store_sums(sum, tile, mask);
}

/// By the tile's rows and registers of columns: half a one, one, two, and two with rhs nearby and rows of lhs
/// side by side, or in a panel.
template <class L, class Half, size_t... Less>
constexpr auto microkernels(std::index_sequence<Less...>) {
    return std::array<std::array<MultiplyTile *, 5>, sizeof...(Less)>{
        {{multiply<Half, int{Less} + 1, 1>, multiply<L, int{Less} + 1, 1>, multiply<L, int{Less} + 1, 2>,
          multiply_near<L, int{Less} + 1, false>, multiply_near<L, int{Less} + 1, true>}...}};
}
/// `Half`: lanes of half a register, for tiles that are no wider. Processors that take two cycles for a whole
/// register take one for it.
template <class L, class Half = L>
void multiply_tile(const ProductTile &tile) {
    static constexpr auto kFunctions = microkernels<L, Half>(std::make_index_sequence<kTileRows>{});
    const bool near = tile.rhs_step * tile.steps * int64_t{sizeof(typename L::T)} <= kNearBytes ||
                      tile.rhs_step == 2 * L::kCount;
    const bool panel = tile.lhs_row == 1 && tile.lhs_step == kTileRows;
    const int columns = tile.width <= L::kCount                 ? tile.width > Half::kCount
                        : near && (panel || tile.lhs_step == 1) ? 3 + panel
                                                                : 2;
    kFunctions[static_cast<size_t>(tile.rows - 1)][columns](tile);
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
