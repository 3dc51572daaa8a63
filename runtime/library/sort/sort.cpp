#include "runtime/library/element.h"
#include "runtime/library/functions.h"

#include "runtime/library/scratch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace lz::runtime {

namespace {

/// Elements worth handing to another thread.
constexpr int64_t kRange = 4096;
/// From this length on counting digits beats comparing.
constexpr int64_t kRadixLength = 2048;
constexpr int kDigitBits = 11;
/// Elements are picked before they are sorted if a row has so many times as many. The room for what is picked
/// is twice as much as is wanted, and this.
constexpr int64_t kLeastRest = 8, kMorePicked = 16;
/// Elements of a row that are compared together.
constexpr int64_t kTogether = 32;
/// Of a single row of truths threads take parts of this length and longer.
constexpr int64_t kLeastPart = 1 << 16, kMostParts = 64;

/// An unsigned key whose order is the dtype's: NaN above everything, -0 equal to +0.
template <ir::DType D>
auto key_of(typename Element<D>::Storage value) {
    using Storage = typename Element<D>::Storage;
    if constexpr (ir::is_float(D)) {
        using Bits = std::conditional_t<sizeof(Storage) == 2, uint16_t,
                                        std::conditional_t<sizeof(Storage) == 4, uint32_t, uint64_t>>;
        constexpr auto kSign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
        // Bits of infinity: what is above, without the sign, is NaN.
        constexpr auto kInfinity = static_cast<Bits>(D == ir::DType::F16    ? 0x7C00
                                                     : D == ir::DType::BF16 ? 0x7F80
                                                     : D == ir::DType::F32  ? 0x7F800000
                                                                            : 0x7FF0000000000000);
        auto bits = std::bit_cast<Bits>(value);
        auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
        if (magnitude > kInfinity)
            return std::numeric_limits<Bits>::max();
        if (magnitude == 0)
            return kSign;
        return static_cast<Bits>(bits & kSign ? ~bits : bits | kSign);
    } else if constexpr (D == ir::DType::Bool || D == ir::DType::U8) {
        return static_cast<uint8_t>(value);
    } else {
        using Unsigned = std::make_unsigned_t<Storage>;
        constexpr auto kSign = static_cast<Unsigned>(Unsigned{1} << (sizeof(Unsigned) * 8 - 1));
        return static_cast<Unsigned>(static_cast<Unsigned>(value) ^ kSign);
    }
}

/// A key with the place it came from, ordered by both: no two are equal, so that any sort is a stable one.
struct Packed { ///< keys to 32 bits, rows to 2^32 elements
    uint64_t bits;
    static Packed make(uint64_t key, int64_t place) { return {key << 32 | static_cast<uint64_t>(place)}; }
    uint64_t key() const { return bits >> 32; }
    int64_t place() const { return static_cast<int64_t>(bits & UINT32_MAX); }
    friend bool operator<(Packed a, Packed b) { return a.bits < b.bits; }
};
struct Wide {
    uint64_t bits;
    int64_t from;
    static Wide make(uint64_t key, int64_t place) { return {key, place}; }
    uint64_t key() const { return bits; }
    int64_t place() const { return from; }
    friend bool operator<(const Wide &a, const Wide &b) {
        return a.bits != b.bits ? a.bits < b.bits : a.from < b.from;
    }
};

/// Least significant digit first, each pass stable; digits that are the same everywhere cost no pass. Returns
/// where the sorted items are: `items` or `other`.
template <class Item>
Item *radix_sort(Item *items, Item *other, int64_t n, int key_bits) {
    constexpr size_t kDigits = size_t{1} << kDigitBits;
    for (int shift = 0; shift < key_bits; shift += kDigitBits) {
        std::array<int64_t, kDigits> place{};
        auto digit = [shift](const Item &item) {
            return static_cast<size_t>(item.key() >> shift) & (kDigits - 1);
        };
        for (int64_t i = 0; i < n; ++i)
            ++place[digit(items[i])];
        if (place[digit(items[0])] == n)
            continue;
        int64_t sum = 0;
        for (int64_t &count : place)
            sum += std::exchange(count, sum);
        for (int64_t i = 0; i < n; ++i)
            other[place[digit(items[i])]++] = items[i];
        std::swap(items, other);
    }
    return items;
}

/// What a call sorts, and how.
struct Job {
    explicit Job(Ints ints)
        : outer(ints[1]), extent(ints[2]), inner(ints[3]), descending(ints[4] != 0),
          kept(ints.size() > 5 ? ints[5] : extent) {}
    bool empty() const { return outer == 0 || kept == 0 || inner == 0; }
    /// Whether the first elements are picked out of a row before they are sorted.
    bool selects() const { return kept <= extent / kLeastRest && picked() <= extent; }
    int64_t picked() const { return 2 * kept + kMorePicked; }
    /// Items that are sorted, or picked from, at a time.
    int64_t items() const { return selects() ? picked() : extent; }
    int64_t others() const { return !selects() && extent >= kRadixLength ? extent : 0; }

