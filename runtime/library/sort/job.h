#pragma once
/// What a call of `sort` or `topk` is asked for, and the scratch that it takes.

#include "runtime/library/functions.h"
#include "runtime/library/scratch.h"
#include "runtime/library/sort/keys.h"
#include "runtime/library/sort/radix.h"

#include <algorithm>
#include <cstdint>

namespace lz::runtime {

struct SortJob {
    explicit SortJob(Ints ints)
        : dtype(static_cast<ir::DType>(ints[0])), outer(ints[1]), extent(ints[2]), inner(ints[3]),
          descending(ints[4] != 0), kept(ints.size() > 5 ? ints[5] : extent),
          wanted(ints.size() > 6 ? ints[6] : 3) {}

    bool wants_values() const { return (wanted & 1) != 0; }
    bool wants_indices() const { return (wanted & 2) != 0; }

    int64_t rows() const { return outer * inner; }
    bool empty() const { return rows() == 0 || kept == 0; }

    /// Rows of truths, of which there are two.
    bool partitions() const { return dtype == ir::DType::Bool && kept == extent; }
    /// The first elements are picked out of a row before they are sorted.
    bool selects() const { return kept <= extent / kLeastRest && picked() <= extent; }
    int64_t picked() const { return 2 * kept + kMorePicked; }
    /// All threads share each row, of which there are few.
    bool shares_rows() const {
        return !partitions() && !selects() && has_places() && rows() <= kFewRows && parts() > 1;
    }
    int64_t parts() const { return std::min(extent / kLeastPart, kMostParts); }
    /// Places fit 32 bits.
    bool has_places() const { return extent <= INT64_C(0xFFFFFFFF); }
    /// Key and place fit one word: keys of up to 32 bits, or wider ones that are sorted by 32 bits at a time.
    bool packs() const { return has_places() && (ir::size_of(dtype) <= 4 || !selects()); }

    /// Rows lie side by side, each of its elements in a line of memory of its own: some rows are copied
    /// together before they are sorted.
    bool stages_columns() const {
        return !partitions() && !shares_rows() && packs() && inner >= kColumns &&
               kColumns * ((extent + kept) * ir::size_of(dtype) + kept * 8) <= kMostStaged;
    }
    int64_t units() const { return stages_columns() ? outer * ((inner + kColumns - 1) / kColumns) : rows(); }
    static constexpr int64_t kColumns = 8;
    static constexpr int64_t kMostParts = 64; ///< of a row that all threads share

    /// Items that are sorted, or picked from, at a time, and room for as many to sort them.
    int64_t items() const { return selects() ? picked() : extent; }
    int64_t others() const { return !selects() && packs() && extent >= kRadixLength ? extent : 0; }
    int64_t counts() const { return shares_rows() ? parts() * kDigits : 0; }
    /// Of a unit.
    int64_t scratch() const {
        if (partitions())
            return 0;
        if (!packs())
            return scratch_for<Wide>(items());
        const int64_t staged = stages_columns()
                                   ? scratch_for<std::byte>(kColumns * extent * ir::size_of(dtype)) +
                                         scratch_for<std::byte>(kColumns * kept * ir::size_of(dtype)) +
                                         scratch_for<int64_t>(kColumns * kept)
                                   : 0;
        return staged + scratch_for<Packed>(items()) + scratch_for<Packed>(others()) +
               scratch_for<uint32_t>(counts());
    }

    ir::DType dtype;
    int64_t outer, extent, inner;
    bool descending;
    int64_t kept; ///< of each row
    int64_t wanted;

private:
    /// Elements are picked before they are sorted if a row has so many times as many. The room for what is
    /// picked is twice as much as is wanted, and this.
    static constexpr int64_t kLeastRest = 8, kMorePicked = 16;
    /// A part of a row that is worth a thread's while: some 50 us.
    static constexpr int64_t kLeastPart = 1 << 14, kFewRows = 8;
    static constexpr int64_t kMostStaged = 1 << 20; ///< bytes: what a second-level cache holds
};

/// For rows of truths: each element goes to the next place of its kind. That is how the positions where a
/// mask is true are found.
void partition(const SortJob &job, const LibraryArgs &args);

} // namespace lz::runtime
