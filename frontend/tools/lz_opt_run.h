#pragma once
/// lz-opt --run: runs a graph on the data that its text tells, by the interpreter, compiled, or both.

#include "ir/graph/graph.h"
#include "ir/interpreter/interpreter.h"
#include "ir/program/program.h"
#include "ir/target.h"

#include <optional>
#include <string>
#include <vector>

namespace lz::tools {

/// Data of every parameter; Failure(State) for one whose text tells none.
std::vector<ir::HostTensor> inputs_of(const ir::Graph &graph);

/// Runs a Program that was compiled for `target` on this machine; the target's GPUs are virtual ones. `graph`
/// is what it was compiled from. With `delay` streams wait random moments, so that a missing sync shows.
/// Numbers of events and callbacks in the graph are those of events and callbacks of the run's own. Throws
/// what fails first.
std::vector<ir::HostTensor> run_program(const ir::Graph &graph, const ir::Program &program,
                                        const ir::Target &target, std::span<const ir::HostTensor> inputs,
                                        std::optional<uint64_t> delay = {});

/// A line for each result: its type and its elements, shortened in the middle when they are many.
std::string print_results(std::span<const ir::HostTensor> results);

/// An empty string when `actual` is what the interpreter says, within the rounding that a compiled reduction
/// may add (integers and bools exactly); else a sentence about the first element that is not.
std::string compare_results(std::span<const ir::HostTensor> expected, std::span<const ir::HostTensor> actual);

} // namespace lz::tools
