#pragma once
/// What the schedule of a program looks like, for `explain`: transfers with their cause, streams, syncs.

#include "passes/streams/assign_streams.h"
#include "passes/streams/insert_syncs.h"

#include <string>
#include <vector>

namespace lz::passes {

/// Whole sentences. Nothing for a program on one stream. Steps are numbered as in `explain_steps`.
std::vector<std::string> explain_schedule(const ir::Graph &graph, std::span<const LoweredStep> steps,
                                          const Schedule &schedule, const Syncs &syncs);

} // namespace lz::passes
