#pragma once
/// Memory inside plan_memory: allocations, each of which belongs to one or more of the plan's buffers in
/// turn.

#include "ir/program/program.h"
#include "passes/memory/arena_layout.h"
#include "passes/syncs/stream_clocks.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lz::passes {

/// Bytes that belong to one buffer, or to several whose lives follow one another.
struct Allocation {
    int64_t bytes = 0;
    ir::Device device;
    uint32_t first = 0, last = 0; ///< the steps that touch it first and last
    LastUses uses{};              ///< the last use on each stream, where there are several
    uint32_t input = ir::kNone;   ///< the input whose memory it is
    bool read = false;            ///< it is an input's, and a step reads it
    uint32_t result = ir::kNone;  ///< the result whose block it is, perhaps in the memory of `input`
    bool pinned = false;
    ir::StreamRef home{};       ///< the stream in whose order its arena is allocated
    uint32_t arena = ir::kNone; ///< set by lay_out; kNone where it has no bytes or lies in no arena
    int64_t offset = 0;         ///< in the arena

    bool in_arena() const { return input == ir::kNone && result == ir::kNone && bytes > 0; }
};

/// When a step begins or ends by the estimates. For a step on one of the user's streams there is no estimate:
/// work that was on the stream before may take any time, and a callback may wait for another stream (S42).
double estimated_begin(const ir::Program &program, uint32_t step);
double estimated_end(const ir::Program &program, uint32_t step);

struct Arenas {
    std::vector<ir::ArenaDesc> arenas;
    std::vector<int64_t> live_bytes; ///< by arena
};

/// Gives each allocation for which in_arena() holds a place in an arena of its device, kind of memory and
/// home. `allocations` are in the order of their first steps. `clocks`: null where there is one stream.
Arenas lay_out(std::span<Allocation> allocations, const ir::Program &program, const StreamClocks *clocks);

/// A buffer and its memory.
struct Placed {
    uint32_t buffer, allocation;
};

/// All pairs of buffers where the second gets bytes that the first had before it, in one allocation or at the
/// same place of an arena. `placed` is in the order in which buffers get their memory; inputs come first,
/// input k with allocation k. Where all steps are on one stream nothing comes of those at the same place of
/// an arena, and a Program of many sizes, whose places are found for each, is made without them.
std::vector<ir::Reuse> find_reuses(std::span<const Allocation> allocations, std::span<const Placed> placed,
                                   const ir::Program &program, bool one_stream);

} // namespace lz::passes
