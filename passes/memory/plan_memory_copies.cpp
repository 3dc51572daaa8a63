#include "passes/memory/plan_memory.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

LoweredStep copy_step(const Graph &graph, const MemoryPlan &plan, const PlannedCopy &copy) {
    const BufferDesc &from = plan.buffers[copy.from], &to = plan.buffers[copy.to];
    LoweredStep step;
    step.kind = StepKind::Copy;
    step.operands = {{.mode = BufferMode::In, .value = from.value, .bytes = from.bytes},
                     {.mode = BufferMode::Out, .value = to.value, .bytes = to.bytes}};
    step.copy.bytes = step.bytes_read = step.bytes_written = to.bytes;
    step.cost = 2 * to.bytes;
    if (const Node *node = to.value == kNone ? nullptr : graph.producer(to.value)) {
        step.node = static_cast<NodeId>(node - graph.nodes().data());
        if (node->recorded != kNone)
            step.recorded = {node->recorded};
    }
    step.label = "copy";
    return step;
}

/// Collects the steps and what goes with each of them, in their new places.
class Merge {
public:
    Merge(const Graph &graph, MemoryPlan &plan, std::vector<LoweredStep> &steps, Schedule &schedule)
        : graph_(graph), plan_(plan), steps_(steps), schedule_(schedule) {
        merged_.streams = schedule.streams;
        end_ = schedule.seconds();
    }

    void add(uint32_t s) {
        const auto first = plan_.operands.begin() + plan_.step_begin[s];
        const auto last = plan_.operands.begin() + plan_.step_begin[s + 1];
        append(std::move(steps_[s]), schedule_.stream[s], schedule_.begin[s], schedule_.end[s], first, last);
    }

    void add(const PlannedCopy &copy) {
        LoweredStep step = copy_step(graph_, plan_, copy);
        const uint32_t stream = stream_of(copy);
        const double at = copy.before_step < steps_.size() ? schedule_.begin[copy.before_step] : end_;
        const uint32_t operands[] = {copy.from, copy.to};
        append(std::move(step), stream, at, at, std::begin(operands), std::end(operands));
    }

    void finish() {
        step_begin_.push_back(static_cast<uint32_t>(operands_.size()));
        steps_ = std::move(out_);
        schedule_ = std::move(merged_);
        plan_.operands = std::move(operands_);
        plan_.step_begin = std::move(step_begin_);
    }

private:
    template <class It>
    void append(LoweredStep step, uint32_t stream, double begin, double end, It first, It last) {
        out_.push_back(std::move(step));
        merged_.stream.push_back(stream);
        merged_.begin.push_back(begin);
        merged_.end.push_back(end);
        step_begin_.push_back(static_cast<uint32_t>(operands_.size()));
        operands_.insert(operands_.end(), first, last);
    }

    uint32_t stream_of(const PlannedCopy &copy) {
        const Device device = plan_.buffers[copy.from].device;
        if (copy.with != kNone && merged_.streams[schedule_.stream[copy.with]].device == device)
            return schedule_.stream[copy.with];
        const StreamRef wanted{device, kDefaultStream};
        const auto it = std::ranges::find(merged_.streams, wanted);
        const auto index = static_cast<uint32_t>(it - merged_.streams.begin());
        if (it == merged_.streams.end())
            merged_.streams.push_back(wanted);
        return index;
    }

    const Graph &graph_;
    MemoryPlan &plan_;
    std::vector<LoweredStep> &steps_;
    Schedule &schedule_;
    double end_; // of the last step
    std::vector<LoweredStep> out_;
    Schedule merged_;
    std::vector<uint32_t> operands_, step_begin_;
};

} // namespace

void add_copies(const Graph &graph, MemoryPlan &plan, std::vector<LoweredStep> &steps, Schedule &schedule) {
    const std::span<const PlannedCopy> copies = plan.copies;
    if (copies.empty())
        return;
    const auto end = static_cast<uint32_t>(steps.size());
    Merge merge(graph, plan, steps, schedule);
    size_t copy = 0;
    for (uint32_t s = 0; s <= end; ++s) {
        for (; copy < copies.size() && copies[copy].before_step == s; ++copy)
            merge.add(copies[copy]);
        if (s < end)
            merge.add(s);
    }
    merge.finish();
}

} // namespace lz::passes