    int64_t outer, extent, inner;
    bool descending;
    int64_t kept; ///< of each row
};

bool has_packed_items(ir::DType dtype, int64_t extent) {
    return ir::size_of(dtype) <= 4 && extent <= INT64_C(0xFFFFFFFF);
}

bool is_partition(const Job &job, ir::DType dtype) {
    return dtype == ir::DType::Bool && job.kept == job.extent;
}

int64_t bytes_of_row(const Job &job, ir::DType dtype) {
    if (is_partition(job, dtype))
        return 0;
    return has_packed_items(dtype, job.extent)
               ? scratch_for<Packed>(job.items()) + scratch_for<Packed>(job.others())
               : scratch_for<Wide>(job.items()) + scratch_for<Wide>(job.others());
}

/// Whether all of kTogether elements at `in` are known to come behind `bound`, or with it. Where NaNs are, it
/// is not known.
template <class Storage>
bool all_behind(const Storage *in, Storage bound, bool descending) {
    using Elements [[gnu::vector_size(kTogether * sizeof(Storage))]] = Storage;
    Elements x;
    std::memcpy(&x, in, sizeof(x));
    const Elements bounds = Elements{} + bound;
    const auto behind = descending ? x <= bounds : x >= bounds;
    uint64_t words[sizeof(x) / 8], all = ~uint64_t{0};
    std::memcpy(words, &behind, sizeof(words));
    for (const uint64_t word : words)
        all &= word;
    return all == ~uint64_t{0};
}

/// Rows of truths, of which there are two: each element goes to the next place of its kind. That is how the
/// positions where a mask is true are found.
class Partition {
public:
    Partition(const Job &job, const LibraryArgs &args)
        : job_(job), in_(static_cast<const uint8_t *>(args.buffers[0])),
          values_(static_cast<uint8_t *>(args.buffers[1])),
          indices_(static_cast<int64_t *>(args.buffers[2])) {}

    void run() const {
        const int64_t rows = job_.outer * job_.inner;
        const int64_t parts = rows == 1 ? std::clamp<int64_t>(job_.extent / kLeastPart, 1, kMostParts) : 1;
        if (parts > 1)
            return in_parts(parts);
        parallel_for(rows, kRange / job_.extent + 1, [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
                const int64_t first = r / job_.inner * job_.extent * job_.inner + r % job_.inner;
                const int64_t truths = count(first, 0, job_.extent);
                place(first, 0, job_.extent, start(truths));
            }
        });
    }

private:
    /// Where the next one of each kind goes.
    struct Places {
        int64_t if_false, if_true;
    };
    /// In a row with so many truths.
    Places start(int64_t truths) const {
        return job_.descending ? Places{truths, 0} : Places{0, job_.extent - truths};
    }
    int64_t count(int64_t first, int64_t begin, int64_t end) const {
        const int64_t step = job_.inner;
        const uint8_t *const in = in_ + first;
        int64_t truths = 0;
        if (step == 1)
            for (int64_t i = begin; i < end; ++i)
                truths += in[i];
        else
            for (int64_t i = begin; i < end; ++i)
                truths += in[i * step];
        return truths;
    }
    /// Everything is in variables of its own: a byte that is stored could else be a part of any of them.
    void place(int64_t first, int64_t begin, int64_t end, Places next) const {
        const int64_t step = job_.inner;
        const uint8_t *const in = in_ + first;
        uint8_t *const values = values_ + first;
        int64_t *const indices = indices_ + first;
        int64_t if_false = next.if_false, if_true = next.if_true;
        for (int64_t i = begin; i < end; ++i) {
            const uint8_t value = in[i * step];
            const int64_t to = (value ? if_true : if_false) * step;
            if_true += value;
            if_false += 1 - value;
            values[to] = value;
            indices[to] = i;
        }
    }
    void in_parts(int64_t parts) const {
        const auto begin_of = [&](int64_t part) { return job_.extent * part / parts; };
        std::array<int64_t, kMostParts> truths{};
        parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
            for (int64_t p = begin; p < end; ++p)
                truths[static_cast<size_t>(p)] = count(0, begin_of(p), begin_of(p + 1));
        });
        int64_t all = 0;
        for (int64_t &one : truths)
            all += std::exchange(one, all); // those before the part
        parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
            for (int64_t p = begin; p < end; ++p) {
                const int64_t before = truths[static_cast<size_t>(p)], from = begin_of(p);
                Places next = start(all);
                next.if_true += before;
                next.if_false += from - before;
                place(0, from, begin_of(p + 1), next);
            }
        });
    }

    const Job &job_;
    const uint8_t *in_;
    uint8_t *values_;
    int64_t *indices_;
};

