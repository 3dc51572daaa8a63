#pragma once
/// Offsets for blocks that live for a while: the packing problem inside plan_memory.

#include <cstdint>
#include <span>
#include <vector>

namespace lz::passes {

/// A block of bytes that is needed from step `first` to step `last`, both included.
struct ArenaBlock {
    int64_t bytes = 0; ///< a multiple of the alignment
    uint32_t first = 0, last = 0;
    int64_t offset = 0; ///< found by layout_arena
};

struct ArenaLayout {
    int64_t bytes = 0;      ///< end of the highest block
    int64_t live_bytes = 0; ///< most bytes needed at one step: a lower bound of `bytes`
};

/// Gives every block an offset so that no two that are needed at one step overlap. Blocks must be sorted by
/// `first`.
///
/// Best fit in order of time, O(n log n). Up to kGreedyBlocks blocks it also places the largest first
/// (O(n^2); Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", section 5.1) and
/// keeps the smaller layout.
ArenaLayout layout_arena(std::span<ArenaBlock> blocks);

inline constexpr size_t kGreedyBlocks = 512;

} // namespace lz::passes
