#pragma once
/// Steps that are no kernels of ours: scans, sorts, scatters, user calls, copies between devices, effects.

#include "passes/lower/nest.h"

namespace lz::passes {

/// Fills everything but what all steps share (node, nodes, recorded, label, cost).
void lower_library(const ClusterView &cluster, LoweredStep &step);

} // namespace lz::passes
