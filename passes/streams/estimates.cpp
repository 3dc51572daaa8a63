#include "passes/streams/estimates.h"

#include "passes/lower/lower_clusters.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

const DeviceInfo &info_of(const Target &target, Device device) {
    static const DeviceInfo &kUnknown = *new DeviceInfo;
    const DeviceInfo *found = target.find(device);
    return found ? *found : kUnknown;
}

StepCost estimate(const Step &step, const DeviceInfo &device, Device from, Device to) {
    switch (step.kind) {
    case StepKind::RecordEvent:
    case StepKind::WaitEvent:
    case StepKind::HostCallback:
        return {};
    case StepKind::Copy:
        if (from != to) {
            const auto bytes = static_cast<double>(step.copy.bytes);
            if (from.kind == DeviceKind::Cpu)
                return {bytes / device.link_bandwidth, 1, Resource::CopyIn};
            if (to.kind == DeviceKind::Cpu)
                return {bytes / device.link_bandwidth, 1, Resource::CopyOut};
            return {bytes / device.peer_bandwidth, 1, Resource::CopyPeer};
        }
        break;
    case StepKind::Library:
        if (is_wait_stream(step))
            return {};
        break;
    default:
        break;
    }
    const double whole = std::max(static_cast<double>(step.bytes) / device.memory_bandwidth,
                                  static_cast<double>(step.flops) / device.flops);
    if (device.device == kCpu || whole >= device.wave_seconds)
        return {whole, 1, Resource::Compute};
    return {device.wave_seconds, whole / device.wave_seconds, Resource::Compute};
}

double EngineTimes::begin(Device device, const StepCost &cost, double ready) {
    if (cost.resource == Resource::None)
        return ready;
    const size_t slot = (device.kind == DeviceKind::Cpu ? 0 : size_t{1} + device.index) * kResources +
                        static_cast<size_t>(cost.resource);
    if (slot >= times_.size())
        times_.resize(slot + 1);
    Times &t = times_[slot];
    const auto later = [](const Running &a, const Running &b) { return a.end > b.end; };
    double begin = std::max(ready, t.last);
    constexpr double kRounding = 1e-9;
    while (!t.running.empty() && (t.running.front().end <= begin || t.used + cost.part > 1 + kRounding)) {
        begin = std::max(begin, t.running.front().end);
        t.used -= t.running.front().part;
        std::ranges::pop_heap(t.running, later);
        t.running.pop_back();
    }
    if (t.running.empty())
        t.used = 0; // what rounding left
    t.running.push_back({begin + cost.seconds, cost.part});
    std::ranges::push_heap(t.running, later);
    t.used += cost.part;
    t.last = begin;
    return begin;
}

} // namespace lz::passes
