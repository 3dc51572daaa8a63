#pragma once
/// Joins lowered part by part. Choosing among n operands for each element costs n selects an element; here
/// the index space is cut where the parts of a join meet, and in each piece the join is one of its operands:
///
///     out = cat(a, b * 2, c) + d, along axis 0      piece 0:  out[i]           = a[i]     + d[i]
///                                                   piece 1:  out[na + i]      = b[i] * 2 + d[na + i]
///                                                   piece 2:  out[na + nb + i] = c[i]     + d[na + nb + i]
///
/// Pieces with equal kernels are segments of one launch; a different kernel is a further phase of it, in
/// which segments that have no piece of that kind do nothing. So a thousand parts are one kernel, one table
/// of segments and one copy. Where pieces alternate in memory (a join of another axis than the outermost),
/// the segments take turns (Step::rounds), so that a row is written while it is in the cache.

#include "passes/lower/nest.h"

namespace lz::passes {

/// Lowers a loop cluster that reads a join at every point. False, and nothing done, for all others.
bool lower_in_pieces(const ClusterView &cluster, LoweredStep &step);

} // namespace lz::passes
