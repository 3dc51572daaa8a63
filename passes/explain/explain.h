#pragma once
/// explain: what the passes decided, in whole sentences for the user.
///
/// Property: every step of the Program is named with the operations in it and the lines they came from, the
/// bytes that it moves and the operations it does; every pair of neighbours that stayed apart with its
/// reason; results that are stored for a handle alone; every transfer with its cause; the streams and the
/// waits between them; and the memory that a run will take, before it runs (S55). It reads what the passes
/// found out and decides nothing.

#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "passes/fuse/fuse.h"

namespace lz::passes {

/// Writes Program::notes. Takes the graph as `fuse` left it, what `fuse` noted, and a Program at
/// Stage::Ordered, in which everything is decided.
void explain(const ir::Graph &graph, const FusionNotes &fusion, ir::Program &program);

} // namespace lz::passes