template <ir::DType D>
struct Sort {
    using Storage = typename Element<D>::Storage;
    using Key = decltype(key_of<D>(Storage{}));
    static constexpr bool kComparable = !ir::is_half(D) && D != ir::DType::Bool;

    template <class Item>
    static Item item_of(Storage value, int64_t place, bool descending) {
        const Key key = key_of<D>(value);
        return Item::make(descending ? static_cast<Key>(~key) : key, place);
    }

    template <class Item>
    static Item *sorted(const Job &job, const Storage *in, Item *items, Item *other) {
        for (int64_t i = 0; i < job.extent; ++i)
            items[i] = item_of<Item>(in[i * job.inner], i, job.descending);
        if (job.others() > 0)
            return radix_sort(items, other, job.extent, static_cast<int>(sizeof(Key)) * 8);
        std::sort(items, items + job.extent);
        return items;
    }

    /// The first `kept`, sorted. Items that come before all but kept - 1 of those seen so far are gathered;
    /// when there is no more room, the best are kept. Of equal ones the first is before the others, so that
    /// what is left out does not depend on when that happens.
    template <class Item>
    static void pick(const Job &job, const Storage *in, Item *items) {
        const int64_t kept = job.kept, room = job.items();
        int64_t count = 0, i = 0;
        for (; i < room; ++i) // room <= extent
            items[count++] = item_of<Item>(in[i * job.inner], i, job.descending);
        std::nth_element(items, items + kept - 1, items + count);
        count = kept;
        Item bound = items[kept - 1];
        const auto look_at = [&](int64_t at) {
            const Item item = item_of<Item>(in[at * job.inner], at, job.descending);
            if (!(item < bound))
                return;
            items[count++] = item;
            if (count < room)
                return;
            std::nth_element(items, items + kept - 1, items + count);
            count = kept;
            bound = items[kept - 1];
        };
        if constexpr (kComparable)
            if (job.inner == 1)
                for (; i + kTogether <= job.extent; i += kTogether)
                    if (!all_behind(in + i, in[bound.place()], job.descending))
                        for (int64_t k = 0; k < kTogether; ++k)
                            look_at(i + k);
        for (; i < job.extent; ++i)
            look_at(i);
        if (count > kept)
            std::nth_element(items, items + kept - 1, items + count);
        std::sort(items, items + kept);
    }

    template <class Item>
    static void rows(const Job &job, const LibraryArgs &args) {
        const auto *in = static_cast<const Storage *>(args.buffers[0]);
        auto *values = static_cast<Storage *>(args.buffers[1]);
        auto *indices = static_cast<int64_t *>(args.buffers[2]);
        const auto rows = [&](int64_t begin, int64_t end, std::span<std::byte> bytes) {
            Scratch scratch(bytes);
            Item *const items = scratch.take<Item>(job.items()), *const other =
                                                                     scratch.take<Item>(job.others());
            for (int64_t r = begin; r < end; ++r) {
                const Storage *row = in + r / job.inner * job.extent * job.inner + r % job.inner;
                const int64_t to = r / job.inner * job.kept * job.inner + r % job.inner;
                const Item *first = items;
                if (job.selects())
                    pick(job, row, items);
                else
                    first = sorted(job, row, items, other);
                for (int64_t i = 0; i < job.kept; ++i) {
                    const int64_t place = first[i].place();
                    values[to + i * job.inner] = row[place * job.inner];
                    indices[to + i * job.inner] = place;
                }
            }
        };
        parallel_for_with_scratch(job.outer * job.inner, kRange / job.extent + 1, args.scratch,
                                  bytes_of_row(job, D), rows);
    }

    static void run(const LibraryArgs &args) {
        const Job job(args.ints);
        if (job.empty())
            return;
        if (is_partition(job, D))
            return Partition(job, args).run();
        if constexpr (sizeof(Storage) <= 4)
            if (has_packed_items(D, job.extent))
                return rows<Packed>(job, args);
        rows<Wide>(job, args);
    }
};

} // namespace

void sort(const LibraryArgs &args) {
    DTypeTable<Sort>::at(args.ints[0])(args);
}

int64_t sort_scratch(Ints ints, const ir::DeviceInfo &device) {
    const Job job(ints);
    return job.empty() ? 0
                       : std::min<int64_t>(threads_for(device), job.outer * job.inner) *
                             bytes_of_row(job, static_cast<ir::DType>(ints[0]));
}

void topk(const LibraryArgs &args) {
    sort(args);
}

int64_t topk_scratch(Ints ints, const ir::DeviceInfo &device) {
    return sort_scratch(ints, device);
}

} // namespace lz::runtime
