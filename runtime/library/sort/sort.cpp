#include "runtime/library/element.h"
#include "runtime/library/functions.h"
#include "runtime/library/scratch.h"
#include "runtime/library/sort/ahead.h"
#include "runtime/library/sort/job.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <mutex>
#include <type_traits>

namespace lz::runtime {

namespace {

/// Elements worth handing to another thread.
constexpr int64_t kRange = 4096;

template <ir::DType D>
class Sort {
public:
    static void run(const LibraryArgs &args) {
        const SortJob job(args.ints);
        if (job.empty())
            return;
        if (job.partitions())
            return partition(job, args);
        if (job.shares_rows())
            return in_parts(job, args);
        if (job.stages_columns())
            return columns(job, args);
        if (job.packs())
            return rows<Packed>(job, args);
        rows<Wide>(job, args);
    }

private:
    using Storage = typename Element<D>::Storage;
    using Key = decltype(key_of<D>(Storage{}));
    static constexpr bool kPacks = sizeof(Key) <= 4;

    static Key ordered_key(const SortJob &job, Storage value) {
        const Key key = key_of<D>(value);
        return job.descending ? static_cast<Key>(~key) : key;
    }
    static FindAhead<Storage> find_of(bool descending) {
        if constexpr (D == ir::DType::Bool)
            return nullptr;
        else if constexpr (ir::is_half(D))
            return find_half_ahead(D == ir::DType::F16 ? 0x7C00 : 0x7F80, descending);
        else
            return find_ahead<Storage>(descending);
    }
    template <class Item>
    static Item item_of(const SortJob &job, const Storage *in, int64_t place) {
        return Item::make(ordered_key(job, in[place * job.inner]), place);
    }

    /// Where keys of 64 bits lie, and the bits in which any of them differ.
    struct Range {
        uint64_t lowest = std::numeric_limits<uint64_t>::max(), highest = 0, differing = 0;
        void add(const Range &other) {
            lowest = std::min(lowest, other.lowest);
            highest = std::max(highest, other.highest);
            differing |= other.differing;
        }
    };
    static Range range_of(const SortJob &job, const Storage *in, int64_t begin, int64_t end) {
        const uint64_t first = key_of<D>(in[0]);
        Range range;
        for (int64_t i = begin; i < end; ++i) {
            const uint64_t key = key_of<D>(in[i * job.inner]);
            range.add({key, key, key ^ first});
        }
        return range;
    }
    /// What is sorted by first: of keys of 64 bits the highest 32 in which their distances differ, from the
    /// lowest or to the highest of them.
    struct Digits {
        int bits = 8 * static_cast<int>(sizeof(Key)), shift = 0;
        bool all = true; ///< they do not differ in others
        uint64_t lowest = 0, highest = 0;
        uint64_t distance(const SortJob &job, Storage value) const {
            const uint64_t key = key_of<D>(value);
            return job.descending ? highest - key : key - lowest;
        }
    };
    static Digits digits_of(const Range &range) {
        if (range.differing == 0)
            return {0, 0, true, range.lowest, range.highest};
        const int low = std::countr_zero(range.differing),
                  high = 64 - std::countl_zero(range.highest - range.lowest);
        const bool all = high - low <= 32;
        return {std::min(high - low, 32), all ? low : high - 32, all, range.lowest, range.highest};
    }
    static void fill(const SortJob &job, const Storage *in, const Digits &digits, Packed *items,
                     int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const Storage x = in[i * job.inner];
            const uint64_t key = kPacks ? ordered_key(job, x) : digits.distance(job, x) >> digits.shift;
            items[i] = Packed::make(static_cast<uint32_t>(key), i);
        }
    }
    /// The first item, from `at` on, whose key is not that of the one before.
    static int64_t next_run(const SortJob &job, const Packed *items, int64_t at) {
        while (at > 0 && at < job.extent && items[at].key() == items[at - 1].key())
            ++at;
        return at;
    }
    /// Runs of items whose keys agree in what has been sorted by are sorted by the bits below. `begin` and
    /// `end` are where runs begin.
    static void settle(const SortJob &job, const Storage *in, const Digits &digits, Packed *items,
                       Packed *other, int64_t begin, int64_t end) {
        const uint64_t mask = (uint64_t{1} << digits.shift) - 1;
        for (int64_t i = begin; i < end;) {
            const int64_t first = i;
            const uint64_t key = items[first].key();
            for (++i; i < end && items[i].key() == key;)
                ++i;
            const int64_t n = i - first;
            if (n == 1)
                continue;
            for (int64_t k = first; k < i; ++k) {
                const int64_t place = items[k].place();
                items[k] = Packed::make(digits.distance(job, in[place * job.inner]) & mask, place);
            }
            Packed *const at = radix_sort(items + first, other + first, n, digits.shift);
            if (at != items + first)
                std::memcpy(items + first, at, static_cast<size_t>(n) * sizeof(Packed));
        }
    }

