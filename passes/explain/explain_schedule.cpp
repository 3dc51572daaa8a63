#include "passes/explain/explain_schedule.h"

#include "ir/text/sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

constexpr std::array<std::string_view, 5> kCauses = {
    "it was asked for",
    "a 0-dim CPU tensor stands beside operands on a GPU",
    "an operand is on a GPU with peer access",
    "the smaller side of an operation moves, its result's way home counted",
    "its operation ran where the larger operand is",
};
static_assert(kCauses.size() == static_cast<size_t>(TransferCause::Return) + 1);

/// A piece of a copy that goes through staging memory, which holds no value.
bool is_staged(const Program &program, const Step &step) {
    return std::ranges::any_of(step.operands, [&](uint32_t b) { return program.buffers[b].value == kNone; });
}

std::string where(const Node &node) {
    return node.loc.known() ? fmt::format(" ({})", to_string(node.loc)) : std::string();
}

/// Sentences about steps, from the `s`th on, which move one value to another device.
std::string explain_transfer(const Graph &graph, const Program &program, std::span<const uint32_t> steps,
                             size_t s) {
    const Step &first = program.steps[steps.front()], &last = program.steps[steps.back()];
    const Node &node = graph.node(first.node);
    const BufferDesc &from = program.buffers[first.operands[0]], &to = program.buffers[last.operands[1]];
    std::string text = steps.size() == 1 ? fmt::format("Step {} moves", s)
                                         : fmt::format("Steps {} to {} move", s, s + steps.size() - 1);
    text +=
        fmt::format(" {} from {} to {}", bytes_text(to.bytes), to_string(from.device), to_string(to.device));
    if (steps.size() == 1)
        text += fmt::format(" on {}", to_string(StreamRef{first.device, first.stream}));
    else
        text += fmt::format(" through pinned memory of the host, in {}, because the two have no peer access",
                            plural(steps.size() / 2, "piece"));
    return text + fmt::format(": {}{}.", kCauses[static_cast<size_t>(node.cause)], where(node));
}

std::vector<std::string> explain_transfers(const Graph &graph, const Program &program) {
    std::vector<std::string> notes;
    const std::vector<uint32_t> steps = recorded_steps(program);
    for (size_t s = 0; s < steps.size();) {
        size_t end = s + 1;
        const Step &step = program.steps[steps[s]];
        const std::vector<NodeId> &nodes = program.draft.steps[steps[s]].nodes;
        if (step.kind == StepKind::Copy && !nodes.empty() && graph.node(nodes.back()).op == Op::Transfer) {
            if (is_staged(program, step))
                while (end < steps.size() && program.steps[steps[end]].node == step.node &&
                       is_staged(program, program.steps[steps[end]]))
                    ++end;
            notes.push_back(explain_transfer(graph, program, std::span(steps).subspan(s, end - s), s));
        }
        s = end;
    }
    return notes;
}

} // namespace

std::vector<uint32_t> recorded_steps(const Program &program) {
    std::vector<uint32_t> steps;
    for (uint32_t s = 0; s < program.steps.size(); ++s)
        if (program.steps[s].event == kNone)
            steps.push_back(s);
    return steps;
}

std::vector<std::string> explain_schedule(const Graph &graph, const Program &program) {
    std::vector<std::string> notes = explain_transfers(graph, program);
    if (program.draft.bytes_saved > 0)
        notes.push_back(
            fmt::format("Unnamed work stays on one stream of each GPU: overlapped it would need {} more.",
                        bytes_text(program.draft.bytes_saved)));
    std::vector<std::pair<StreamRef, size_t>> used; // steps of each
    size_t waits = 0, for_memory = 0;
    for (size_t s = 0; s < program.steps.size(); ++s) {
        const Step &step = program.steps[s];
        if (step.event != kNone) {
            waits += step.kind == StepKind::WaitEvent;
            for_memory += program.draft.steps[s].for_memory;
            continue;
        }
        const StreamRef stream{step.device, step.stream};
        const auto known = std::ranges::find(used, stream, &std::pair<StreamRef, size_t>::first);
        if (known == used.end())
            used.emplace_back(stream, 1);
        else
            ++known->second;
    }
    if (used.size() < 2)
        return notes;
    std::string streams;
    for (const auto &[stream, steps] : used)
        streams += fmt::format("{}{} ({})", streams.empty() ? "" : ", ", to_string(stream), steps);
    notes.push_back(fmt::format("Steps by stream: {}; {} on {} order them.", streams, plural(waits, "wait"),
                                plural(program.num_events, "event")));
    if (for_memory != 0)
        notes.push_back(fmt::format("{} there only because another stream used the same bytes before; by the "
                                    "estimates that is over by then, and the bytes are saved.",
                                    for_memory == 1 ? "1 of the waits is"
                                                    : fmt::format("{} of the waits are", for_memory)));
    return notes;
}

} // namespace lz::passes
