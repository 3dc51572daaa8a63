#pragma once
/// The first half of `fuse`: which nodes are one kernel. A walk from the results to the inputs: each node
/// becomes part of clusters that read it, as far as that is legal (legality.h, grow.h), or a cluster of its
/// own, and then demands its operands (demands.h).

#include "ir/target.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/rebuild.h"

namespace lz::passes {

/// As few kernels as the rules of `fuse` allow. Notes name nodes of `graph`.
Partition partition_fused(const ir::Graph &graph, const ir::Target &target, FusionNotes *notes);

} // namespace lz::passes
