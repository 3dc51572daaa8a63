#include "runtime/library/element.h"
#include "runtime/library/functions.h"

#include "runtime/api/parallel.h"

#include <algorithm>
#include <cstring>

namespace lz::runtime {

namespace {

/// Elements worth handing to another thread.
constexpr int64_t kRange = 16384;
/// Running values side by side across `inner`; and in all where that is so small that rows join in: an
/// addition takes four cycles, and two can begin in each.
constexpr int64_t kColumns = 256, kSideBySide = 8;
/// Of a row in a tile: two cache lines, which the hardware fetches together.
constexpr int64_t kTileBytes = 128;

struct Sum {
    template <class T>
    static T identity() {
        return T(0);
    }
    template <class T>
    static T apply(T a, T b) {
        return a + b;
    }
};
struct Product {
    template <class T>
    static T identity() {
        return T(1);
    }
    template <class T>
    static T apply(T a, T b) {
        return a * b;
    }
};

/// `columns` running values over `extent` elements each, which are `step` apart; columns are neighbours. The
/// order along the axis is first to last, whatever the columns; so results do not depend on how they are
/// shared between threads. The first element starts the running value: -0 stays -0.
template <ir::DType D, class Fold>
void scan_columns(const typename Element<D>::Storage *in, typename Element<D>::Storage *out, int64_t columns,
                  int64_t extent, int64_t step) {
    using E = Element<D>;
    typename E::Accumulator running[kColumns];
    for (int64_t c = 0; c < columns; ++c) {
        running[c] = E::load(in[c]);
        out[c] = E::store(running[c]);
    }
    for (int64_t e = 1; e < extent; ++e) {
        in += step;
        out += step;
        for (int64_t c = 0; c < columns; ++c) {
            running[c] = Fold::apply(running[c], E::load(in[c]));
            out[c] = E::store(running[c]);
        }
    }
}

/// kRows blocks of `extent` rows of kInner elements each, one block after another: kRows * kInner running
/// values side by side. Some whole cache lines of each block are brought into a tile, folded there and stored
/// again: blocks whose distance is a power of two meet in few sets of the cache, and would drive out each
/// other's lines before they are used up.
template <ir::DType D, class Fold, int64_t kRows, int64_t kInner>
void scan_rows(const typename Element<D>::Storage *in, typename Element<D>::Storage *out, int64_t extent) {
    using E = Element<D>;
    using Storage = typename E::Storage;
    constexpr int64_t kSteps =
        std::max<int64_t>(kTileBytes / (kInner * static_cast<int64_t>(sizeof(Storage))), 1);
    constexpr int64_t kTile = kSteps * kInner;
    Storage tile[kRows][kTile];
    typename E::Accumulator running[kRows][kInner];
    const int64_t block = extent * kInner;
    for (int64_t e = 0; e < extent; e += kSteps) {
        const int64_t steps = std::min(kSteps, extent - e);
        const auto bytes = static_cast<size_t>(steps * kInner) * sizeof(Storage);
        for (int64_t r = 0; r < kRows; ++r)
            std::memcpy(tile[r], in + r * block + e * kInner, bytes);
        int64_t s = 0;
        if (e == 0) {
            for (int64_t r = 0; r < kRows; ++r)
                for (int64_t c = 0; c < kInner; ++c) {
                    running[r][c] = E::load(tile[r][c]);
                    tile[r][c] = E::store(running[r][c]);
                }
            s = 1;
        }
        for (; s < steps; ++s)
            for (int64_t r = 0; r < kRows; ++r)
                for (int64_t c = 0; c < kInner; ++c) {
                    Storage &place = tile[r][s * kInner + c];
                    running[r][c] = Fold::apply(running[r][c], E::load(place));
                    place = E::store(running[r][c]);
                }
        for (int64_t r = 0; r < kRows; ++r)
            std::memcpy(out + r * block + e * kInner, tile[r], bytes);
    }
}

/// All rows of a narrow array, kRows at a time.
template <ir::DType D, class Fold, int64_t kInner>
void scan_narrow(const typename Element<D>::Storage *in, typename Element<D>::Storage *out, int64_t outer,
                 int64_t extent) {
    constexpr int64_t kRows = kSideBySide / kInner;
    const int64_t groups = (outer + kRows - 1) / kRows, block = extent * kInner;
    parallel_for(groups, kRange / (kRows * block) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; ++g) {
            int64_t row = g * kRows;
            if (row + kRows <= outer)
                scan_rows<D, Fold, kRows, kInner>(in + row * block, out + row * block, extent);
            else
                for (; row < outer; ++row)
                    scan_rows<D, Fold, 1, kInner>(in + row * block, out + row * block, extent);
        }
    });
}

template <class Fold>
struct Scan {
    template <ir::DType D>
    struct Over {
        static void run(const LibraryArgs &args) {
            using Storage = typename Element<D>::Storage;
            const auto *in = static_cast<const Storage *>(args.buffers[0]);
            auto *out = static_cast<Storage *>(args.buffers[1]);
            const int64_t outer = args.ints[1], extent = args.ints[2], inner = args.ints[3];
            if (outer == 0 || extent == 0 || inner == 0)
                return;
            if (inner == 1)
                return scan_narrow<D, Fold, 1>(in, out, outer, extent);
            if (inner == 2)
                return scan_narrow<D, Fold, 2>(in, out, outer, extent);
            if (inner == 4)
                return scan_narrow<D, Fold, 4>(in, out, outer, extent);
            int64_t blocks = (inner + kColumns - 1) / kColumns;
            int64_t width = std::min(inner, kColumns);
            parallel_for(outer * blocks, kRange / (width * extent) + 1, [&](int64_t begin, int64_t end) {
                for (int64_t b = begin; b < end; ++b) {
                    int64_t column = b % blocks * kColumns;
                    int64_t at = b / blocks * extent * inner + column;
                    scan_columns<D, Fold>(in + at, out + at, std::min(kColumns, inner - column), extent,
                                          inner);
                }
            });
        }
    };
};

template <ir::DType D>
using SumOver = Scan<Sum>::Over<D>;
template <ir::DType D>
using ProductOver = Scan<Product>::Over<D>;

} // namespace

void cumsum(const LibraryArgs &args) {
    DTypeTable<SumOver>::at(args.ints[0])(args);
}
void cumprod(const LibraryArgs &args) {
    DTypeTable<ProductOver>::at(args.ints[0])(args);
}

} // namespace lz::runtime
