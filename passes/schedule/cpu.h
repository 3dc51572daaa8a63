#pragma once
/// The schedule for devices that run CPU code: the host, and virtual GPUs. Work items of a size that a
/// worker's caches like, tiles for operands that lie transposed, stores past the caches, long reductions
/// split among workers, the register tile and the panels of a product, and where everything lies in a
/// worker's scratch.

#include "passes/schedule/schedule.h"

namespace lz::passes {

/// A launch, or a join that is a call.
void schedule_cpu(LoweredStep &step, const ir::Target &target);

RowLimits cpu_row_limits();
PieceCosts cpu_piece_costs(const ir::DeviceRates &rates);

} // namespace lz::passes
