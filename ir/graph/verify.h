#pragma once
/// Checks that a graph is well formed. Only parsers see graphs that are not.

#include "ir/graph/graph.h"

#include <string>

namespace lz::ir {

/// Well-formedness: ids in range, operands before uses, attribute words match the schema, types equal what
/// the rules infer, results exist, clusters consecutive. Throws Failure(Internal) whose message names the
/// node and carries the printed graph.
void verify(const Graph &graph);
/// What `verify` finds wrong, as a sentence without the graph; empty for a well-formed graph.
std::string graph_error(const Graph &graph);

} // namespace lz::ir
