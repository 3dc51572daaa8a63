#pragma once
/// How a value stands to the index space of a cluster that reads it: the facts that `fuse` decides by.

#include "passes/lower/domain.h"

#include <unordered_map>

namespace lz::passes {

using FoldId = int32_t;
inline constexpr FoldId kNoFold = -1;

/// Distinct folds by number.
class Folds {
public:
    FoldId intern(Fold fold);
    const Fold &operator[](FoldId id) const { return folds_[static_cast<size_t>(id)]; }

private:
    std::vector<Fold> folds_;
    std::unordered_multimap<int64_t, FoldId> by_size_;
};

/// Where a cluster reads a value.
///   Full    at every point, in the order of element numbers: the value can be stored by the cluster
///   Row     once for each row of the fold: its element numbers are those of the rows
///   Point   at the cluster's row, somewhere along what the fold reduces (a gather within the row)
///   Other   elsewhere: transposed, sliced, repeated; it can be computed there but not stored
///   Stored  from memory only
struct Reading {
    enum Kind : uint8_t { Full, Row, Point, Other, Stored } kind = Full;
    FoldId fold = kNoFold;
    bool partial = false; ///< some of its elements may be left out
};

/// How the operand of a view is read when the view's result is read so. `numel` is the cluster's number of
/// points.
Reading through_view(const ir::Graph &graph, const ir::Node &view, Reading result, int64_t numel,
                     Folds &folds);
/// How an operand that is repeated by NumPy's rules is read when the result is read so.
Reading through_broadcast(const ir::Shape &result, const ir::Shape &operand, Reading at, int64_t numel,
                          Folds &folds);
/// How the first operand of a gather is read.
Reading through_gather(const ir::Graph &graph, const ir::Node &gather, Reading result, int64_t numel,
                       Folds &folds);

} // namespace lz::passes
