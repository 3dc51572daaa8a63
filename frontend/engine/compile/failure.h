#pragma once
/// What the user is told of a kernel, in a dump or when it cannot be made: kernels have no name that means
/// anything to users, but their operations have, and lines.

#include "codegen/cache/kernel_cache.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"

#include <string>
#include <string_view>

namespace lz::engine {

/// `` `exp, mul` ``: the operations of the first step that launches the kernel.
std::string kernel_called(const ir::Graph &graph, const ir::Program &program, size_t kernel);

/// A line for each operation of that step: `add (main.cpp:12)`. They stand above dumps of the kernel's code,
/// after `comment`; what is compiled and cached has none, because equal kernels of other lines share it.
std::string kernel_lines(const ir::Graph &graph, const ir::Program &program, size_t kernel,
                         std::string_view comment);

/// The same failure, with the operations of that step and their lines in its sentence, blamed on the last of
/// them. `graph` is the one that was recorded.
ir::Failure compile_failure(const ir::Failure &failure, size_t kernel, const ir::Graph &graph,
                            const ir::Program &program);

} // namespace lz::engine
