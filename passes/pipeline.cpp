#include "passes/pipeline.h"

#include "ir/diagnostic.h"
#include "ir/host/float_environment.h"
#include "passes/build_program.h"
#include "passes/devices/check_devices.h"
#include "passes/devices/insert_transfers.h"
#include "passes/devices/places.h"
#include "passes/devices/stage_copies.h"
#include "passes/explain/explain.h"
#include "passes/lower/lower_clusters.h"
#include "passes/memory/fit_fusion.h"
#include "passes/memory/fit_memory.h"
#include "passes/memory/order_steps.h"
#include "passes/memory/plan_memory.h"
#include "passes/memory/recompute.h"
#include "passes/simplify/eliminate_common.h"
#include "passes/simplify/eliminate_dead.h"
#include "passes/simplify/simplify.h"
#include "passes/streams/assign_streams.h"
#include "passes/syncs/insert_syncs.h"
#include "passes/verify/verify.h"
#include "passes/verify/verify_schedule.h"

#include <algorithm>
#include <optional>

namespace lz::passes {

using namespace ir;

namespace {

// The passes over graphs, in order.
constexpr GraphPass kGraphPasses[] = {
    {"check-devices",
     [](Graph g, const PassContext &c) {
         check_devices(g, c.target);
         return g;
     }},
    {"insert-transfers",
     [](Graph g, const PassContext &c) { return insert_transfers(std::move(g), c.target); }},
    {"simplify", [](Graph g, const PassContext &c) { return simplify(std::move(g), c.recycled); }},
    {"eliminate-common",
     [](Graph g, const PassContext &c) { return eliminate_common(std::move(g), c.recycled); }},
    {"eliminate-dead",
     [](Graph g, const PassContext &c) { return eliminate_dead(std::move(g), c.recycled); }},
    {"fuse",
     [](Graph g, const PassContext &c) { return fuse(std::move(g), c.target, c.fusion_notes, c.recycled); }},
    {"recompute",
     [](Graph g, const PassContext &c) { return recompute(std::move(g), c.target, c.fusion_notes); }},
};

const Dependences &dependences(const Program &program, ProgramContext &context) {
    if (!context.dependences)
        context.dependences = find_dependences(program);
    return *context.dependences;
}

/// The user's lines by recorded index.
std::vector<Location> lines_of(const Graph &graph) {
    std::vector<Location> lines;
    for (const Node &node : graph.nodes())
        if (node.recorded != kNone) {
            lines.resize(std::max<size_t>(lines.size(), node.recorded + size_t{1}));
            lines[node.recorded] = node.loc;
        }
    return lines;
}

// The passes over Programs, in order; lower-clusters makes the first.
constexpr ProgramPass kProgramPasses[] = {
    {"stage-copies", Stage::Lowered, [](Program &p, ProgramContext &c) { stage_copies(p, c.target); }},
    {"order-steps", Stage::Lowered,
     [](Program &p, ProgramContext &c) {
         if (order_steps(p, dependences(p, c), c.target))
             c.dependences.reset();
     }},
    {"assign-streams", Stage::Lowered,
     [](Program &p, ProgramContext &c) { assign_streams(p, dependences(p, c), c.target); }},
    {"fit-memory", Stage::Streamed,
     [](Program &p, ProgramContext &c) { fit_memory(p, dependences(p, c), c.target); }},
    {"plan-memory", Stage::Streamed,
     [](Program &p, ProgramContext &c) { plan_memory(p, dependences(p, c), c.target); }},
    {"insert-syncs", Stage::Planned, [](Program &p, ProgramContext &) { insert_syncs(p); }},
    {"explain", Stage::Ordered,
     [](Program &p, ProgramContext &c) {
         if (c.graph && c.fusion_notes)
             explain(*c.graph, *c.fusion_notes, p);
     }},
    {"build-program", Stage::Ordered, [](Program &p, ProgramContext &) { build_program(p); }},
    {"verify-schedule", Stage::Final,
     [](Program &p, ProgramContext &c) {
         verify_schedule(p, c.graph ? lines_of(*c.graph) : std::vector<Location>());
     }},
};

/// Runs passes between the observer's calls and verifies what they leave.
class Pipeline {
public:
    Pipeline(const Target &target, const PipelineObserver *observer) : target_(target), observer_(observer) {}

