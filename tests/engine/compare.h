#pragma once
/// Runs a Graph by the engine and by the reference interpreter, and says where they differ.

#include "engine/engine.h"
#include "ir/graph.h"
#include "ir/interpreter.h"

#include <string>
#include <vector>

namespace lz::test {

/// Inputs as the graph's parameters say (`random(seed)` where they say nothing).
std::vector<ir::HostTensor> inputs_of(const ir::Graph &graph);

/// The graph compiled and run by the engine under its present modes. Throws the first failure of the run.
std::vector<ir::HostTensor> run_compiled(const ir::Graph &graph, const std::vector<ir::HostTensor> &inputs);

/// "" when equal bit by bit, else the first difference as a sentence.
std::string different_bits(const std::vector<ir::HostTensor> &a, const std::vector<ir::HostTensor> &b);

/// "" when each element is within `tolerance` times the largest magnitude of its tensor (at least 1) scaled
/// to the dtype's precision; integers and bools equal, NaN where NaN, infinities equal.
std::string different_values(const std::vector<ir::HostTensor> &got, const std::vector<ir::HostTensor> &want,
                             double tolerance = 64);

/// Compiles, runs, interprets, compares; "" or what is wrong with the printed graph.
std::string check(const ir::Graph &graph, double tolerance = 64);

} // namespace lz::test
