#pragma once
/// eliminate_dead: drops every node from which no result and no effect follows.
///
/// Property: each node is a result's ancestor, an effect, or an effect's ancestor. Parameters stay: a caller
/// binds them by position.
///
/// Without it `fuse` would store values that nobody reads, and kernels would compute them. It stands right
/// before `fuse`, after `simplify` and `eliminate_common`, which leave behind the nodes that they replaced.

#include "ir/graph/graph.h"

namespace lz::passes {

/// Gives the graph back as it is when nothing is dead. `recycled`: as PassContext::recycled.
ir::Graph eliminate_dead(ir::Graph graph, ir::Graph *recycled = nullptr);

} // namespace lz::passes
