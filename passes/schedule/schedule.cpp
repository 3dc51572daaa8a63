#include "passes/schedule/schedule.h"

#include "passes/schedule/cpu.h"
#include "passes/schedule/cuda.h"
#include "passes/schedule/cuda_alignment.h"

namespace lz::passes {

void schedule(LoweredStep &step, const ir::Target &target) {
    const bool join = step.kind == ir::StepKind::Library && step.symbol == kConcat;
    if (step.kind != ir::StepKind::Launch && !join)
        return;
    const ir::DeviceInfo &device = target.device(step.device);
    if (!device.runs_cuda()) {
        schedule_cpu(step, target);
    } else if (!join) {
        schedule_cuda(step, device.cuda());
        note_unaligned(step);
    }
}

RowLimits row_limits(const ir::Target &target, ir::Device device) {
    const ir::DeviceInfo *info = target.find(device);
    return info && info->runs_cuda() ? cuda_row_limits(info->cuda()) : cpu_row_limits();
}

PieceCosts piece_costs(const ir::Target &target, ir::Device device) {
    const ir::DeviceInfo *info = target.find(device);
    return info && info->runs_cuda() ? cuda_piece_costs() : cpu_piece_costs(info ? *info : ir::DeviceInfo{});
}

bool gathers_operands(const ir::Target &target, ir::Device device) {
    const ir::DeviceInfo *info = target.find(device);
    return info && !info->runs_cuda();
}

} // namespace lz::passes
