#pragma once
/// The schedule for devices that run CPU code: the host, and virtual GPUs. Work items of a size that a
/// worker's caches like, tiles for operands that lie transposed, stores past the caches, long reductions
/// split among workers, the register tile and the panels of a product, and where everything lies in a
/// worker's scratch.

#include "passes/schedule/schedule.h"

namespace lz::passes {

void schedule_cpu(LoweredStep &step, const ir::Target &target);

RowLimits cpu_row_limits();

/// Whether results of so many bytes in all are stored past the caches of a device that runs CPU code.
bool bypasses_caches(const ir::Target &target, ir::Device device, int64_t bytes);

} // namespace lz::passes
