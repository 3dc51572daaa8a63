#pragma once
/// Memory inside plan_memory: what the plan's buffers have, one after another.

#include "ir/program/program.h"
#include "passes/memory/arena_layout.h"
#include "passes/streams/stream_clocks.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lz::passes {

/// Memory that one or more buffers have, one after another.
struct Allocation {
    int64_t bytes = 0;
    ir::Device device;
    uint32_t first = 0, last = 0; ///< steps
    LastUses uses{};              ///< where there are several streams
    uint32_t input = ir::kNone;   ///< that input's memory
    bool read = false;            ///< an input that a step reads
    uint32_t result = ir::kNone;  ///< that result's block, perhaps in the memory of `input`
    bool pinned = false;
    ir::StreamRef home{};       ///< in whose order its arena is taken
    uint32_t arena = ir::kNone; ///< found by lay_out, unless it is empty or in none
    int64_t offset = 0;         ///< in it

    bool in_arena() const { return input == ir::kNone && result == ir::kNone && bytes > 0; }
};

/// When a step begins or ends by the estimates. On a stream of the user's nobody knows: what he put there
/// before may take any time, and a function of his may wait for one on another stream (S42).
double estimated_begin(const ir::Program &program, uint32_t step);
double estimated_end(const ir::Program &program, uint32_t step);

struct Arenas {
    std::vector<ir::ArenaDesc> arenas;
    std::vector<int64_t> live_bytes; ///< by arena
};

/// Gives those that belong there a place in an arena of their device, memory and home. They are in the order
/// of their first steps. `clocks` are null on one stream.
Arenas lay_out(std::span<Allocation> allocations, const ir::Program &program, const StreamClocks *clocks);

/// A buffer and its memory.
struct Placed {
    uint32_t buffer, allocation;
};

/// Who had the bytes of whom before: of buffers in the order in which they get them, and of arenas' bytes.
/// Inputs come first, input k with allocation k.
std::vector<ir::Reuse> find_reuses(std::span<const Allocation> allocations, std::span<const Placed> placed,
                                   const ir::Program &program);

} // namespace lz::passes
