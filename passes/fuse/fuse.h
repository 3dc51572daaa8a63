#pragma once
/// fuse: partitions the graph into clusters, each of which becomes one kernel (or one library call).
///
/// Property: every node has a cluster, a cluster's nodes are consecutive and in execution order, and no value
/// that is used only inside its cluster needs memory. Views and makers are copied into every cluster that
/// reads through them, so between clusters only values flow that some kernel stores (or parameters). Clusters
/// that may share a launch have the same non-negative `Cluster::group` and stand next to each other.
///
/// Without it every operation would be a kernel, and every intermediate a round trip through memory. It
/// stands after `eliminate_common` and `eliminate_dead`, which find what clusters would hide, and after
/// transfers are explicit, because a cluster has one device. Nothing after it may add or move nodes.
///
/// An operation with checks (indices, integer divisors) is computed whole, so that whether it fails does not
/// depend on who reads a part of it (S26).
///
/// Fusion never changes bits (S29): what may depend on it is how often something cheap is computed, never in
/// which order something is summed.

#include "ir/graph/graph.h"
#include "ir/target.h"

#include <string>
#include <vector>

namespace lz::passes {

/// Why two neighbours were not made one kernel.
struct FusionNote {
    ir::NodeId producer; ///< in the graph that `fuse` returned
    ir::NodeId consumer;
    std::string reason; ///< a clause: `it reduces over other axes than its consumer`
};

struct FusionNotes {
    std::vector<FusionNote> kept_apart;
};

/// Takes a verified graph without dead nodes. With `target.modes.fuse` false each operation is its own
/// cluster (views and makers are still inlined). Notes are gathered only when asked for. Linear in the size
/// of the graph. `recycled`: as PassContext::recycled.
ir::Graph fuse(ir::Graph graph, const ir::Target &target, FusionNotes *notes = nullptr,
               ir::Graph *recycled = nullptr);

} // namespace lz::passes
