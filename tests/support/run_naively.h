#pragma once
/// Runs a Program's kernels by the kernel interpreter, one step after another, in memory laid out as the plan
/// says. It shows what the passes made without the emitter and the runtime.

#include "ir/interpreter.h"
#include "ir/program.h"

#include <vector>

namespace lz::test {

/// The results of the Program. Arenas and results are filled with garbage first. Throws std::runtime_error
/// for a library call.
std::vector<ir::HostTensor> run_naively(const ir::Graph &graph, const ir::Program &program,
                                        std::span<const ir::HostTensor> inputs);

} // namespace lz::test