    /// The same of all runs, on all threads.
    static void settle_in_parts(const SortJob &job, const Storage *in, const Digits &digits, Packed *items,
                                Packed *other) {
        const int64_t parts = job.parts();
        int64_t begin[SortJob::kMostParts + 1] = {}; // before any key is replaced
        for (int64_t p = 1; p <= parts; ++p) {
            const int64_t at = job.extent * p / parts;
            begin[p] = at <= begin[p - 1] ? begin[p - 1] : next_run(job, items, at);
        }
        parallel_for(parts, 1, [&](int64_t first, int64_t last) {
            settle(job, in, digits, items, other, begin[first], begin[last]);
        });
    }

    template <class Item>
    static const Item *sorted(const SortJob &job, const Storage *in, Item *items, Packed *other) {
        if constexpr (std::is_same_v<Item, Packed>) {
            const Digits digits = kPacks ? Digits() : digits_of(range_of(job, in, 0, job.extent));
            fill(job, in, digits, items, 0, job.extent);
            Packed *const all = radix_sort(items, other, job.extent, digits.bits);
            if (!digits.all)
                settle(job, in, digits, all, all == items ? other : items, 0, job.extent);
            return all;
        } else {
            for (int64_t i = 0; i < job.extent; ++i)
                items[i] = item_of<Item>(job, in, i);
            std::sort(items, items + job.extent);
            return items;
        }
    }

    /// The first `kept`, sorted. Items that come before all but kept - 1 of those seen so far are gathered;
    /// when there is no more room, the best are kept. Of equal ones the first is before the others, so that
    /// what is left out does not depend on when that happens.
    template <class Item>
    static const Item *pick(const SortJob &job, const Storage *in, Item *items) {
        const int64_t kept = job.kept, room = job.items();
        int64_t count = 0, i = 0;
        for (; i < room; ++i) // room <= extent
            items[count++] = item_of<Item>(job, in, i);
        std::nth_element(items, items + kept - 1, items + count);
        count = kept;
        Item bound = items[kept - 1];
        const auto look_at = [&](int64_t at) {
            const Item item = item_of<Item>(job, in, at);
            if (!(item < bound))
                return;
            items[count++] = item;
            if (count < room)
                return;
            std::nth_element(items, items + kept - 1, items + count);
            count = kept;
            bound = items[kept - 1];
        };
        if (const FindAhead<Storage> find =
                job.inner == 1 && job.extent >= kTogether ? find_of(job.descending) : nullptr)
            while (i < job.extent) {
                const Ahead ahead = find(in, i, job.extent, in[bound.place()]);
                for (uint64_t places = ahead.places; places != 0; places &= places - 1)
                    look_at(ahead.begin + std::countr_zero(places));
                i = ahead.begin + (ahead.places != 0 ? kTogether : 0);
            }
        for (; i < job.extent; ++i)
            look_at(i);
        if (count > kept)
            std::nth_element(items, items + kept - 1, items + count);
        std::sort(items, items + kept);
        return items;
    }

    template <class Item>
    static const Item *first_of(const SortJob &job, const Storage *row, Item *items, Packed *other) {
        return job.selects() ? pick(job, row, items) : sorted(job, row, items, other);
    }

    /// The first elements of each row.
    struct Results {
        Results(const SortJob &job, const LibraryArgs &args)
            : job(job), in(static_cast<const Storage *>(args.buffers[0])),
              values(static_cast<Storage *>(args.buffers[1])),
              indices(static_cast<int64_t *>(args.buffers[2])) {}
        const Storage *row(int64_t r) const {
            return in + r / job.inner * job.extent * job.inner + r % job.inner;
        }
        template <class Item>
        void put(int64_t r, const Item *items, int64_t begin, int64_t end) const {
            const Storage *const from = row(r);
            const int64_t to = r / job.inner * job.kept * job.inner + r % job.inner;
            if (job.wants_indices())
                for (int64_t i = begin; i < end; ++i)
                    indices[to + i * job.inner] = items[i].place();
            if (job.wants_values())
                for (int64_t i = begin; i < end; ++i)
                    values[to + i * job.inner] = from[items[i].place() * job.inner];
        }
        const SortJob &job;
        const Storage *in;
        Storage *values;
        int64_t *indices;
    };

    template <class Item>
    static void rows(const SortJob &job, const LibraryArgs &args) {
        const Results results(job, args);
        parallel_for_with_scratch(job.rows(), kRange / job.extent + 1, args.scratch, job.scratch(),
                                  [&](int64_t begin, int64_t end, std::span<std::byte> bytes) {
                                      Scratch scratch(bytes);
                                      Item *const items = scratch.take<Item>(job.items());
                                      Packed *const other = scratch.take<Packed>(job.others());
                                      for (int64_t r = begin; r < end; ++r)
                                          results.put(r, first_of(job, results.row(r), items, other), 0,
                                                      job.kept);
                                  });
    }

