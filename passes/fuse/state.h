#pragma once
/// How a value stands to the index space of a cluster that reads it: the facts that `fuse` decides by.

#include "passes/hashed.h"
#include "passes/lower/domain.h"

#include <deque>
#include <unordered_map>

namespace lz::passes {

/// A fold of some Folds, or none. Two are compared where it matters whether they are equal, and not before:
/// extents of values that have nothing to do with each other may be equal for some sizes.
class FoldId {
public:
    constexpr FoldId() = default;
    const Fold &fold() const { return *fold_; }
    friend bool operator==(FoldId a, FoldId b) {
        if (a.fold_ == b.fold_)
            return true;
        return kManySizes && a.fold_ && b.fold_ && *a.fold_ == *b.fold_;
    }

private:
    friend class Folds;
    constexpr explicit FoldId(const Fold *fold) : fold_(fold) {}

    const Fold *fold_ = nullptr;
};
inline constexpr FoldId kNoFold;

/// Folds that are equal whatever the extents are have one id.
class Folds {
public:
    FoldId intern(Fold fold);
    const Fold &operator[](FoldId id) const { return id.fold(); }

private:
    std::deque<Fold> folds_; // elements of a deque never move
    std::unordered_multimap<uint64_t, const Fold *> by_hash_;
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
