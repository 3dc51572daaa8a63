#pragma once
/// Joins of what is in memory, as a library call. A kernel for each part pays for its beginning and end anew
/// in every row; the call has one table of parts and goes through it block by block (runtime/library), so
/// that a part costs a few nanoseconds and rows of single elements are transposed in registers.

#include "passes/lower/nest.h"

namespace lz::passes {

/// Lowers a cluster that is nothing but one join of stored values and views of them at any strides. False,
/// and nothing done, for all others. How it stores is left to the schedule (kConcatBypasses).
bool lower_concat(const ClusterView &cluster, LoweredStep &step);

} // namespace lz::passes