    /// Nearly always all of them, which is no call.
    template <class T>
    static void put_neighbours(const T *from, int64_t count, T *to) {
        if (count == SortJob::kColumns)
            std::memcpy(to, from, SortJob::kColumns * sizeof(T));
        else
            std::copy_n(from, count, to);
    }

    /// Of kColumns neighbouring rows at a time.
    static void columns(const SortJob &job, const LibraryArgs &args) {
        constexpr int64_t kColumns = SortJob::kColumns;
        const Results results(job, args);
        SortJob dense = job;
        dense.inner = 1;
        const int64_t blocks = job.units() / job.outer;
        const auto block = [&](int64_t unit, Scratch scratch) {
            Storage *const from = scratch.take<Storage>(kColumns * job.extent);
            Storage *const values = scratch.take<Storage>(kColumns * job.kept);
            int64_t *const indices = scratch.take<int64_t>(kColumns * job.kept);
            Packed *const items = scratch.take<Packed>(job.items());
            Packed *const other = scratch.take<Packed>(job.others());
            const int64_t o = unit / blocks, column = unit % blocks * kColumns,
                          count = std::min(kColumns, job.inner - column);
            const Storage *const in = results.in + o * job.extent * job.inner + column;
            for (int64_t e = 0; e < job.extent; ++e)
                for (int64_t c = 0; c < count; ++c)
                    from[c * job.extent + e] = in[e * job.inner + c];
            for (int64_t c = 0; c < count; ++c) {
                const Storage *const row = from + c * job.extent;
                const Packed *const first = first_of(dense, row, items, other);
                for (int64_t i = 0; i < job.kept; ++i) {
                    const int64_t place = first[i].place();
                    values[i * kColumns + c] = row[place];
                    indices[i * kColumns + c] = place;
                }
            }
            for (int64_t i = 0; i < job.kept; ++i) {
                const int64_t to = (o * job.kept + i) * job.inner + column;
                if (job.wants_values())
                    put_neighbours(values + i * kColumns, count, results.values + to);
                if (job.wants_indices())
                    put_neighbours(indices + i * kColumns, count, results.indices + to);
            }
        };
        parallel_for_with_scratch(job.units(), kRange / (kColumns * job.extent) + 1, args.scratch,
                                  job.scratch(), [&](int64_t begin, int64_t end, std::span<std::byte> bytes) {
                                      for (int64_t unit = begin; unit < end; ++unit)
                                          block(unit, Scratch(bytes));
                                  });
    }

    /// One row after another, each on all threads.
    static void in_parts(const SortJob &job, const LibraryArgs &args) {
        const Results results(job, args);
        Scratch scratch(args.scratch);
        Packed *const items = scratch.take<Packed>(job.items()), *const other =
                                                                     scratch.take<Packed>(job.others());
        uint32_t *const counts = scratch.take<uint32_t>(job.counts());
        const auto for_parts = [&](int64_t n, const auto &f) {
            const int64_t parts = job.parts();
            parallel_for(parts, 1, [&](int64_t first, int64_t last) {
                for (int64_t p = first; p < last; ++p)
                    f(n * p / parts, n * (p + 1) / parts);
            });
        };
        for (int64_t r = 0; r < job.rows(); ++r) {
            const Storage *const in = results.row(r);
            Digits digits;
            if constexpr (!kPacks) {
                std::mutex mutex;
                Range all;
                for_parts(job.extent, [&](int64_t begin, int64_t end) {
                    const Range range = range_of(job, in, begin, end);
                    const std::lock_guard lock(mutex);
                    all.add(range);
                });
                digits = digits_of(all);
            }
            for_parts(job.extent,
                      [&](int64_t begin, int64_t end) { fill(job, in, digits, items, begin, end); });
            Packed *const sorted =
                radix_sort_in_parts(items, other, job.extent, digits.bits, job.parts(), counts);
            if (!digits.all)
                settle_in_parts(job, in, digits, sorted, sorted == items ? other : items);
            for_parts(job.kept, [&](int64_t begin, int64_t end) { results.put(r, sorted, begin, end); });
        }
    }
};

} // namespace

void sort(const LibraryArgs &args) {
    DTypeTable<Sort>::at(args.ints[0])(args);
}

int64_t sort_scratch(Ints ints, const ir::DeviceInfo &device) {
    const SortJob job(ints);
    if (job.empty())
        return 0;
    return job.shares_rows() ? job.scratch()
                             : std::min<int64_t>(threads_for(device), job.units()) * job.scratch();
}

void topk(const LibraryArgs &args) {
    sort(args);
}

int64_t topk_scratch(Ints ints, const ir::DeviceInfo &device) {
    return sort_scratch(ints, device);
}

} // namespace lz::runtime
