#pragma once
/// Panels of operands of which the elements stand anywhere (PackGathered), and many panels of neighbours at
/// once (PackPanels), for registers of any kind. The
/// file that includes this says in LZ_GATHERED which instructions its functions may use, and in
/// LZ_GATHERED_INLINE the same of those that are always inlined.
///
/// A type of lanes, G below, says what is in a register: G::T in memory, G::kCount of them in a G::Register;
///     Mask lanes(begin, end)          lanes [begin, end) of a register, both from 0 to kCount
///     load(from), load(from, mask)    lanes out of the mask are 0, and their memory is not touched
///     join(x, from, mask)             x, of which lanes in the mask are 0, with them loaded
///     store(to, x)
///     transpose(square)
///     store_part<Width, Column>(to, x)
///     kChooses                        whether there is choose(x, y, from), which takes lane from[l] of x, or
///                                     from kCount on of y, for lane l, and the type of an Index

#include <cstdint>

namespace lz::ir {
namespace {

/// The rows of one register of a panel.
template <class G>
struct GatheredRows {
    int count = 0;
    int64_t row[G::kCount]; ///< the last one is repeated
    /// Neighbours in memory, the rows in the mask: row i of them stands at from + at + i.
    struct Run {
        int64_t at;
        typename G::Mask mask;
    };
    int runs = 0;
    Run run[G::kCount];
    int64_t low = 0, high = 0; ///< of all rows
};

template <class G>
LZ_GATHERED GatheredRows<G> gathered_rows(const int64_t *rows, int64_t count) {
    GatheredRows<G> all;
    all.count = static_cast<int>(count < G::kCount ? count : G::kCount);
    all.low = all.high = rows[0];
    for (int i = 0; i < G::kCount; ++i) {
        const int64_t row = all.row[i] = rows[i < all.count ? i : all.count - 1];
        all.low = row < all.low ? row : all.low;
        all.high = row > all.high ? row : all.high;
    }
    for (int begin = 0, end = 1; begin < all.count; begin = end++) {
        while (end < all.count && all.row[end] == all.row[end - 1] + 1)
            ++end;
        all.run[all.runs++] = {all.row[begin] - begin, G::lanes(begin, end)};
    }
    return all;
}

/// Neighbours along k in memory from `k` on, at most a register of them.
template <class G>
LZ_GATHERED_INLINE int64_t depth_run(const int64_t *depths, int64_t k, int64_t depth) {
    const int64_t most = depth - k < G::kCount ? depth - k : G::kCount;
    int64_t length = 1;
    while (length < most && depths[k + length] == depths[k + length - 1] + 1)
        ++length;
    return length;
}

/// Whether squares of registers along k are transposed in fewer instructions than runs of rows are loaded.
template <class G>
LZ_GATHERED bool pays_to_transpose(int runs, const int64_t *depths, int64_t depth) {
    int shuffles = 1; // for each register of a square: those, and a load
    for (int half = G::kCount / 2; half > 0; half /= 2)
        ++shuffles;
    if (runs <= shuffles)
        return false;
    int64_t squares = 0;
    for (int64_t k = 0; k < depth; k += depth_run<G>(depths, k, depth))
        ++squares;
    return squares * G::kCount * shuffles < runs * depth;
}

template <class G, int Width, int Column>
LZ_GATHERED void pack_transposed(typename G::T *to, const typename G::T *from, const GatheredRows<G> &rows,
                                 const int64_t *depths, int64_t depth) {
    // The tile that probably follows: as far away as from this one's first row to the last, and once more.
    const int64_t next = rows.row[rows.count - 1] - rows.row[0] + rows.row[1] - rows.row[0];
    for (int64_t k = 0; k < depth;) {
        const int64_t length = depth_run<G>(depths, k, depth);
        const typename G::Mask mask = G::lanes(0, static_cast<int>(length));
        typename G::Register square[G::kCount];
#pragma GCC unroll 16
        for (int i = 0; i < G::kCount; ++i) {
            const typename G::T *const row = from + rows.row[i] + depths[k];
            _mm_prefetch(reinterpret_cast<const char *>(row + next), _MM_HINT_T1);
            square[i] = G::load(row, mask);
        }
        G::transpose(square);
        k += length;
#pragma GCC unroll 16
        for (int l = 0; l < G::kCount; ++l)
            if (l < length) {
                G::template store_part<Width, Column>(to, square[l]);
                to += Width;
            }
    }
}

/// All rows stand within two registers of memory: lanes of those are chosen.
template <class G, int Width, int Column>
LZ_GATHERED void pack_chosen(typename G::T *to, const typename G::T *from, const GatheredRows<G> &rows,
                             const int64_t *depths, int64_t depth) {
    alignas(64) typename G::Index index[G::kCount];
    for (int i = 0; i < G::kCount; ++i)
        index[i] = static_cast<typename G::Index>(rows.row[i] - rows.low);
    const int span = static_cast<int>(rows.high - rows.low) + 1;
    const typename G::Mask low = G::lanes(0, span < G::kCount ? span : G::kCount),
                           high = G::lanes(0, span < G::kCount ? 0 : span - G::kCount);
    from += rows.low;
    for (int64_t k = 0; k < depth; ++k, to += Width) {
        const typename G::T *const at = from + depths[k];
        G::template store_part<Width, Column>(
            to, G::choose(G::load(at, low), G::load(at + G::kCount, high), index));
    }
}

template <class G, int Width, int Column>
LZ_GATHERED void pack_runs(typename G::T *to, const typename G::T *from, const GatheredRows<G> &rows,
                           const int64_t *depths, int64_t depth) {
    if (rows.runs == 1) {
        from += rows.run[0].at;
        for (int64_t k = 0; k < depth; ++k, to += Width)
            G::template store_part<Width, Column>(to, G::load(from + depths[k], rows.run[0].mask));
        return;
    }
    for (int64_t k = 0; k < depth; ++k, to += Width) {
        const typename G::T *const at = from + depths[k];
        typename G::Register x = G::load(at + rows.run[0].at, rows.run[0].mask);
        for (int r = 1; r < rows.runs; ++r)
            x = G::join(x, at + rows.run[r].at, rows.run[r].mask);
        G::template store_part<Width, Column>(to, x);
    }
}

/// The rows of a panel from `Column` on.
template <class G, int Width, int Column>
LZ_GATHERED void pack_gathered_part(typename G::T *to, const typename G::T *from, const int64_t *row,
                                    const int64_t *depths, int64_t count, int64_t depth) {
    if (count <= Column)
        return;
    constexpr int kRows = Width - Column;
    const int64_t there = count - Column < kRows ? count - Column : kRows;
    const GatheredRows<G> rows = gathered_rows<G>(row + Column, there);
    if constexpr (G::kChooses)
        if (rows.runs > 1 && rows.high - rows.low < 2 * G::kCount) {
            pack_chosen<G, Width, Column>(to, from, rows, depths, depth);
            return;
        }
    const auto pack = pays_to_transpose<G>(rows.runs, depths, depth) ? pack_transposed<G, Width, Column>
                                                                     : pack_runs<G, Width, Column>;
    pack(to, from, rows, depths, depth);
}

template <class G, int Width>
LZ_GATHERED void pack_gathered_width(typename G::T *to, const typename G::T *from, const int64_t *rows,
                                     const int64_t *depths, int64_t count, int64_t depth) {
    pack_gathered_part<G, Width, 0>(to, from, rows, depths, count, depth);
    if constexpr (Width > G::kCount)
        pack_gathered_part<G, Width, G::kCount>(to, from, rows, depths, count, depth);
}

/// PackGathered where a tile has `Rows` rows.
template <class G, int Rows>
void pack_gathered(void *to, const void *from, const int64_t *rows, const int64_t *depths, int64_t count,
                   int64_t depth, int64_t width) {
    using T = typename G::T;
    const auto pack = width == Rows ? pack_gathered_width<G, Rows> : pack_gathered_width<G, 2 * G::kCount>;
    if (depth > 0)
        pack(static_cast<T *>(to), static_cast<const T *>(from), rows, depths, count, depth);
}

template <class G>
LZ_GATHERED void pack_panels(void *to, const void *from, int64_t count, int64_t depth, int64_t stride_k,
                             int64_t panel_bytes) {
    using T = typename G::T;
    constexpr int kWidth = 2 * G::kCount;
    const int64_t whole = count / kWidth, distance = panel_bytes / int64_t{sizeof(T)};
    const int rest = static_cast<int>(count % kWidth), left = rest < G::kCount ? rest : G::kCount;
    const typename G::Mask low = G::lanes(0, left), high = G::lanes(0, rest - left);
    const T *step = static_cast<const T *>(from);
    T *panels = static_cast<T *>(to);
    for (int64_t k = 0; k < depth; ++k, step += stride_k, panels += kWidth) {
        for (int64_t p = 0; p < whole; ++p) {
            const T *const read = step + p * kWidth;
            T *const written = panels + p * distance;
            G::store(written, G::load(read));
            G::store(written + G::kCount, G::load(read + G::kCount));
        }
        if (rest > 0) {
            const T *const read = step + whole * kWidth;
            T *const written = panels + whole * distance;
            G::store(written, G::load(read, low));
            G::store(written + G::kCount, G::load(read + G::kCount, high));
        }
    }
}

} // namespace
} // namespace lz::ir
