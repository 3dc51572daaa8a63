#include "passes/memory/fit_memory.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

/// Overlap needs memory. Where it would take more than this part of a GPU's, work that names no stream stays
/// on one.
constexpr double kMemoryForOverlap = 0.5;

/// Whether the plan takes no more than this part of a GPU's memory.
bool fits(const MemoryPlan &plan, const Target &target, double part) {
    return std::ranges::all_of(target.devices, [&](const DeviceInfo &device) {
        return device.device == kCpu || device.memory_bytes == 0 ||
               static_cast<double>(planned_bytes(plan.arenas, plan.buffers, plan.results, device.device)) <=
                   part * static_cast<double>(device.memory_bytes);
    });
}

/// Bytes beyond the memory of GPUs.
int64_t missing_bytes(const Target &target, const std::function<int64_t(Device)> &needed) {
    int64_t bytes = 0;
    for (const DeviceInfo &device : target.devices)
        if (device.device != kCpu && device.memory_bytes > 0)
            bytes += std::max<int64_t>(needed(device.device) - device.memory_bytes, 0);
    return bytes;
}
int64_t arena_bytes(const MemoryPlan &plan) {
    int64_t bytes = 0;
    for (const ArenaDesc &arena : plan.arenas)
        bytes += arena.bytes;
    return bytes;
}

} // namespace

void fit_memory(const Graph &graph, std::span<const LoweredStep> steps, Schedule &schedule, MemoryPlan &plan,
                const Dependences &by_value, const Target &target) {
    if (fits(plan, target, kMemoryForOverlap))
        return;
    Schedule narrow = assign_streams(graph, steps, by_value, target, Overlap::No);
    MemoryPlan other = plan_memory(graph, steps, narrow, by_value);
    if (!fits(other, target, 1)) {
        // As if each step began when all before it are over: copies wait for memory, too.
        Schedule serial = narrow;
        std::iota(serial.begin.begin(), serial.begin.end(), 0);
        std::iota(serial.end.begin(), serial.end.end(), 1);
        if (MemoryPlan least = plan_memory(graph, steps, serial, by_value);
            arena_bytes(least) < arena_bytes(other))
            other = std::move(least);
    }
    const int64_t saved = arena_bytes(plan) - arena_bytes(other);
    if (saved <= 0)
        return;
    narrow.bytes_saved = saved;
    schedule = std::move(narrow);
    plan = std::move(other);
}

int64_t missing_bytes(const Program &program, const Target &target) {
    return missing_bytes(target, [&](Device device) {
        return planned_bytes(program.arenas, program.buffers, program.results, device);
    });
}

bool may_not_fit(const Graph &graph, const Target &target) {
    return missing_bytes(target, [&](Device device) {
               int64_t bytes = 0;
               for (const Value &v : graph.values())
                   bytes += v.type.device == device ? v.type.bytes() : 0;
               return bytes;
           }) > 0;
}

} // namespace lz::passes
