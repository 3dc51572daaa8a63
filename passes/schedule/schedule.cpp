#include "passes/schedule/schedule.h"

#include "passes/schedule/cpu.h"

namespace lz::passes {

void schedule(LoweredStep &step, const ir::Target &target) {
    if (step.kind == ir::StepKind::Launch)
        schedule_cpu(step, target);
}

RowLimits row_limits(const ir::Target &, ir::Device) {
    return cpu_row_limits();
}

} // namespace lz::passes
