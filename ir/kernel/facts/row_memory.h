#pragma once
/// Shared memory of a block that has rows (CudaShape::Rows): what the schedule plans with, and what
/// `codegen/cuda/rows/` takes of it.

#include "ir/kernel/kernel.h"

namespace lz::ir {

/// Chunks of a row of any length whose results lie in a list at a time, and such lists whose results lie in
/// another one.
inline constexpr int64_t kRowList = kLaneChunk, kRowLists = 2048;

/// Bytes that a block takes at most, by the phase's schedule for CUDA: rows that it keeps (those in
/// registers, too, which lie there for operands that are not aligned), and what threads and chunks give to
/// reductions.
int64_t row_shared_bytes(const Kernel &kernel, const Phase &phase);

} // namespace lz::ir
