#pragma once
/// Which reductions may be further phases of the kernel whose rows they sum up.

#include "ir/graph/graph.h"

#include <cstdint>
#include <vector>

namespace lz::passes {

/// A kernel of rows gives a number or two for each row (the losses of a batch, the norms of its rows), and a
/// reduction of all of them follows (their mean). By itself that is one more kernel for a few kilobytes; as
/// further phases of the rows' kernel it is none, and the numbers of the rows are scratch. A phase begins
/// when the one before it is over everywhere, so no bit changes.
///
/// Of clusters as `fuse` left them. A cluster is the tail of a Row cluster that comes before it when
///  - it reduces, and changes nothing in place;
///  - the Row cluster is the last of those that it reads from: everything else that it reads is there by
///  then;
///  - nobody else reads what it reads of the Row cluster, and nobody can ask for it;
///  - it is less than half as large, so that what waits for the rows waits for little more;
///  - where it can fail, nothing that can stands between the two, so that failures come in the same order;
///  - neither has another tail;
///  - both have the same device and stream, and nothing that the user ordered stands between them.
class Tails {
public:
    explicit Tails(const ir::Graph &graph);

    /// The tail of a cluster; -1: it has none.
    int32_t of(int32_t cluster) const { return tail_.empty() ? -1 : tail_[static_cast<size_t>(cluster)]; }
    bool is_tail(int32_t cluster) const {
        return !is_tail_.empty() && is_tail_[static_cast<size_t>(cluster)];
    }

private:
    std::vector<int32_t> tail_;
    std::vector<bool> is_tail_;
};

} // namespace lz::passes
