#pragma once
/// Runs a Graph by the engine and by the reference interpreter, and says where they differ.

#include "frontend/engine/engine.h"
#include "frontend/engine/streams.h"
#include "ir/graph/graph.h"
#include "ir/interpreter/interpreter.h"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lz::test {

/// Inputs as the graph's parameters say (`random(seed)` where they say nothing).
std::vector<ir::HostTensor> inputs_of(const ir::Graph &graph);

/// The engine's Executable for the graph.
engine::ExecutablePtr compiled(const ir::Graph &graph);

/// One run of a graph by the engine, on any devices: several may be in flight. Its effects have events and
/// callbacks of the run's own.
class GraphRun {
public:
    /// Puts the inputs where the graph wants them.
    GraphRun(const ir::Graph &graph, const std::vector<ir::HostTensor> &inputs);
    ~GraphRun();
    GraphRun(const GraphRun &) = delete;
    GraphRun &operator=(const GraphRun &) = delete;

    void launch();
    /// Waits. Throws the first failure of the run.
    std::vector<ir::HostTensor> results();
    /// Waits. Results that are lost have no bytes; `failures` says why.
    ir::Interpreted outcome();
    /// How many host callbacks have been called.
    int called() const { return called_; }

private:
    void upload(const ir::HostTensor &t, engine::ValueMemory &block);
    void bind_effects();

    const ir::Graph &graph_;
    engine::ExecutablePtr executable_;
    std::vector<int64_t> words_;
    std::deque<engine::ValueMemory> blocks_;
    std::vector<engine::ValueMemory *> in_, out_;
    std::map<int64_t, std::unique_ptr<engine::EventHandle>> events_;
    std::vector<std::unique_ptr<engine::Callback>> callbacks_;
    std::atomic<int> called_{0};
    std::vector<ir::Point> ends_;
    ir::Launched launched_;
};

/// The graph compiled and run by the engine under its present modes. Throws the first failure of the run.
std::vector<ir::HostTensor> run_compiled(const ir::Graph &graph, const std::vector<ir::HostTensor> &inputs);

/// "" when equal bit by bit, else the first difference as a sentence.
std::string different_bits(const std::vector<ir::HostTensor> &a, const std::vector<ir::HostTensor> &b);

/// "" when each element is within `tolerance` times the largest magnitude of its tensor (at least 1) scaled
/// to the dtype's precision; integers and bools equal, NaN where NaN, infinities equal.
std::string different_values(const std::vector<ir::HostTensor> &got, const std::vector<ir::HostTensor> &want,
                             double tolerance = 64);

/// "" or how result number `r` of a random graph differs by more than `tolerance` allows, see `wrong`.
std::string wrong_result(size_t r, const ir::HostTensor &got, const ir::HostTensor &want,
                         const std::vector<double> &tolerance);

/// What is wrong with a random graph: what `run` throws, or the first element of its results that is further
/// from the interpreter's than `tolerance` says, by result; "" if nothing, or if the interpreter fails (then
/// shrinking made indices that are out of range). Without tolerances (the graph was shrunk) an element is
/// wrong when it is wildly off, and not among the huge numbers that special values lead to.
std::string wrong(const ir::Graph &graph, const std::vector<double> &tolerance,
                  const std::function<std::vector<ir::HostTensor>(const std::vector<ir::HostTensor> &)> &run);

/// Compiles, runs, interprets, compares; "" or what is wrong with the printed graph.
std::string check(const ir::Graph &graph, double tolerance = 64);

} // namespace lz::test
