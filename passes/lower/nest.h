#pragma once
/// Kernels of loop, row and reduce clusters: a grid and, for reductions, loops one after another at each grid
/// point.

#include "ir/target.h"
#include "passes/lower/expr.h"
#include "passes/lower/lowered_step.h"

#include <span>

namespace lz::passes {

/// What lowering knows of a cluster before it becomes a step.
struct ClusterView {
    const ir::Graph *graph;
    ir::NodeId first, end; ///< nodes [first, end)
    ir::ClusterKind kind;
    std::vector<ir::ValueId> stored; ///< values that others read, or results
};

/// A part of a loop cluster's index space that is lowered by itself (joins/pieces.h).
struct Piece {
    std::vector<Domain> parts; ///< one or more, with equal extents: their points are computed side by side
};
struct LoweredPiece {
    ir::Kernel kernel;
    LoweredSegment segment;
};
/// The kernel has all offsets as arguments, zeros too, so that pieces share it.
LoweredPiece lower_piece(const ClusterView &cluster, const Piece &piece);

class NestDomain;
/// The kernel of a domain that has been chosen.
LoweredPiece lower_domain(NestDomain &domain, ir::ClusterKind kind);

/// Fills kernel and segments; of a library call what `lower_library` fills.
void lower_nest(const ClusterView &cluster, const ir::Target &target, LoweredStep &step);

} // namespace lz::passes
