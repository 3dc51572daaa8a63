#pragma once
/// Handlers of instructions that move data between lanes, registers and memory.

#include "tests/support/cuda/ptx/module.h"

namespace lz::ptx {

enum class Shuffle : uint8_t { Up, Down, Butterfly, Index };
enum class Vote : uint8_t { Ballot, Any, All, Uniform };
enum class Atomic : uint8_t {
    None,
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareSwap,
    Increment,
    Decrement
};

void do_nothing(Machine &, Warp &, const Instr &, uint32_t mask);
void trap(Machine &, Warp &, const Instr &, uint32_t mask);
void pack_lanes(Machine &, Warp &, const Instr &, uint32_t mask);
void unpack_lanes(Machine &, Warp &, const Instr &, uint32_t mask);
void add_constant(Machine &, Warp &, const Instr &, uint32_t mask);
void map_to_block(Machine &, Warp &, const Instr &, uint32_t mask);
void active_mask(Machine &, Warp &, const Instr &, uint32_t mask);

void load_lanes(Machine &, Warp &, const Instr &, uint32_t mask);
void store_lanes(Machine &, Warp &, const Instr &, uint32_t mask);
void atomic(Machine &, Warp &, const Instr &, uint32_t mask);
void copy_async(Machine &, Warp &, const Instr &, uint32_t mask);
void commit_copies(Machine &, Warp &, const Instr &, uint32_t mask);

// For these all lanes of their mask are there.
void warp_barrier(Machine &, Warp &, const Instr &, uint32_t mask);
void shuffle(Machine &, Warp &, const Instr &, uint32_t mask);
void vote(Machine &, Warp &, const Instr &, uint32_t mask);
void match(Machine &, Warp &, const Instr &, uint32_t mask);
void reduce_lanes(Machine &, Warp &, const Instr &, uint32_t mask);

} // namespace lz::ptx