    template <class Pass>
    auto operator()(std::string_view name, Pass &&pass) {
        if (observer_ && observer_->before)
            observer_->before(name);
        return pass();
    }
    /// Reports what the pass made and verifies it.
    template <class Form>
    void check(const PassOutput &output, const Form &form) {
        if (target_.modes.verify)
            verify_after(output.pass, form);
        report(output);
    }
    void report(const PassOutput &output) {
        if (observer_ && observer_->after)
            observer_->after(output);
    }

private:
    const Target &target_;
    const PipelineObserver *observer_;
};

} // namespace

CompileResult compile(Graph graph, const Target &target, const PipelineObserver *observer,
                      Explained explained) {
    const FloatEnvironment environment;
    Pipeline run(target, observer);
    FusionNotes noted;
    FusionNotes *const fusion_notes = explained == Explained::Yes ? &noted : nullptr;
    Graph recycled;
    const PassContext context{target, fusion_notes, &recycled};
    if (target.modes.verify)
        verify_after("recording", graph);
    const std::vector<StreamRef> streams = user_streams(graph);
    Graph unfused;
    for (const GraphPass &pass : kGraphPasses) {
        if (pass.name == "fuse")
            unfused = graph_to_fit(graph, target);
        graph = run(pass.name, [&] { return pass.run(std::move(graph), context); });
        run.check({.pass = pass.name, .graph = &graph}, graph);
    }
    Program program = lower(graph, target, fusion_notes, observer, &streams);
    fit_fusion(program, graph, std::move(unfused), target, explained == Explained::Yes,
               [&](Graph &apart, const Target &without_fusion) {
                   apart = run("fuse", [&] { return fuse(std::move(apart), without_fusion); });
                   run.check({.pass = "fuse", .graph = &apart}, apart);
                   const FusionNotes none;
                   return lower(apart, without_fusion, fusion_notes ? &none : nullptr, observer, &streams);
               });
    return {std::move(program), std::move(graph)};
}

Program lower(const Graph &graph, const Target &target, const FusionNotes *fusion_notes,
              const PipelineObserver *observer, const std::vector<StreamRef> *streams) {
    Pipeline run(target, observer);
    Program program = run("lower-clusters", [&] { return lower_clusters(graph, target); });
    program.user_streams = streams ? *streams : user_streams(graph);
    run.check({.pass = "lower-clusters", .graph = &graph, .program = &program}, program);
    ProgramContext context{target, &graph, fusion_notes};
    finish(program, context, observer);
    return program;
}

void finish(Program &program, ProgramContext &context, const PipelineObserver *observer) {
    Pipeline run(context.target, observer);
    for (const ProgramPass &pass : kProgramPasses) {
        if (program.stage != pass.takes || (pass.takes == Stage::Final && !context.target.modes.verify))
            continue;
        run(pass.name, [&] { pass.run(program, context); });
        run.check({.pass = pass.name, .graph = context.graph, .program = &program}, program);
    }
}

std::span<const GraphPass> graph_passes() {
    return kGraphPasses;
}

const GraphPass *find_graph_pass(std::string_view name) {
    const auto it = std::ranges::find(kGraphPasses, name, &GraphPass::name);
    return it == std::end(kGraphPasses) ? nullptr : &*it;
}

std::span<const ProgramPass> program_passes() {
    return kProgramPasses;
}

const ProgramPass *find_program_pass(std::string_view name) {
    const auto it = std::ranges::find(kProgramPasses, name, &ProgramPass::name);
    return it == std::end(kProgramPasses) ? nullptr : &*it;
}

} // namespace lz::passes
