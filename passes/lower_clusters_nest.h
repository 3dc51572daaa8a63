#pragma once
/// Kernels of loop, row and reduce clusters: a grid and, for reductions, loops one after another at each grid
/// point.

#include "ir/target.h"
#include "passes/lower_clusters.h"

#include <span>

namespace lz::passes {

/// What lowering knows of a cluster before it becomes a step.
struct ClusterView {
    const ir::Graph *graph;
    ir::NodeId first, end; ///< nodes [first, end)
    ir::ClusterKind kind;
    std::vector<ir::ValueId> stored; ///< values that others read, or results
};

/// Fills kernel, the one segment and worker_bytes.
void lower_nest(const ClusterView &cluster, const ir::Target &target, LoweredStep &step);

} // namespace lz::passes
