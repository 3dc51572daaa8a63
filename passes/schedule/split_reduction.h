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
///
/// Of sums of rows side by side each chunk may be cut once more, into `parts` that take every so many
/// elements:
///
///     parallel p, c, i0:
///       loop i1 from c * 1024 + p to ... step parts: reduce add x
///       store partial(p, c, i0)

#include "passes/lower/lowered_step.h"

namespace lz::passes {

/// Whether the kernel is one phase with one loop that reduces, and nothing is stored before that loop.
bool can_split_reduction(const ir::Kernel &kernel);

/// How a reduction is cut.
struct Split {
    /// Of rows side by side: the lanes of each chunk are shared by so many loops (Loop::step), a power of
    /// two.
    int parts = 1;
    /// Chunks with those that have no elements, a power of two, so that halves of all partial results are
    /// parts, and then chunks: `parts` * `padded` are at most as many as lanes. 0: as many as there are.
    int64_t padded = 0;
    ir::AxisId across = 0; ///< of the grid, along which the rows lie side by side, where `padded` is not 0
};

/// Rewrites such a kernel, and gives the step's one segment the buffers of partial results and the new
/// arguments.
ir::Kernel split_reduction(const ir::Kernel &kernel, LoweredSegment &segment, const Split &split = {});

} // namespace lz::passes
