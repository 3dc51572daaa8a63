// The largest and the smallest of all elements up to each, and where it is.
#include "runtime/library/element.h"
#include "runtime/library/functions.h"
#include "runtime/library/scan/blocks.h"
#include "runtime/library/sort/keys.h"

#include <algorithm>
#include <limits>

namespace lz::runtime {

namespace {

/// Keys that are made at a time.
constexpr int64_t kTogether = 64;

template <bool kLargest>
struct Extremes {
    template <ir::DType D>
    struct Over {
        using Storage = typename Element<D>::Storage;
        using Key = decltype(key_of<D>(Storage{}));

        /// Whatever comes later takes over unless its key is less: the last of equals does, and NaN from all.
        static Key key(Storage value) {
            const Key up = key_of<D>(value);
            if (kLargest || (ir::is_float(D) && up == std::numeric_limits<Key>::max()))
                return up;
            return static_cast<Key>(~up);
        }

        /// `places` may be null. The compiler makes keys side by side.
        static void row(const Storage *in, Storage *values, int64_t *places, int64_t extent) {
            Key best = 0, keys[kTogether];
            int64_t place = 0, e = 0;
            const auto take = [&](Key k) {
                const bool takes = k >= best;
                best = takes ? k : best;
                place = takes ? e : place;
                values[e] = in[place];
                if (places)
                    places[e] = place;
                ++e;
            };
            while (e + kTogether <= extent) {
                for (int64_t i = 0; i < kTogether; ++i)
                    keys[i] = key(in[e + i]);
                for (const Key k : keys)
                    take(k);
            }
            while (e < extent)
                take(key(in[e]));
        }

        /// `columns` neighbours over `extent` elements each, which are `step` apart.
        static void block(const Storage *in, Storage *values, int64_t *places, int64_t columns,
                          int64_t extent, int64_t step) {
            Key best[kScanColumns] = {};
            int64_t place[kScanColumns] = {};
            for (int64_t e = 0; e < extent; ++e, in += step, values += step) {
                const Storage *const before = e > 0 ? values - step : in;
                for (int64_t c = 0; c < columns; ++c) {
                    const Storage x = in[c];
                    const Key k = key(x);
                    const bool takes = k >= best[c];
                    best[c] = takes ? k : best[c];
                    place[c] = takes ? e : place[c];
                    values[c] = takes ? x : before[c];
                }
                if (places)
                    std::copy_n(place, columns, places + e * step);
            }
        }

        static void run(const LibraryArgs &args) {
            const auto *in = static_cast<const Storage *>(args.buffers[0]);
            auto *values = static_cast<Storage *>(args.buffers[1]);
            const bool has_places = args.ints.size() < 5 || (args.ints[4] & 2) != 0;
            const auto places_at = [&](int64_t at) {
                return has_places ? static_cast<int64_t *>(args.buffers[2]) + at : nullptr;
            };
            const int64_t outer = args.ints[1], extent = args.ints[2], inner = args.ints[3];
            if (outer == 0 || extent == 0 || inner == 0)
                return;
            if (inner == 1)
                return parallel_for(outer, kScanRange / extent + 1, [&](int64_t begin, int64_t end) {
                    for (int64_t o = begin; o < end; ++o)
                        row(in + o * extent, values + o * extent, places_at(o * extent), extent);
                });
            for_column_blocks(outer, extent, inner, [&](int64_t at, int64_t columns) {
                block(in + at, values + at, places_at(at), columns, extent, inner);
            });
        }
    };
};

template <ir::DType D>
using LargestOver = Extremes<true>::Over<D>;
template <ir::DType D>
using SmallestOver = Extremes<false>::Over<D>;

} // namespace

void cummax(const LibraryArgs &args) {
    DTypeTable<LargestOver>::at(args.ints[0])(args);
}
void cummin(const LibraryArgs &args) {
    DTypeTable<SmallestOver>::at(args.ints[0])(args);
}

} // namespace lz::runtime
