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

/// Work items of each phase, from the kernel and the segment's arguments (extents and blocks are constants).
void count_items(LoweredStep &step);
/// The arguments as far as they are known without runtime words.
std::vector<int64_t> constant_args(const LoweredSegment &segment);
/// Elements of the last axis in one work item of an elementwise grid.
int64_t loop_block(int64_t extent, int element_bytes);

} // namespace lz::passes
