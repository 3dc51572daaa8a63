#pragma once
/// plan_memory: gives every stored value and every kernel's scratch its bytes, before anything runs.
///
/// Property: two buffers of an arena overlap only if one is dead before the other is written, or if the step
/// that writes the one is proven to read the other first, element by element (WriteOver). Results are blocks
/// of their own (a live result never keeps an arena, S55), or take over the memory of a donated input that is
/// dead by then. Every reuse of bytes is listed as an order edge, which `insert_syncs` keeps.
///
/// On several streams "dead" means that streams and dependences order every use of the one before the other;
/// or that by the estimates every use has ended when the other begins, so that the wait which the order edge
/// then becomes costs less than the bytes (S45).
///
/// Each device has one arena in the order of its default stream; what copies bring in from the host has
/// another one in the order of the copy stream, so that the copies of a next run need not wait for the
/// kernels of this one; staged copies have pinned memory of the host, in the order of the stream that fills
/// it.
///
/// Without it each intermediate would be an allocation of its own: slower, and the peak unknown before the
/// run. It stands after `lower_clusters`, which knows what is stored and how much scratch a step needs, and
/// after `assign_streams`, which knows what runs at the same time; before `insert_syncs`, which orders the
/// reuses.

#include "ir/program/program.h"
#include "passes/lower/lower_clusters.h"
#include "passes/streams/assign_streams.h"
#include "passes/streams/dependences.h"

#include <vector>

namespace lz::passes {

/// All steps that touch `before` come before the first that touches `after`: it has some of the same bytes.
struct Reuse {
    uint32_t before, after; ///< buffers of the plan
};

/// A copy of a whole buffer that no cluster asked for: a result that is an input or is wanted twice, or an
/// update in place whose operand lives on.
struct PlannedCopy {
    uint32_t before_step; ///< the number of steps: at the end
    uint32_t from, to;    ///< buffers of the plan
    uint32_t with;        ///< a step on whose stream it may run, or kNone
};

struct MemoryPlan {
    std::vector<ir::BufferDesc> buffers; ///< inputs first, in their order
    /// Buffer of each operand: step by step, segment by segment (or Library and Copy operands), in the order
    /// of the LoweredBuffers; kNone for Worker. Step s has those from step_begin[s] to step_begin[s + 1].
    std::vector<uint32_t> operands;
    std::vector<uint32_t> step_begin;
    /// By buffer: the one that an update in place (BufferMode::InOut) continues in the same memory, or kNone.
    std::vector<uint32_t> continues;
    std::vector<uint32_t> results;   ///< buffer of each graph result
    std::vector<PlannedCopy> copies; ///< in the order of their steps
    std::vector<Reuse> reuses;
    std::vector<ir::ArenaDesc> arenas; ///< none is empty
    /// By arena: what would be needed at the worst moment if intermediates could be moved freely: no plan is
    /// smaller.
    std::vector<int64_t> live_bytes;
    int64_t in_place_bytes = 0; ///< of outputs written over a dying input
    int64_t donated_bytes = 0;  ///< of results in donated memory
};

/// Offsets are multiples of this: a CUDA access of any width, a cache line, a vector.
inline constexpr int64_t kArenaAlignment = 256;

/// Takes the graph, its steps, where they run and (by values) what they come after. Near linear in the number
/// of operands.
MemoryPlan plan_memory(const ir::Graph &graph, std::span<const LoweredStep> steps, const Schedule &schedule,
                       const Dependences &dependences);

/// Bytes of a device that a run holds at most: arenas, inputs and results.
int64_t planned_bytes(std::span<const ir::ArenaDesc> arenas, std::span<const ir::BufferDesc> buffers,
                      std::span<const uint32_t> results, ir::Device device);

/// Puts the plan's copies among the steps, each on the stream of a step that it has to do with, else on the
/// default stream of its device. The plan's operands and the schedule follow.
void add_copies(const ir::Graph &graph, MemoryPlan &plan, std::vector<LoweredStep> &steps,
                Schedule &schedule);

} // namespace lz::passes
