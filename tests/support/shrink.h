#pragma once
/// Makes a failing graph small.

#include "ir/graph/graph.h"

#include <functional>

namespace lz::test {

/// The smallest graph found that still fails: fewer results, operations replaced by fresh parameters or by
/// one of their operands, dead code gone. `fails` is called many times; it must not throw.
ir::Graph shrink(ir::Graph graph, const std::function<bool(const ir::Graph &)> &fails);

} // namespace lz::test
