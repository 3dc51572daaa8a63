#pragma once
/// Offsets for blocks that live for a while: the packing problem inside plan_memory.

#include "passes/syncs/stream_clocks.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lz::passes {

/// The last uses of some bytes, one a stream, and when by the estimates the last of them is over.
struct LastUses {
    std::vector<StreamPosition> places;
    double end = 0;

    void add(StreamPosition place, double place_end);
    void add(const LastUses &other);
};

/// A block of bytes that is needed from step `first` to step `last`, both included.
struct ArenaBlock {
    int64_t bytes = 0; ///< a multiple of the alignment
    uint32_t first = 0, last = 0;
    int64_t offset = 0; ///< found by layout_arena
    // Where steps run on several streams:
    double begin = 0; ///< of step `first`, estimated
    LastUses uses{};
};

/// Whether a place in a stream is over when the first step of a block begins, because streams and dependences
/// order them. Empty: always.
using IsOver = std::function<bool(const ArenaBlock &block, StreamPosition place)>;

struct ArenaLayout {
    int64_t bytes = 0;      ///< end of the highest block
    int64_t live_bytes = 0; ///< most bytes needed at one step: a lower bound of `bytes`
};

/// Gives every block an offset so that two of them overlap only when one is behind the other: its last step
/// stands before the other's first, and that is ordered after it, or (the other would have to wait, but by
/// the estimates not for long) begins after it has ended. Blocks must be sorted by `first`.
///
/// Best fit in order of time, O(n log n); of the gaps that fit, those are taken first that are behind in
/// order. Up to kGreedyBlocks blocks it also places the largest first (O(n^2); Pisarchyk and Lee, "Efficient
/// Memory Management for Deep Neural Net Inference", section 5.1) and keeps the smaller layout.
ArenaLayout layout_arena(std::span<ArenaBlock> blocks, const IsOver &is_over = {});

/// The same for blocks whose steps are all in order: a function of their bytes alone (found_again.h).
ArenaLayout layout_in_order(std::span<ArenaBlock> blocks);

inline constexpr size_t kGreedyBlocks = 512;

} // namespace lz::passes
