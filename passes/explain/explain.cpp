#include "passes/explain/explain.h"

#include "ir/text/sentences.h"
#include "passes/explain/explain_schedule.h"
#include "passes/lower/lower_clusters.h"
#include "passes/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace lz::passes {

using namespace ir;

namespace {

std::string summary(const Graph &graph, const Program &program) {
    size_t launches = 0, calls = 0, operations = 0;
    for (size_t s = 0; s < program.steps.size(); ++s) {
        const Step &step = program.steps[s];
        const std::vector<NodeId> &nodes = program.draft.steps[s].nodes;
        launches += step.kind == StepKind::Launch;
        calls += step.kind == StepKind::Library && !is_wait_stream(step);
        const auto named =
            std::ranges::count_if(nodes, [&](NodeId id) { return !is_free(graph.node(id).op); });
        // What makes or moves a value, and nothing else, is the operation of its kernel.
        operations += named == 0 && !nodes.empty() ? 1 : static_cast<size_t>(named);
    }
    std::string text = fmt::format("Graph {} became {}", graph.name, plural(launches, "kernel"));
    if (calls != 0)
        text += fmt::format(" and {}", plural(calls, "library call"));
    return text + fmt::format(" out of {}.", plural(operations, "operation"));
}

/// One a step, with its operations, lines, bytes and scalar operations.
std::vector<std::string> explain_steps(const Graph &graph, const Program &program) {
    std::vector<std::string> notes;
    int number = 0;
    for (const uint32_t s : recorded_steps(program)) {
        const Step &step = program.steps[s];
        const StepDraft &draft = program.draft.steps[s];
        std::string where;
        for (const NodeId id : draft.nodes)
            if (graph.node(id).loc.known()) {
                where = fmt::format(", from {}", to_string(graph.node(id).loc));
                break;
            }
        std::string many;
        if (step.segments.size() > 1)
            many = fmt::format(", {} of them in one launch", step.segments.size());
        notes.push_back(
            fmt::format("Step {} is {}{}{}; it reads {}, writes {} and does {} scalar operations.", number++,
                        step.label, many, where, bytes_text(step.bytes - draft.bytes_written),
                        bytes_text(draft.bytes_written), step.flops));
    }
    return notes;
}

/// The step that each node is in, or kNone.
std::vector<uint32_t> steps_of_nodes(const Graph &graph, const Program &program) {
    std::vector<uint32_t> step_of(graph.nodes().size(), kNone);
    for (uint32_t s = 0; s < program.draft.steps.size(); ++s)
        for (const NodeId n : program.draft.steps[s].nodes)
            step_of[n] = s;
    return step_of;
}

/// " at a.cpp:3", if the line is known.
std::string place_of(const Node &node) {
    return node.loc.known() ? " at " + to_string(node.loc) : std::string();
}

/// Results that nothing recorded reads from memory: the kernel that computes them goes on with them, and they
/// are stored because a handle may be read later.
class HandleStores {
public:
    HandleStores(const Graph &graph, const Program &program)
        : graph_(graph), program_(program), step_of_(steps_of_nodes(graph, program)),
          readers_(graph.nodes().size()) {
        for (NodeId n = 0; n < graph.nodes().size(); ++n)
            for (const ValueId v : graph.operands(graph.node(n)))
                if (graph.value(v).producer != kNone)
                    readers_[graph.value(v).producer].push_back(n);
    }

    std::vector<std::string> notes() const {
        std::vector<std::string> notes;
        std::vector<bool> seen(graph_.nodes().size());
        int64_t bytes = 0;
        for (const ValueId v : graph_.results) {
            const NodeId id = graph_.value(v).producer;
            if (id == kNone || seen[id] || graph_.type(v).bytes() < kWorthSaying ||
                !only_its_own_step_reads(id))
                continue;
            seen[id] = true;
            bytes += graph_.type(v).bytes();
            if (notes.size() < kNamed)
                notes.push_back(fmt::format(
                    "{}{} is stored, {}, because a handle holds it: what reads it is in its own kernel.",
                    name(graph_.node(id).op), place_of(graph_.node(id)), bytes_text(graph_.type(v).bytes())));
        }
        if (!notes.empty())
            notes.push_back(fmt::format("Handles alone make kernels store {}: let go of those that are not "
                                        "read again (a scope, a function, lz::compile).",
                                        bytes_text(bytes)));
        return notes;
    }

private:
    static constexpr size_t kNamed = 8;
    static constexpr int64_t kWorthSaying = 4096; ///< bytes

