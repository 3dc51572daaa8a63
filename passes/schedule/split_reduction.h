#pragma once
/// A reduction whose loop is cut among workers: one phase makes a partial result of each chunk, a second one
/// folds them. The chunks are those of the loop's order, so no bit changes.
///
///     parallel i0:                                    parallel i0, c:
///       s = loop i1 chunk 1024: reduce add x            loop i1 from c * 1024 to ...: reduce add x
///       store out(i0), s / n                            store partial(i0, c)
///                                            ->       parallel i0:
///                                                       s = loop c: reduce add load partial(i0, c)
///                                                       store out(i0), s / n

#include "passes/lower/lowered_step.h"

namespace lz::passes {

/// Whether the kernel is one phase with one loop that reduces, and nothing is stored before that loop.
bool can_split_reduction(const ir::Kernel &kernel);

/// Rewrites such a kernel, and gives the step's one segment the buffers of partial results and the new
/// arguments.
ir::Kernel split_reduction(const ir::Kernel &kernel, LoweredSegment &segment);

} // namespace lz::passes
