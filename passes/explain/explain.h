#pragma once
/// explain: what the passes decided, in whole sentences for the user.
///
/// Property: every step of the Program is named with the operations in it and the lines they came from, the
/// bytes that it moves and the operations it does; every pair of neighbours that stayed apart with its
/// reason; every transfer with its cause; the streams and the waits between them; and the memory that a run
/// will take, before it runs (S55). It reads what the passes found out and decides nothing.

#include "passes/fuse/fuse.h"
#include "passes/lower/lower_clusters.h"
#include "passes/memory/plan_memory.h"
#include "passes/streams/assign_streams.h"
#include "passes/streams/insert_syncs.h"

#include <string>
#include <vector>

namespace lz::passes {

/// Program::notes. Takes the graph as `fuse` left it.
std::vector<std::string> explain(const ir::Graph &graph, const FusionNotes &fusion,
                                 std::span<const LoweredStep> steps, const MemoryPlan &plan,
                                 const Schedule &schedule, const Syncs &syncs);

} // namespace lz::passes
