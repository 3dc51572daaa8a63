#pragma once
/// What is compiled, as the second build reads it.

#include "ir/graph/graph.h"
#include "ir/target.h"
#include "passes/traced/portable.h"

namespace lz::traced {

/// A recording's graph. Its runtime words stand in the order of its nodes.
GraphForm write_graph(const ir::Graph &graph);

TargetForm write_target(const ir::Target &target);

} // namespace lz::traced
