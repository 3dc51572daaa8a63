#include "passes/memory/add_copies.h"

#include <algorithm>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

/// Collects the steps and what goes with each of them, in their new places.
class Merge {
public:
    explicit Merge(Program &program)
        : program_(program), steps_(std::exchange(program.steps, {})),
          drafts_(std::exchange(program.draft.steps, {})) {
        for (const StepDraft &draft : drafts_)
            end_ = std::max(end_, draft.end);
        moments_.reserve(steps_.size());
        streams_.reserve(steps_.size());
        for (size_t s = 0; s < steps_.size(); ++s) {
            moments_.push_back(drafts_[s].begin);
            streams_.push_back({steps_[s].device, steps_[s].stream});
        }
    }

    void run(std::span<const PlannedCopy> copies) {
        const auto end = static_cast<uint32_t>(steps_.size());
        std::vector<uint32_t> place(end); // of the earlier steps, among the new ones
        size_t copy = 0;
        for (uint32_t s = 0; s <= end; ++s) {
            for (; copy < copies.size() && copies[copy].before_step == s; ++copy)
                add(copies[copy]);
            if (s == end)
                break;
            for (uint32_t &before : drafts_[s].after)
                before = place[before];
            place[s] = static_cast<uint32_t>(program_.steps.size());
            program_.steps.push_back(std::move(steps_[s]));
            program_.draft.steps.push_back(std::move(drafts_[s]));
        }
    }

private:
    void add(const PlannedCopy &copy) {
        const BufferDesc &from = program_.buffers[copy.from], &to = program_.buffers[copy.to];
        const BufferDraft &made = program_.draft.buffers[copy.to];
        const StreamRef stream = copy.with != kNone && streams_[copy.with].device == from.device
                                     ? streams_[copy.with]
                                     : StreamRef{from.device, kDefaultStream};
        Step &step = program_.steps.emplace_back();
        step.kind = StepKind::Copy;
        step.device = stream.device;
        step.stream = stream.stream;
        step.operands = {copy.from, copy.to};
        step.copy.bytes = to.bytes;
        step.bytes = step.cost = 2 * to.bytes;
        step.node = made.node;
        if (made.recorded != kNone)
            step.recorded = {made.recorded};
        step.label = "copy";
        StepDraft &draft = program_.draft.steps.emplace_back();
        draft.bytes_written = to.bytes;
        draft.begin = draft.end = copy.before_step < moments_.size() ? moments_[copy.before_step] : end_;
    }

    Program &program_;
    std::vector<Step> steps_;
    std::vector<StepDraft> drafts_;
    std::vector<double> moments_;    // by step: when it begins
    std::vector<StreamRef> streams_; // by step
    double end_ = 0;                 // of the last step
};

} // namespace

void add_copies(Program &program, std::span<const PlannedCopy> copies) {
    if (!copies.empty())
        Merge(program).run(copies);
}

} // namespace lz::passes
