#include "runtime/library/element.h"
#include "runtime/library/functions.h"

#include "runtime/api/parallel.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

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

/// `columns` running values over `extent` elements each, which are `step` apart; columns are neighbours. The
/// order along the axis is the language's, whatever the columns; so results do not depend on how they are
/// shared between threads. The first element starts the running value: -0 stays -0.
template <ir::DType D, class Fold>
void scan_columns(const typename Element<D>::Storage *in, typename Element<D>::Storage *out, int64_t columns,
                  int64_t extent, int64_t step) {
    using E = Element<D>;
    using A = typename E::Accumulator;
    A running[kColumns];
    Before<A, Fold, kColumns> before;
    const int64_t chunk = chunk_of<A>(extent);
    for (int64_t begin = 0; begin < extent; begin += chunk) {
        const int64_t end = std::min(extent, begin + chunk);
        for (int64_t e = begin; e < end; ++e, in += step, out += step) {
            if (e == begin)
                for (int64_t c = 0; c < columns; ++c)
                    running[c] = E::load(in[c]);
            else
                for (int64_t c = 0; c < columns; ++c)
                    running[c] = Fold::apply(running[c], E::load(in[c]));
            if (before.there())
                for (int64_t c = 0; c < columns; ++c)
                    out[c] = E::store(Fold::apply(before.at(c), running[c]));
            else
                for (int64_t c = 0; c < columns; ++c)
                    out[c] = E::store(running[c]);
        }
        if (end < extent)
            before.take(running, columns);
    }
}

/// kRows blocks of `extent` rows of kInner elements each, one block after another: kRows * kInner running
/// values side by side. Some whole cache lines of each block are brought into a tile, folded there and stored
/// again: blocks whose distance is a power of two meet in few sets of the cache, and would drive out each
/// other's lines before they are used up.
template <ir::DType D, class Fold, int64_t kRows, int64_t kInner>
void scan_rows(const typename Element<D>::Storage *in, typename Element<D>::Storage *out, int64_t extent) {
    using E = Element<D>;
    using A = typename E::Accumulator;
    using Storage = typename E::Storage;
    constexpr int64_t kSteps =
        std::max<int64_t>(kTileBytes / (kInner * static_cast<int64_t>(sizeof(Storage))), 1);
    static_assert(ir::kScanChunk % kSteps == 0);
    constexpr int64_t kTile = kSteps * kInner;
    Storage tile[kRows][kTile];
    A running[kRows][kInner];
    Before<A, Fold, kRows * kInner> before;
    const int64_t block = extent * kInner, chunk = chunk_of<A>(extent);
    for (int64_t e = 0; e < extent; e += kSteps) {
        const int64_t steps = std::min(kSteps, extent - e);
        const auto bytes = static_cast<size_t>(steps * kInner) * sizeof(Storage);
        for (int64_t r = 0; r < kRows; ++r)
            std::memcpy(tile[r], in + r * block + e * kInner, bytes);
        const bool begins = e % chunk == 0;
        if (begins && e > 0)
            before.take(&running[0][0], kRows * kInner);
        const auto fold = [&](auto carries) {
            for (int64_t s = 0; s < steps; ++s)
                for (int64_t r = 0; r < kRows; ++r)
                    for (int64_t c = 0; c < kInner; ++c) {
                        Storage &place = tile[r][s * kInner + c];
                        const A x = E::load(place);
                        running[r][c] = begins && s == 0 ? x : Fold::apply(running[r][c], x);
                        if constexpr (carries)
                            place = E::store(Fold::apply(before.at(r * kInner + c), running[r][c]));
                        else
                            place = E::store(running[r][c]);
                    }
        };
        if (before.there())
            fold(std::true_type());
        else
            fold(std::false_type());
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
