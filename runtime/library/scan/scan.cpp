#include "runtime/library/element.h"
#include "runtime/library/functions.h"
#include "runtime/library/scan/blocks.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace lz::runtime {

namespace {

/// Running values in all where rows join in because `inner` is small: an addition takes four cycles, and two
/// can begin in each.
constexpr int64_t kSideBySide = 8;
/// Of a row in a tile: two cache lines, which the hardware fetches together.
constexpr int64_t kTileBytes = 128;
/// Bytes from which on blocks that are folded side by side may meet in the cache's sets.
constexpr int64_t kLongBlock = 512;

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

/// What comes before the chunks of `width` lines (ir::kScanChunk). A line has fewer elements than three
/// levels of chunks of chunks.
template <class A, class Fold, int64_t kWidth>
class Before {
public:
    /// Whether anything does.
    bool there() const { return taken_ > 0; }
    A at(int64_t c) const { return before_[0][c]; }
    /// Results of one chunk more of each line, of which there are `width`.
    void take(const A *totals, int64_t width) {
        int64_t all = taken_++;
        for (size_t l = 0; l < kLevels; ++l, all /= ir::kScanChunk) {
            const bool first = all % ir::kScanChunk == 0, carries = all >= ir::kScanChunk;
            for (int64_t c = 0; c < width; ++c)
                running_[l][c] = first ? totals[c] : Fold::apply(running_[l][c], totals[c]);
            for (int64_t c = 0; c < width; ++c)
                before_[l][c] = carries ? Fold::apply(before_[l + 1][c], running_[l][c]) : running_[l][c];
            if ((all + 1) % ir::kScanChunk != 0)
                return;
            totals = running_[l];
        }
    }

private:
    static constexpr size_t kLevels = 3;
    int64_t taken_ = 0;
    A running_[kLevels][kWidth];
    A before_[kLevels + 1][kWidth]; ///< by level: the results of all whole chunks of the one below
};

/// Elements of a line that are folded before something is taken up: of floats a chunk, of integers, where the
/// order cannot be seen, all.
template <class A>
int64_t chunk_of(int64_t extent) {
    return std::is_floating_point_v<A> ? std::min(extent, ir::kScanChunk) : extent;
}

/// Calls f(r, c) for all places of kRows x kInner running values. All calls stand in the code, so that the
/// values are in registers.
template <int64_t kRows, int64_t kInner, class F>
void for_places(F &&f) {
    [&]<int64_t... kAt>(std::integer_sequence<int64_t, kAt...>) {
        (f(kAt / kInner, kAt % kInner), ...);
    }(std::make_integer_sequence<int64_t, kRows * kInner>());
}

/// `columns` running values over `extent` elements each, which are `step` apart; columns are neighbours. The
/// order along the axis is the language's, whatever the columns; so results do not depend on how they are
/// shared between threads. The first element starts the running value: -0 stays -0.
template <ir::DType D, class Fold>
void scan_columns(const typename Element<D>::Storage *in, typename Element<D>::Storage *out, int64_t columns,
                  int64_t extent, int64_t step) {
    using E = Element<D>;
    using A = typename E::Accumulator;
    A running[kScanColumns];
    Before<A, Fold, kScanColumns> before;
    const int64_t chunk = chunk_of<A>(extent);
    // kWidth columns of one row: all are read before the first is written, in case the compiler cannot see
    // that the two are apart.
    const auto take = [&]<int64_t kWidth>(std::integral_constant<int64_t, kWidth>, int64_t c, bool begins,
                                          bool carries) {
        A now[kWidth];
        for_places<1, kWidth>([&](int64_t, int64_t i) { now[i] = E::load(in[c + i]); });
        if (!begins)
            for_places<1, kWidth>([&](int64_t, int64_t i) { now[i] = Fold::apply(running[c + i], now[i]); });
        for_places<1, kWidth>([&](int64_t, int64_t i) { running[c + i] = now[i]; });
        if (carries)
            for_places<1, kWidth>(
                [&](int64_t, int64_t i) { now[i] = Fold::apply(before.at(c + i), now[i]); });
        for_places<1, kWidth>([&](int64_t, int64_t i) { out[c + i] = E::store(now[i]); });
    };
    for (int64_t e = 0; e < extent; ++e, in += step, out += step) {
        const bool begins = e % chunk == 0;
        if (begins && e > 0)
            before.take(running, columns);
        const bool carries = before.there();
        int64_t c = 0;
        for (; c + kSideBySide <= columns; c += kSideBySide)
            take(std::integral_constant<int64_t, kSideBySide>(), c, begins, carries);
        for (; c + 4 <= columns; c += 4)
            take(std::integral_constant<int64_t, 4>(), c, begins, carries);
        for (; c < columns; ++c)
            take(std::integral_constant<int64_t, 1>(), c, begins, carries);
    }
}

/// kRows blocks of `extent` rows of kInner elements each, one block after another: kRows * kInner running
/// values side by side. Of long blocks (kTiled) some whole cache lines of each are brought into a tile,
/// folded there and stored again: blocks whose distance is a power of two meet in few sets of the cache, and
/// would drive out each other's lines before they are used up.
template <ir::DType D, class Fold, int64_t kRows, int64_t kInner, bool kTiled>
void scan_rows(const typename Element<D>::Storage *in, typename Element<D>::Storage *out, int64_t extent) {
    using E = Element<D>;
    using A = typename E::Accumulator;
    using Storage = typename E::Storage;
    constexpr int64_t kSteps =
        std::max<int64_t>(kTileBytes / (kInner * static_cast<int64_t>(sizeof(Storage))), 1);
    static_assert(ir::kScanChunk % kSteps == 0);
    constexpr int64_t kTile = kSteps * kInner;
    A running[kRows * kInner];
    Before<A, Fold, kRows * kInner> before;
    const int64_t block = extent * kInner, chunk = chunk_of<A>(extent);
    // From a place of each block to that of the next, in what is read and in what is written.
    const auto fold = [&](const Storage *from, Storage *to, int64_t apart, int64_t steps, bool begins) {
        int64_t s = 0;
        if (begins) {
            for_places<kRows, kInner>(
                [&](int64_t r, int64_t c) { running[r * kInner + c] = E::load(from[r * apart + c]); });
            if (before.there())
                for_places<kRows, kInner>([&](int64_t r, int64_t c) {
                    const int64_t i = r * kInner + c;
                    to[r * apart + c] = E::store(Fold::apply(before.at(i), running[i]));
                });
            else
                for_places<kRows, kInner>(
                    [&](int64_t r, int64_t c) { to[r * apart + c] = E::store(running[r * kInner + c]); });
            s = 1;
        }
        A now[kRows * kInner];
        for_places<kRows, kInner>(
            [&](int64_t r, int64_t c) { now[r * kInner + c] = running[r * kInner + c]; });
        const auto go_on = [&](auto carries) {
            for (; s < steps; ++s)
                for_places<kRows, kInner>([&](int64_t r, int64_t c) {
                    const int64_t i = r * kInner + c, at = r * apart + s * kInner + c;
                    now[i] = Fold::apply(now[i], E::load(from[at]));
                    if constexpr (carries)
                        to[at] = E::store(Fold::apply(before.at(i), now[i]));
                    else
                        to[at] = E::store(now[i]);
                });
        };
        if (before.there())
            go_on(std::true_type());
        else
            go_on(std::false_type());
        for_places<kRows, kInner>(
            [&](int64_t r, int64_t c) { running[r * kInner + c] = now[r * kInner + c]; });
    };
    if constexpr (!kTiled) {
        for (int64_t e = 0; e < extent; e += chunk) {
            if (e > 0)
                before.take(running, kRows * kInner);
            fold(in + e * kInner, out + e * kInner, block, std::min(chunk, extent - e), true);
        }
        return;
    }
    Storage tile[kRows][kTile];
    for (int64_t e = 0; e < extent; e += kSteps) {
        const bool begins = e % chunk == 0;
        if (begins && e > 0)
            before.take(running, kRows * kInner);
        if (const int64_t steps = extent - e; steps < kSteps) {
            fold(in + e * kInner, out + e * kInner, block, steps, begins);
            break;
        }
        for (int64_t r = 0; r < kRows; ++r)
            std::memcpy(tile[r], in + r * block + e * kInner, sizeof(tile[r]));
        fold(tile[0], tile[0], kTile, kSteps, begins);
        for (int64_t r = 0; r < kRows; ++r)
            std::memcpy(out + r * block + e * kInner, tile[r], sizeof(tile[r]));
    }
}

/// All rows of a narrow array, kRows at a time.
template <ir::DType D, class Fold, int64_t kInner>
void scan_narrow(const typename Element<D>::Storage *in, typename Element<D>::Storage *out, int64_t outer,
                 int64_t extent) {
    constexpr int64_t kRows = kSideBySide / kInner;
    const int64_t groups = (outer + kRows - 1) / kRows, block = extent * kInner;
    const bool is_long = block * static_cast<int64_t>(sizeof(*in)) >= kLongBlock;
    parallel_for(groups, kScanRange / (kRows * block) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; ++g) {
            int64_t row = g * kRows;
            if (row + kRows > outer)
                for (; row < outer; ++row)
                    scan_rows<D, Fold, 1, kInner, false>(in + row * block, out + row * block, extent);
            else if (is_long)
                scan_rows<D, Fold, kRows, kInner, true>(in + row * block, out + row * block, extent);
            else
                scan_rows<D, Fold, kRows, kInner, false>(in + row * block, out + row * block, extent);
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
            for_column_blocks(outer, extent, inner, [&](int64_t at, int64_t columns) {
                scan_columns<D, Fold>(in + at, out + at, columns, extent, inner);
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
