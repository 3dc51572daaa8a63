#include "passes/memory/fit_memory.h"

#include "passes/memory/plan_memory.h"
#include "passes/streams/assign_streams.h"

#include <algorithm>
#include <span>
#include <vector>

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

int64_t arena_bytes(const MemoryPlan &plan) {
    int64_t bytes = 0;
    for (const ArenaDesc &arena : plan.arenas)
        bytes += arena.bytes;
    return bytes;
}

/// Whether even a block for each buffer would be no more than this part of a GPU's memory.
bool surely_fits(const Program &program, const Target &target, double part) {
    return std::ranges::all_of(target.devices, [&](const DeviceInfo &device) {
        if (device.device == kCpu || device.memory_bytes == 0)
            return true;
        int64_t bytes = 0;
        for (const BufferDesc &b : program.buffers)
            bytes += b.device == device.device ? b.bytes + kArenaAlignment : 0;
        for (const uint32_t r : program.results) // some become copies
            bytes += program.buffers[r].device == device.device ? program.buffers[r].bytes : 0;
        return static_cast<double>(bytes) <= part * static_cast<double>(device.memory_bytes);
    });
}

/// Where and when each step runs.
struct Placement {
    StreamRef stream;
    double begin, end;
};
std::vector<Placement> placements(const Program &program) {
    std::vector<Placement> all;
    for (size_t s = 0; s < program.steps.size(); ++s)
        all.push_back({{program.steps[s].device, program.steps[s].stream},
                       program.draft.steps[s].begin,
                       program.draft.steps[s].end});
    return all;
}
void place(Program &program, std::span<const Placement> placements) {
    for (size_t s = 0; s < placements.size(); ++s) {
        program.steps[s].device = placements[s].stream.device;
        program.steps[s].stream = placements[s].stream.stream;
        program.draft.steps[s].begin = placements[s].begin;
        program.draft.steps[s].end = placements[s].end;
    }
}

} // namespace

void fit_memory(Program &program, const Dependences &dependences, const Target &target) {
    if (surely_fits(program, target, kMemoryForOverlap))
        return;
    const MemoryPlan plan = find_memory(program, dependences, target);
    if (fits(plan, target, kMemoryForOverlap))
        return;
    const std::vector<Placement> before = placements(program);
    assign_streams(program, dependences, target, Overlap::No);
    const MemoryPlan other = find_memory(program, dependences, target);
    int64_t bytes = arena_bytes(other);
    if (!fits(other, target, 1)) {
        // As if each step began when all before it are over: copies wait for memory, too.
        const std::vector<Placement> narrow = placements(program);
        std::vector<Placement> serial = narrow;
        for (size_t s = 0; s < serial.size(); ++s) {
            serial[s].begin = static_cast<double>(s);
            serial[s].end = static_cast<double>(s + 1);
        }
        place(program, serial);
        if (const int64_t least = arena_bytes(find_memory(program, dependences, target)); least < bytes)
            bytes = least;
        else
            place(program, narrow);
    }
    if (const int64_t saved = arena_bytes(plan) - bytes; saved > 0)
        program.draft.bytes_saved = saved;
    else
        place(program, before);
}

} // namespace lz::passes
