#pragma once
/// lower_clusters: makes Kernel IR with its schedule out of every cluster, or names the library call it is.
///
/// Property: the steps of the Program (Stage::Lowered), run one after another, compute the graph's results.
/// Everything that a kernel needs is there as an argument, so that the Kernel itself holds no extent, stride,
/// offset or scalar and is shared by all programs of one class; equal kernels are there once. Buffers are
/// symbolic: one a value that is stored, one a piece of scratch. What later passes have to know of the graph
/// (which inputs are donated, what is updated in place, the order of the user's effects) is said in the
/// draft, so that none of them reads the graph; only `explain` names its operations.
///
/// It stands after `fuse` (one step a cluster, or a group of them) and before memory is planned, because only
/// here is it known which values are stored and how much scratch a step needs.

#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/lower/lowered_step.h"

namespace lz::passes {

/// Takes the graph as `fuse` left it. Throws Failure(Internal) for a graph without clusters.
ir::Program lower_clusters(const ir::Graph &graph, const ir::Target &target);

/// Whether the step is the user's wait_stream, which insert_syncs makes waits of and build_program leaves
/// out.
inline bool is_wait_stream(const ir::Step &step) {
    return step.kind == ir::StepKind::Library && step.symbol == kWaitStream;
}

} // namespace lz::passes
