#pragma once
/// The second half of `fuse`: writes a graph anew, cluster by cluster.

#include "passes/fuse/partition/partition.h"

#include <vector>

namespace lz::passes {

/// Clusters in an order that dependences and order edges allow, groups chosen for sideways merging (where the
/// target's mode is to fuse), inlined nodes copied to their readers. `node_of` gets, for each old node, a new
/// one that computes it (kNone if nothing does). `recycled`: see GraphBuilder.
ir::Graph rebuild(const ir::Graph &graph, const Partition &partition, const ir::Target &target,
                  std::vector<ir::NodeId> &node_of, ir::Graph recycled = {});

} // namespace lz::passes
