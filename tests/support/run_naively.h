#pragma once
/// Runs a Program's kernels by the kernel interpreter, in memory laid out as the plan says. It shows what the
/// passes made without the emitter and the runtime.

#include "ir/interpreter/interpreter.h"
#include "ir/program/program.h"

#include <vector>

namespace lz::test {

/// The results of the Program, one step after another. Arenas and results are filled with garbage first.
/// Throws std::runtime_error for a library call, but for `concat`.
std::vector<ir::HostTensor> run_naively(const ir::Graph &graph, const ir::Program &program,
                                        std::span<const ir::HostTensor> inputs);

/// The same with every stream a queue of its own: which of them goes on next is drawn from the seed, and
/// nothing but the Program's events orders two of them.
std::vector<ir::HostTensor> run_in_any_order(const ir::Graph &graph, const ir::Program &program,
                                             std::span<const ir::HostTensor> inputs, uint64_t seed);

} // namespace lz::test
