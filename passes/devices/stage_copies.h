#pragma once
/// stage_copies: splits copies between GPUs that cannot reach each other's memory.
///
/// Property: afterwards every Copy has the host on one side, or both sides on one GPU, or GPUs of which one
/// may address the other's memory. What was one copy goes in pieces through two blocks of pinned host memory:
/// while a piece leaves for the target, the next one arrives from the source.
///
///     source, copy-out stream:   out 0   out 1   out 2 (when in 0 is done)
///     target, copy-in stream:            in 0    in 1    in 2
///
/// Without it a program that moves tensors between such GPUs would fail, or hold the host up. It stands
/// before `assign_streams`, which gives the pieces their streams, and before memory is planned, because the
/// blocks are planned like any other memory.

#include "ir/program/program.h"
#include "ir/target.h"

namespace lz::passes {

inline constexpr int64_t kStagedPiece = int64_t{4} << 20;
/// From here on a copy has at least two pieces, so that its halves overlap.
inline constexpr int64_t kStagedAtOnce = int64_t{512} << 10;
inline constexpr int64_t kMostStagedPieces = 16;

/// Takes and leaves a Program at Stage::Lowered; the other steps keep their order.
void stage_copies(ir::Program &program, const ir::Target &target);

} // namespace lz::passes
