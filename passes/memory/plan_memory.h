#pragma once
/// plan_memory: gives every stored value and every kernel's scratch its bytes, before anything runs.
///
/// Property: two buffers of an arena overlap only if one is dead before the other is written, or if the step
/// that writes the one is proven to read the other first, element by element (InPlaceProof). Results are
/// blocks of their own (a live result never keeps an arena, S55), or take over the memory of a donated input
/// that is dead by then. Every reuse of bytes is listed as an order edge, which `insert_syncs` keeps.
///
/// On several streams "dead" means that streams and dependences order every use of the one before the other;
/// or that by the estimates every use has ended when the other begins, so that the wait which the order edge
/// then becomes costs less than the bytes (S45); not so on streams of the user's, of which nobody can
/// estimate when they get there (S42).
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
#include "ir/target.h"
#include "passes/streams/dependences.h"

#include <span>
#include <vector>

namespace lz::passes {

/// A copy of a whole buffer that no cluster asked for: a result that is an input or is wanted twice, or an
/// update in place whose operand lives on.
struct PlannedCopy {
    uint32_t before_step; ///< the number of steps: at the end
    uint32_t from, to;    ///< buffers of the plan
    uint32_t with;        ///< a step on whose stream it may run, or kNone
};

/// What plan_memory writes into the Program.
struct MemoryPlan {
    std::vector<ir::BufferDesc> buffers; ///< the Program's with their memory, then those that copies make
    std::vector<uint32_t> results;       ///< buffer of each result
    std::vector<PlannedCopy> copies;     ///< in the order of their steps
    std::vector<ir::Reuse> reuses;
    std::vector<ir::ArenaDesc> arenas; ///< none is empty
    std::vector<int64_t> live_bytes;   ///< as Draft::live_bytes
    int64_t in_place_bytes = 0;        ///< as Draft::in_place_bytes
};

/// Offsets are multiples of this: a CUDA access of any width, a cache line, a vector.
inline constexpr int64_t kArenaAlignment = 256;

/// Takes a Program at Stage::Streamed, what its steps come after, and the devices, of which some cannot leave
/// out a step that would write over what is kept. Near linear in the number of operands.
MemoryPlan find_memory(const ir::Program &program, const Dependences &dependences, const ir::Target &target);

/// The pass: the Program with that plan, at Stage::Planned.
void plan_memory(ir::Program &program, const Dependences &dependences, const ir::Target &target);

/// Bytes of a device that a run holds at most: arenas, inputs and results.
int64_t planned_bytes(std::span<const ir::ArenaDesc> arenas, std::span<const ir::BufferDesc> buffers,
                      std::span<const uint32_t> results, ir::Device device);

} // namespace lz::passes
