#pragma once
/// Rows, each of which consists of a run of every part: what a concatenation is once the axes before its own
/// are one.

#include "runtime/library/columns.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lz::runtime {

/// Writes `rows` rows to `out`, one after another. `parts`: in their order within a row, from 0 on and
/// without gaps, none of them empty. Elements have `size` bytes. `streams`: the result is stored past the
/// caches. Runs on all threads of `parallel_for`.
void join_rows(int64_t size, bool streams, int64_t rows, std::byte *out, std::span<const Part> parts);

} // namespace lz::runtime
