// Results that stand or fall together (Bindings::failure_groups), where a device refuses a call for good.
#include "runtime/executor/program/run.h"

#include <algorithm>
#include <set>

namespace lz::runtime {

namespace {

/// Calls f(result) for each result whose donor's memory the segment writes, itself or a value before it.
template <class F>
void for_overwritten(const ir::Program &program, const ir::Step &step, uint32_t segment, F &&f) {
    for (const BufferUse &use : uses_of(program, step, segment))
        if (const ir::BufferDesc &b = program.buffers[use.buffer];
            use.write && b.kind == ir::BufferKind::Result && b.donor >= 0)
            f(b.index);
}

uint32_t segments_of(const ir::Step &step) {
    return std::max<uint32_t>(static_cast<uint32_t>(step.segments.size()), 1);
}

} // namespace

void LoadedProgram::Run::note_put(const Layout::Action &action, uint32_t segment) {
    if (put_.empty()) // what is lost was found by a check
        return;
    for_overwritten(program_, program_.steps[action.step], segment,
                    [&](uint32_t result) { put_[result] = true; });
}

/// The action was refused from segment `first` on. Groups that something is lost of, or will be, and of which
/// nothing has been put, are lost as a whole: they go back to what their donors hold.
void LoadedProgram::Run::keep_together(const Layout::Action &action, uint32_t first, uint32_t failure) {
    if (put_.empty()) { // until now all has been put
        put_.resize(program_.results.size());
        for (const Layout::Action *a = layout_.actions.data(); a != &action; ++a)
            for (uint32_t segment = 0; segment < segments_of(program_.steps[a->step]); ++segment)
                note_put(*a, segment);
        groups_.assign(program_.results.size(), ir::kNone);
        if (bindings_.failure_groups)
            bindings_.failure_groups->groups(groups_);
    }
    for (uint32_t segment = 0; segment < first; ++segment)
        if (!blame_->harmed(action.step, segment)) // else it was left out
            note_put(action, segment);
    for (bool more = true; more;) {
        more = false;
        Blame ahead = *blame_; // as if nothing else failed
        for (const Layout::Action *a = &action; a != layout_.actions.data() + layout_.actions.size(); ++a)
            if (const auto segments = segments_of(program_.steps[a->step]); a->settles) {
                for (uint32_t s = 0; s < segments && !unordered_.empty() && unordered_[a->track]; ++s)
                    ahead.lose_by(a->step, s, failure);
                ahead.settle(a->step, {});
            }
        std::set<uint32_t> begun, harmed;
        for (uint32_t r = 0; r < groups_.size(); ++r)
            if (groups_[r] != ir::kNone) {
                if (put_[r])
                    begun.insert(groups_[r]);
                if (ahead.is_lost(r))
                    harmed.insert(groups_[r]);
            }
        for (uint32_t r = 0; r < groups_.size(); ++r) {
            const uint32_t group = groups_[r];
            if (group == ir::kNone || blame_->is_lost(r) || harmed.empty() ||
                (!begun.empty() && (!harmed.contains(group) || begun.contains(group))))
                continue;
            lose_together(r, action, failure);
            more = true;
        }
    }
}

/// The result is lost, and so is all else that is written by a segment that would write over its donor.
void LoadedProgram::Run::lose_together(uint32_t result, const Layout::Action &action, uint32_t failure) {
    blame_->lose_result(result, failure);
    for (const Layout::Action *a = &action; a != layout_.actions.data() + layout_.actions.size(); ++a) {
        const ir::Step &step = program_.steps[a->step];
        for (uint32_t segment = 0; segment < segments_of(step); ++segment) {
            bool writes = false;
            for_overwritten(program_, step, segment, [&](uint32_t r) { writes = writes || r == result; });
            if (writes)
                blame_->lose_by(a->step, segment, failure);
        }
    }
}

/// (A guarded result has one writer, which is put as a whole.)
void LoadedProgram::Run::note_overwritten(RunReport &report) const {
    report.refused = !put_.empty();
    for (uint32_t r = 0; r < put_.size(); ++r)
        if (put_[r] && blame_->is_lost(r) && !program_.buffers[program_.results[r]].guarded)
            report.overwritten.push_back(r);
}

} // namespace lz::runtime
