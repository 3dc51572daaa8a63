#pragma once
/// verify: what a pass hands on is well formed.
///
/// Property: `ir::verify` holds for the graph, or for the Program at its stage, and a failure names the pass
/// after which it broke. Without it a pass's mistake is found by a later one, or by a wrong result. It stands
/// after every pass, in tests and with LAZULI_VERIFY=1 (Modes::verify).

#include "ir/program/program.h"

#include <string_view>

namespace lz::passes {

/// Each throws Failure(Internal) whose message begins with the pass's name and carries the printed IR.
void verify_after(std::string_view pass, const ir::Graph &graph);
void verify_after(std::string_view pass, const ir::Program &program);

} // namespace lz::passes
