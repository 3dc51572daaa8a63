#pragma once
/// What the schedule of a program looks like, for `explain`: transfers with their cause, streams, syncs.

#include "ir/graph/graph.h"
#include "ir/program/program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lz::passes {

/// The steps but for the Program's own events: people count only these.
std::vector<uint32_t> recorded_steps(const ir::Program &program);

/// Whole sentences about a Program at Stage::Ordered. Nothing for one on one stream.
std::vector<std::string> explain_schedule(const ir::Graph &graph, const ir::Program &program);

} // namespace lz::passes
