#pragma once
/// Every operation as a kernel of its own: what `fuse` makes when it may not fuse, and what it begins with.

#include "passes/fuse/partition/partition.h"

#include <vector>

namespace lz::passes {

/// Every operation alone; views and makers inlined unless someone needs them in memory.
Partition partition_single(const ir::Graph &graph, const ir::Target &target);

/// Views and makers that have to be in memory: results of the graph, operands of library calls, operands of
/// products that are not strided matrices, nor gathered.
std::vector<bool> stored_views(const ir::Graph &graph, const ir::Target &target);

/// Kind of the cluster that a node makes alone.
ir::ClusterKind kind_alone(const ir::Graph &graph, const ir::Node &node);

} // namespace lz::passes
