#include "runtime/library/element.h"
#include "runtime/library/functions.h"

#include "runtime/api/parallel.h"

#include <algorithm>

namespace lz::runtime {

namespace {

/// Elements worth handing to another thread.
constexpr int64_t kRange = 16384;
/// Running values side by side: across `inner`, or rows when there is no inner extent.
constexpr int64_t kColumns = 256, kRows = 8;

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

/// `columns` running values over `extent` elements each, which are `step` apart; neighbouring columns are
/// `apart`. The order along the axis is first to last, whatever the columns; so results do not depend on how
/// they are shared between threads. The first element starts the running value: -0 stays -0.
template <ir::DType D, class Fold, int64_t kWidth>
void scan_columns(const typename Element<D>::Storage *in, typename Element<D>::Storage *out, int64_t columns,
                  int64_t extent, int64_t step, int64_t apart) {
    using E = Element<D>;
    typename E::Accumulator running[kWidth];
    for (int64_t c = 0; c < columns; ++c) {
        running[c] = E::load(in[c * apart]);
        out[c * apart] = E::store(running[c]);
    }
    for (int64_t e = 1; e < extent; ++e) {
        in += step;
        out += step;
        for (int64_t c = 0; c < columns; ++c) {
            running[c] = Fold::apply(running[c], E::load(in[c * apart]));
            out[c * apart] = E::store(running[c]);
        }
    }
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
            if (inner == 1) {
                int64_t groups = (outer + kRows - 1) / kRows;
                parallel_for(groups, kRange / (kRows * extent) + 1, [&](int64_t begin, int64_t end) {
                    for (int64_t g = begin; g < end; ++g) {
                        int64_t row = g * kRows, at = row * extent;
                        scan_columns<D, Fold, kRows>(in + at, out + at, std::min(kRows, outer - row), extent,
                                                     1, extent);
                    }
                });
                return;
            }
            int64_t blocks = (inner + kColumns - 1) / kColumns;
            int64_t width = std::min(inner, kColumns);
            parallel_for(outer * blocks, kRange / (width * extent) + 1, [&](int64_t begin, int64_t end) {
                for (int64_t b = begin; b < end; ++b) {
                    int64_t column = b % blocks * kColumns;
                    int64_t at = b / blocks * extent * inner + column;
                    scan_columns<D, Fold, kColumns>(in + at, out + at, std::min(kColumns, inner - column),
                                                    extent, inner, 1);
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
