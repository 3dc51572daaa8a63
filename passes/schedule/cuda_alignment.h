#pragma once
/// Kernels of CUDA devices whose launches are known to have addresses that are no multiples of 16 bytes, by
/// the numbers that the Program fixes: rows of 100 bf16, a slice that begins at element 3.

#include "passes/lower/lowered_step.h"

namespace lz::passes {

/// Says so in their schedules (CudaSchedule::aligned), so that one kernel is compiled, and not a second one
/// when a launch shows it. What only a launch shows, the address of an operand, is left to it. After
/// schedule_cuda: how many elements make a packet is known then.
void note_unaligned(LoweredStep &step);

} // namespace lz::passes
