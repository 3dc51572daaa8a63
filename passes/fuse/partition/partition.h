#pragma once
/// The first half of `fuse`: which nodes are one kernel. A walk from the results to the inputs: each node
/// becomes part of clusters that read it, as far as that is legal (legality.h, grow.h), or a cluster of its
/// own, and then demands its operands (demands.h).

#include "ir/target.h"
#include "passes/fuse/fuse.h"

#include <cstdint>
#include <vector>

namespace lz::passes {

inline constexpr int32_t kInlined = -1;

/// A node's cluster, before the graph is written anew.
struct Partition {
    std::vector<int32_t> cluster;      ///< by node; kInlined: copied into each reader
    std::vector<ir::ClusterKind> kind; ///< by cluster
    /// A view or maker that is also stored, in the cluster it has; products and opaque clusters read that.
    std::vector<bool> stored_view;
};

/// As few kernels as the rules of `fuse` allow. Notes name nodes of `graph`.
Partition partition_fused(const ir::Graph &graph, const ir::Target &target, FusionNotes *notes);

} // namespace lz::passes
