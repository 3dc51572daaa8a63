#include "passes/explain/explain_schedule.h"

#include "passes/explain/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

bool is_staged(const LoweredStep &step) {
    return std::ranges::any_of(step.operands, [](const LoweredBuffer &b) { return b.staging != kNone; });
}

std::string where(const Graph &graph, const LoweredStep &step) {
    const Node &node = graph.node(step.node);
    return node.loc.known() ? fmt::format(" ({})", to_string(node.loc)) : std::string();
}

/// Sentences about steps [s, end), which move one value to another device.
std::string explain_transfer(const Graph &graph, std::span<const LoweredStep> steps, size_t s, size_t end) {
    const Node &node = graph.node(steps[s].node);
    const ValueId to = steps[end - 1].operands[1].value, from = steps[s].operands[0].value;
    std::string text =
        end == s + 1 ? fmt::format("Step {} moves", s) : fmt::format("Steps {} to {} move", s, end - 1);
    text += fmt::format(" {} from {} to {}", bytes_text(graph.type(to).bytes()),
                        to_string(graph.type(from).device), to_string(graph.type(to).device));
    if (end == s + 1)
        text += fmt::format(" on {}", to_string(StreamRef{steps[s].device, steps[s].stream}));
    else
        text += fmt::format(" through pinned memory of the host, in {}, because the two have no peer access",
                            plural((end - s) / 2, "piece"));
    return text + fmt::format(": {}{}.", kCauses[static_cast<size_t>(node.cause)], where(graph, steps[s]));
}

} // namespace

std::vector<std::string> explain_schedule(const Graph &graph, std::span<const LoweredStep> steps,
                                          const Schedule &schedule, const Syncs &syncs) {
    std::vector<std::string> notes;
    for (size_t s = 0; s < steps.size();) {
        size_t end = s + 1;
        if (steps[s].node != kNone && steps[s].kind == StepKind::Copy &&
            graph.node(steps[s].node).op == Op::Transfer) {
            while (is_staged(steps[s]) && end < steps.size() && steps[end].node == steps[s].node &&
                   is_staged(steps[end]))
                ++end;
            notes.push_back(explain_transfer(graph, steps, s, end));
        }
        s = end;
    }
    if (schedule.bytes_saved > 0)
        notes.push_back(
            fmt::format("Unnamed work stays on one stream of each GPU: overlapped it would need {} more.",
                        bytes_text(schedule.bytes_saved)));
    if (schedule.streams.size() < 2)
        return notes;
    std::vector<size_t> count(schedule.streams.size(), 0);
    for (const uint32_t stream : schedule.stream)
        ++count[stream];
    std::string streams;
    for (size_t k = 0; k < count.size(); ++k)
        if (count[k] != 0)
            streams += fmt::format("{}{} ({})", streams.empty() ? "" : ", ", to_string(schedule.streams[k]),
                                   count[k]);
    notes.push_back(fmt::format("Steps by stream: {}; {} on {} order them.", streams,
                                plural(syncs.waits.size() + syncs.holds.size(), "wait"),
                                plural(syncs.num_events, "event")));
    const auto memory = static_cast<size_t>(std::ranges::count_if(syncs.waits, &Syncs::Wait::memory));
    if (memory != 0)
        notes.push_back(
            fmt::format("{} there only because another stream used the same bytes before; by the "
                        "estimates that is over by then, and the bytes are saved.",
                        memory == 1 ? "1 of the waits is" : fmt::format("{} of the waits are", memory)));
    return notes;
}

} // namespace lz::passes
