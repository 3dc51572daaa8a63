#pragma once
/// The copies of whole buffers that a memory plan needs. Internal to plan_memory.

#include "passes/plan_memory.h"

namespace lz::passes {

/// A copy before a step, or (with the number of steps) behind the last one.
struct PlannedCopy {
    uint32_t before_step;
    uint32_t from, to; ///< buffers of the plan
    uint32_t with;     ///< a step on whose stream it may run, or kNone
};

/// Puts copies, which are in the order of their steps, among the steps, each on the stream of a step that it
/// has to do with, else on the default stream of its device. The plan's operands and the schedule follow.
void add_copies(const ir::Graph &graph, std::span<const PlannedCopy> copies, MemoryPlan &plan,
                std::vector<LoweredStep> &steps, Schedule &schedule);

} // namespace lz::passes
