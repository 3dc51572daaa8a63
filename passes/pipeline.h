#pragma once
/// The pipeline: from the graph that was recorded to the Program that runs. `pipeline.cpp` is the table of
/// contents of this folder.

#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/fuse/fuse.h"
#include "passes/lower/lower_clusters.h"
#include "passes/memory/plan_memory.h"
#include "passes/streams/assign_streams.h"

#include <functional>
#include <span>
#include <string_view>

namespace lz::passes {

/// What a pass left behind. Of the three forms the one that exists at this point of the pipeline is there;
/// the graph stays until the end.
struct PassOutput {
    std::string_view pass;
    const ir::Graph *graph = nullptr;
    std::span<const LoweredStep> steps = {}; ///< after lower-clusters
    const Schedule *schedule = nullptr;      ///< after assign-streams, with the steps
    const MemoryPlan *plan = nullptr;        ///< after plan-memory
    const ir::Program *program = nullptr;    ///< after build-program
};

/// Called around every pass: for dumps, logs and timing. Either may be empty.
struct PipelineObserver {
    std::function<void(std::string_view pass)> before;
    std::function<void(const PassOutput &)> after;
};

struct CompileResult {
    ir::Program program; ///< its notes are the explanation
    ir::Graph graph;     ///< as `fuse` left it: pictures and node indices of steps refer to it
};

/// Runs every pass. With `target.modes.verify` each pass's output is verified, and the schedule of the
/// Program. Throws Failure(Device) for the user's mistakes (check_devices), Failure(State) for what no
/// Program can express yet, and Failure(Internal) for ours.
CompileResult compile(ir::Graph graph, const ir::Target &target, const PipelineObserver *observer = nullptr);

/// The second half of it: from a graph as `fuse` left it to its Program. `user_streams` are those that the
/// recording names, which passes before may not have added to; not given: those of the graph.
ir::Program lower(const ir::Graph &graph, const ir::Target &target, const FusionNotes &fusion_notes = {},
                  const PipelineObserver *observer = nullptr,
                  const std::vector<ir::StreamRef> *user_streams = nullptr);

struct PassContext {
    const ir::Target &target;
    FusionNotes *fusion_notes = nullptr; ///< filled by fuse if not null
    ir::Graph *room =
        nullptr; ///< if not null, memory that a pass makes its graph in and leaves its old one to
};

/// A pass from graph to graph, by the name that `lz-opt --passes` takes.
struct GraphPass {
    std::string_view name;
    ir::Graph (*run)(ir::Graph graph, const PassContext &context);
};

/// In the order of the pipeline.
std::span<const GraphPass> graph_passes();
/// The pass with this name, or nullptr.
const GraphPass *find_graph_pass(std::string_view name);

} // namespace lz::passes
