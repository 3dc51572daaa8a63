#include "passes/estimates.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

const DeviceInfo &info_of(const Target &target, Device device) {
    static const DeviceInfo kUnknown{};
    const DeviceInfo *found = target.find(device);
    return found ? *found : kUnknown;
}

double estimate_seconds(const LoweredStep &step, const DeviceInfo &device, Device from, Device to) {
    switch (step.kind) {
    case StepKind::RecordEvent:
    case StepKind::WaitEvent:
    case StepKind::HostCallback:
        return 0;
    case StepKind::Copy:
        if (from != to) {
            const bool host = from.kind == DeviceKind::Cpu || to.kind == DeviceKind::Cpu;
            return device.launch_seconds + static_cast<double>(step.copy.bytes) /
                                               (host ? device.link_bandwidth : device.peer_bandwidth);
        }
        break;
    default:
        break;
    }
    return device.launch_seconds +
           std::max(static_cast<double>(step.bytes_read + step.bytes_written) / device.memory_bandwidth,
                    static_cast<double>(step.flops) / device.flops);
}

} // namespace lz::passes
