#pragma once
/// What the schedule of a program looks like, for `explain`: transfers with their cause, streams, syncs.

#include "passes/assign_streams.h"
#include "passes/insert_syncs.h"

#include <string>
#include <vector>

namespace lz::passes {

/// Whole sentences. Nothing for a program on one stream. Steps are numbered as in `explain_steps`.
std::vector<std::string> explain_schedule(const ir::Graph &graph, std::span<const LoweredStep> steps,
                                          const Schedule &schedule, const Syncs &syncs);

/// `4096 bytes`, `12.0 KiB`.
std::string bytes_text(int64_t bytes);
/// `1 kernel`, `2 kernels`.
std::string plural(size_t n, std::string_view noun);

} // namespace lz::passes
