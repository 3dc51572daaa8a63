#pragma once
/// The schedule for CUDA devices. Threads take neighbours of the last axis in packets of 16 bytes; turned
/// operands go through tiles in shared memory; sixteen threads or more share a row, which stays in their
/// registers, in shared memory or, the longest, in a temporary; long reductions are split among blocks.

#include "passes/schedule/schedule.h"

namespace lz::passes {

void schedule_cuda(LoweredStep &step, const ir::CudaLimits &limits);

RowLimits cuda_row_limits(const ir::CudaLimits &limits);
PieceCosts cuda_piece_costs();

} // namespace lz::passes
