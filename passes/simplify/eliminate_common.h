#pragma once
/// eliminate_common: computes each value once (common-subexpression elimination by hash-consing).
///
/// Property: no two nodes between the same two effects and on the same stream have the same operation,
/// attributes and operands. Nodes with runtime attributes (constants, random numbers, slices) are never
/// merged: two that have equal words in this recording may differ when the Program runs again. Nothing is
/// merged across an effect or between streams, because that would add a wait that the user did not ask for.
///
/// Without it equal work is done and stored twice (a gradient repeats its forward pass). It stands after
/// `simplify`, which makes different spellings equal, and before `fuse`: inside a cluster equal values could
/// still be found, but between clusters both would be stored.

#include "ir/graph/graph.h"

namespace lz::passes {

/// Gives the graph back as it is when nothing is equal. Linear in the size of the graph. `recycled`: as
/// PassContext::recycled.
ir::Graph eliminate_common(ir::Graph graph, ir::Graph *recycled = nullptr);

} // namespace lz::passes
