#pragma once
/// Rows side by side of a large matrix, which are reduced in the order of memory: what of them a work item
/// takes.
///
/// A row vector times a matrix reads the matrix once, so all that counts is how fast memory is read, and it
/// is fastest in a few streams that go on for long. So threads do not share the columns of the matrix,
/// but its rows: of two threads each takes some rows and leaves as many, and with them half of the lanes of
/// each column's sum (Loop::step). The sums of all these lanes lie in the thread's second-level cache
/// (codegen/llvm/whole_rows.cpp). Another phase adds what the threads have, and does what comes behind the
/// product.

#include "ir/target.h"
#include "passes/lower/lowered_step.h"

#include <optional>

namespace lz::passes {

struct WholeRows {
    ir::AxisId across = 0;  ///< along which the rows lie side by side
    int parts = 1;          ///< that share the rows of a chunk
    int together = 1;       ///< parts that a work item has: so many rows behind each other
    int64_t chunks = 1;     ///< with room for them (Split::padded)
    int64_t block = 0;      ///< columns of a work item
    int64_t lane_bytes = 0; ///< of sums that a work item has
};

/// How a kernel whose rows lie side by side along `across` is cut (can_split_reduction), if it is worth it.
std::optional<WholeRows> plan_whole_rows(const ir::Kernel &kernel, const LoweredSegment &segment,
                                         ir::AxisId across, const ir::CpuLimits &cpu);

} // namespace lz::passes
