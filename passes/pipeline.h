#pragma once
/// The pipeline: from the graph that was recorded to the Program that runs. `pipeline.cpp` is the table of
/// contents of this folder.

#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/fuse/fuse.h"
#include "passes/streams/dependences.h"

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lz::passes {

/// What a pass left behind: a graph, and from lower-clusters on the Program that it became, too.
struct PassOutput {
    std::string_view pass;
    const ir::Graph *graph = nullptr;
    const ir::Program *program = nullptr;
};

/// Called around every pass: for dumps, logs and timing. Either may be empty.
struct PipelineObserver {
    std::function<void(std::string_view pass)> before;
    std::function<void(const PassOutput &)> after;
};

/// Whether `fuse` and `explain` write down why, which is a tenth of the passes' work.
enum class Explained : uint8_t { No, Yes };

struct CompileResult {
    ir::Program program; ///< its notes are the explanation, if there is one
    ir::Graph graph;     ///< as `fuse` left it: pictures and node indices of steps refer to it
};

/// Runs every pass. With `target.modes.verify` each pass's output is verified, and the schedule of the
/// Program. Throws Failure(Device) for the user's mistakes (check_devices), Failure(State) for what no
/// Program can express yet, and Failure(Internal) for ours.
CompileResult compile(ir::Graph graph, const ir::Target &target, const PipelineObserver *observer = nullptr,
                      Explained explained = Explained::Yes);

/// The second half of it: from a graph as `fuse` left it to its Program. `user_streams` are those that the
/// recording names, which passes before may not have added to; not given: those of the graph. Without
/// `fusion_notes` nothing is explained.
ir::Program lower(const ir::Graph &graph, const ir::Target &target, const FusionNotes *fusion_notes = nullptr,
                  const PipelineObserver *observer = nullptr,
                  const std::vector<ir::StreamRef> *user_streams = nullptr);

struct PassContext {
    const ir::Target &target;
    FusionNotes *fusion_notes = nullptr; ///< filled by fuse if not null
    /// If not null: a graph that nobody needs, whose memory a pass makes its own graph in; it leaves the old
    /// one to the next pass.
    ir::Graph *recycled = nullptr;
};

/// A pass from graph to graph, by the name that `lz-opt --passes` takes. `lower-clusters` stands between
/// these and the ones below.
struct GraphPass {
    std::string_view name;
    ir::Graph (*run)(ir::Graph graph, const PassContext &context);
};

/// In the order of the pipeline.
std::span<const GraphPass> graph_passes();
/// The pass with this name, or nullptr.
const GraphPass *find_graph_pass(std::string_view name);

struct ProgramContext {
    const ir::Target &target;
    /// What the Program was made of; null where it was read from text, and then nothing is explained.
    const ir::Graph *graph = nullptr;
    const FusionNotes *fusion_notes = nullptr;
    /// Of the Program before plan_memory; found by the first pass that asks.
    std::optional<Dependences> dependences{};
};

/// A pass from one stage of a Program to the next (ir/program/draft.h), or within one.
struct ProgramPass {
    std::string_view name;
    ir::Stage takes;
    void (*run)(ir::Program &program, ProgramContext &context);
};

/// In the order of the pipeline.
std::span<const ProgramPass> program_passes();
/// The pass with this name, or nullptr.
const ProgramPass *find_program_pass(std::string_view name);

/// Runs the passes that are left for a Program at its stage; verify-schedule with `target.modes.verify` only.
void finish(ir::Program &program, ProgramContext &context, const PipelineObserver *observer = nullptr);

} // namespace lz::passes
