#include "passes/explain/explain.h"

#include "passes/explain/explain_schedule.h"
#include "passes/explain/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace lz::passes {

using namespace ir;

namespace {

std::string summary(const Graph &graph, std::span<const LoweredStep> steps) {
    size_t launches = 0, calls = 0, operations = 0;
    for (const LoweredStep &step : steps) {
        launches += step.kind == StepKind::Launch;
        calls += step.kind == StepKind::Library && !is_wait_stream(step);
        const auto named =
            std::ranges::count_if(step.nodes, [&](NodeId id) { return !is_free(graph.node(id).op); });
        // What makes or moves a value, and nothing else, is the operation of its kernel.
        operations += named == 0 && !step.nodes.empty() ? 1 : static_cast<size_t>(named);
    }
    std::string text = fmt::format("Graph {} became {}", graph.name, plural(launches, "kernel"));
    if (calls != 0)
        text += fmt::format(" and {}", plural(calls, "library call"));
    return text + fmt::format(" out of {}.", plural(operations, "operation"));
}

void explain_memory(const MemoryPlan &plan, std::vector<std::string> &notes) {
    int64_t inputs = 0, results = 0;
    for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
        const BufferDesc &buffer = plan.buffers[b];
        if (buffer.kind == BufferKind::Input)
            inputs += buffer.bytes;
    }
    for (uint32_t r : plan.results)
        if (plan.buffers[r].donor < 0)
            results += plan.buffers[r].bytes;
    int64_t arenas = 0;
    for (size_t a = 0; a < plan.arenas.size(); ++a) {
        const ArenaDesc &arena = plan.arenas[a];
        notes.push_back(fmt::format("{} share an arena of {} on {}; at the worst moment {} of it are live.",
                                    arena.pinned                  ? "Copies between GPUs, in pinned memory,"
                                    : arena.home == kCopyInStream ? "Values that come from the host"
                                                                  : "Intermediates",
                                    bytes_text(arena.bytes), to_string(arena.device),
                                    bytes_text(plan.live_bytes[a])));
        arenas += arena.bytes;
    }
    notes.push_back(fmt::format("Planned peak: {} (inputs {}, results {}, intermediates {}).",
                                bytes_text(inputs + results + arenas), bytes_text(inputs),
                                bytes_text(results), bytes_text(arenas)));
    if (plan.in_place_bytes != 0)
        notes.push_back(fmt::format("{} are written over an operand that nothing reads later.",
                                    bytes_text(plan.in_place_bytes)));
    if (plan.donated_bytes != 0)
        notes.push_back(
            fmt::format("{} of results take over the memory of an input.", bytes_text(plan.donated_bytes)));
    if (!plan.copies.empty())
        notes.push_back(
            fmt::format("{} of whole buffers: results that are inputs or wanted twice, and updates in place "
                        "of values that live on.",
                        plan.copies.size() == 1 ? "1 copy" : fmt::format("{} copies", plan.copies.size())));
}

void append(std::vector<std::string> &to, std::vector<std::string> more) {
    to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

} // namespace

std::vector<std::string> explain(const Graph &graph, const FusionNotes &fusion,
                                 std::span<const LoweredStep> steps, const MemoryPlan &plan,
                                 const Schedule &schedule, const Syncs &syncs) {
    std::vector<std::string> notes{summary(graph, steps)};
    append(notes, explain_steps(graph, steps));
    append(notes, explain_fusion(graph, fusion));
    append(notes, explain_schedule(graph, steps, schedule, syncs));
    explain_memory(plan, notes);
    return notes;
}

} // namespace lz::passes
