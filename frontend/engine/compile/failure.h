#pragma once
/// What the user is told when a kernel cannot be made: kernels have no name that means anything to users, but
/// their operations have, and lines.

#include "codegen/cache/kernel_cache.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"

#include <string>

namespace lz::engine {

/// `` `exp, mul` ``: the operations of the first step that launches the kernel.
std::string kernel_called(const ir::Graph &graph, const ir::Program &program, size_t kernel);

/// The same failure, with the operations of that step and their lines in its sentence, blamed on the last of
/// them. `graph` is the one that was recorded.
ir::Failure compile_failure(const ir::Failure &failure, size_t kernel, const ir::Graph &graph,
                            const ir::Program &program);

} // namespace lz::engine
