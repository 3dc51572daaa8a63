#pragma once
/// Steps that are no kernels of ours: scans, sorts, scatters, user calls, copies between devices, effects.

#include "passes/lower/nest.h"

namespace lz::passes {

/// Fills everything but what all steps share (node, nodes, recorded, label, cost).
void lower_library(const ClusterView &cluster, LoweredStep &step);

/// Appends the scratch that the device kind's rule asks for to the operands of a Library step. Throws
/// Failure(Compile) that names the function and the kind where the kind does not have it.
void add_scratch(const ir::Graph &graph, const ir::Target &target, LoweredStep &step);

} // namespace lz::passes
