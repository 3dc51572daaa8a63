#pragma once
/// The first half of `fuse`: which nodes are one kernel.

#include "ir/target.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/rebuild.h"

namespace lz::passes {

/// Every operation alone; views and makers inlined unless someone needs them in memory.
Partition partition_single(const ir::Graph &graph);

/// As few kernels as the rules of `fuse` allow. Notes name nodes of `graph`.
Partition partition_fused(const ir::Graph &graph, const ir::Target &target, FusionNotes *notes);

/// Views and makers that have to be in memory: results of the graph, operands of library calls, operands of
/// products that are not strided matrices.
std::vector<bool> stored_views(const ir::Graph &graph);

/// Kind of the cluster that a node makes alone.
ir::ClusterKind kind_alone(const ir::Graph &graph, const ir::Node &node);

} // namespace lz::passes