    bool only_its_own_step_reads(NodeId id) const {
        const uint32_t step = step_of_[id];
        if (step == kNone || program_.steps[step].kind != StepKind::Launch || is_free(graph_.node(id).op))
            return false;
        bool read = false;
        std::vector<NodeId> through{id};
        while (!through.empty()) { // views of it
            const NodeId n = through.back();
            through.pop_back();
            for (const NodeId reader : readers_[n]) {
                if (is_free(graph_.node(reader).op)) {
                    through.push_back(reader);
                    continue;
                }
                if (step_of_[reader] != step)
                    return false;
                read = true;
            }
        }
        return read;
    }

    const Graph &graph_;
    const Program &program_;
    const std::vector<uint32_t> step_of_;
    std::vector<std::vector<NodeId>> readers_;
};

/// Why neighbours are kernels of their own.
std::vector<std::string> explain_fusion(const Graph &graph, const FusionNotes &fusion,
                                        const Program &program) {
    std::vector<std::string> notes;
    const std::vector<uint32_t> step_of = steps_of_nodes(graph, program);
    for (const FusionNote &note : fusion.kept_apart) {
        if (step_of[note.producer] == step_of[note.consumer] && step_of[note.producer] != kNone)
            continue; // phases of one kernel
        const Node &p = graph.node(note.producer);
        const Node &c = graph.node(note.consumer);
        if (p.op == Op::Transfer || c.op == Op::Transfer)
            continue; // no kernel to be in
        notes.push_back(fmt::format("{}{} is not in one kernel with {}{}: {}.", name(p.op), place_of(p),
                                    name(c.op), place_of(c), note.reason));
    }
    return notes;
}

std::vector<std::string> explain_memory(const Program &program) {
    std::vector<std::string> notes;
    int64_t inputs = 0, results = 0, donated = 0;
    for (const BufferDesc &buffer : program.buffers) {
        inputs += buffer.kind == BufferKind::Input ? buffer.bytes : 0;
        donated += buffer.donor >= 0 ? buffer.bytes : 0;
    }
    for (uint32_t r : program.results)
        if (program.buffers[r].donor < 0)
            results += program.buffers[r].bytes;
    int64_t arenas = 0;
    for (size_t a = 0; a < program.arenas.size(); ++a) {
        const ArenaDesc &arena = program.arenas[a];
        notes.push_back(fmt::format("{} share an arena of {} on {}; at the worst moment {} of it are live.",
                                    arena.pinned                  ? "Copies between GPUs, in pinned memory,"
                                    : arena.home == kCopyInStream ? "Values that come from the host"
                                                                  : "Intermediates",
                                    bytes_text(arena.bytes), to_string(arena.device),
                                    bytes_text(program.draft.live_bytes[a])));
        arenas += arena.bytes;
    }
    notes.push_back(fmt::format("Planned peak: {} (inputs {}, results {}, intermediates {}).",
                                bytes_text(inputs + results + arenas), bytes_text(inputs),
                                bytes_text(results), bytes_text(arenas)));
    if (program.draft.in_place_bytes != 0)
        notes.push_back(fmt::format("{} are written over an operand that nothing reads later.",
                                    bytes_text(program.draft.in_place_bytes)));
    if (donated != 0)
        notes.push_back(fmt::format("{} of results take over the memory of an input.", bytes_text(donated)));
    size_t copies = 0; // that no operation is
    for (size_t s = 0; s < program.steps.size(); ++s)
        copies += program.steps[s].kind == StepKind::Copy && program.draft.steps[s].nodes.empty();
    if (copies != 0)
        notes.push_back(
            fmt::format("{} of whole buffers: results that are inputs or wanted twice, and updates in place "
                        "of values that live on.",
                        copies == 1 ? "1 copy" : fmt::format("{} copies", copies)));
    return notes;
}

void append(std::vector<std::string> &to, std::vector<std::string> more) {
    to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

} // namespace

void explain(const Graph &graph, const FusionNotes &fusion, Program &program) {
    std::vector<std::string> notes{summary(graph, program)};
    append(notes, explain_steps(graph, program));
    append(notes, explain_fusion(graph, fusion, program));
    append(notes, HandleStores(graph, program).notes());
    append(notes, explain_schedule(graph, program));
    append(notes, explain_memory(program));
    program.notes = std::move(notes);
}

} // namespace lz::passes
