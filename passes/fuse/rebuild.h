#pragma once
/// The second half of `fuse`: writes a graph anew, cluster by cluster.

#include "ir/graph/graph.h"
#include "ir/target.h"

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

/// Clusters in an order that dependences and order edges allow, groups chosen for sideways merging (where the
/// target's mode is to fuse), inlined nodes copied to their readers. `node_of` gets, for each old node, a new
/// one that computes it (kNone if nothing does). `recycled`: see GraphBuilder.
ir::Graph rebuild(const ir::Graph &graph, const Partition &partition, const ir::Target &target,
                  std::vector<ir::NodeId> &node_of, ir::Graph recycled = {});

} // namespace lz::passes
