// Results that stand or fall together (Bindings::failure_groups), where a device refuses a call for good, and
// runs that stop because only a part of them has been changed.
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

void LoadedProgram::Run::find_groups() {
    groups_.assign(program_.results.size(), ir::kNone);
    if (bindings_.failure_groups)
        bindings_.failure_groups->groups(groups_);
}

/// Whether a result of a group has been written over its donor, in part or as a whole.
bool LoadedProgram::Run::changed_before(const Layout::Action &action, uint32_t put) const {
    bool changed = false;
    for (uint32_t r = 0; r < put_.size(); ++r) // something has failed before, and they are known
        changed = changed || (put_[r] && groups_[r] != ir::kNone);
    if (!put_.empty())
        return changed;
    for (const Layout::Action *a = layout_.actions.data(); a <= &action && !changed; ++a)
        for (uint32_t s = 0; s < (a == &action ? put : segments_of(program_.steps[a->step])); ++s)
            for_overwritten(program_, program_.steps[a->step], s,
                            [&](uint32_t r) { changed = changed || groups_[r] != ir::kNone; });
    return changed;
}

/// Whether a result would be lost if the run went on without the action.
bool LoadedProgram::Run::loses_results(const Layout::Action &action, uint32_t put) const {
    Blame ahead = blame_ ? *blame_ : Blame(program_);
    const ir::Step &step = program_.steps[action.step];
    const uint32_t failure = ahead.lose(action.step, std::min(put, segments_of(step) - 1),
                                        ir::Failure(ir::ErrorKind::Internal, "a call that was refused"));
    for (uint32_t s = put; s < segments_of(step); ++s)
        ahead.lose_by(action.step, s, failure);
    for (const Layout::Action *a = &action; a != layout_.actions.data() + layout_.actions.size(); ++a) {
        if (ordering_ && on_streams_ && a->track == action.track && a->settles)
            for (uint32_t s = 0; s < segments_of(program_.steps[a->step]); ++s)
                ahead.lose_by(a->step, s, failure);
        if (a->settles)
            ahead.settle(a->step, {});
    }
    for (uint32_t r = 0; r < program_.results.size(); ++r)
        if (ahead.is_lost(r) && !(blame_ && blame_->is_lost(r)))
            return true;
    return false;
}

/// Whether an event or a callback of the user's is still to come. Whoever waits for those has to be told of a
/// failure, and does not read a result.
bool LoadedProgram::Run::shows_user(const Layout::Action &action) const {
    return std::any_of(
        &action, layout_.actions.data() + layout_.actions.size(), [&](const Layout::Action &a) {
            return a.kind == ir::StepKind::HostCallback ||
                   ((a.kind == ir::StepKind::RecordEvent || a.kind == ir::StepKind::WaitEvent) &&
                    program_.steps[a.step].event == ir::kNone);
        });
}

void LoadedProgram::Run::take_over(Stop &stop) {
    groups_ = stop.groups;
    goes_on_ = true;
    gave_up_ = stop.gave_up;
    blame_ = std::move(stop.blame);
    put_ = std::move(stop.put);
    unordered_ = std::move(stop.unordered);
}

/// The action from the segment on by which the run stopped.
void LoadedProgram::Run::perform_rest(const Layout::Action &action, uint32_t first) {
    if (on_streams_)
        wait_for_others(action);
    if (blame_)
        perform_unharmed(action, first);
    else
        launch_from(action, state_.launches[action.index], first);
    check(action);
}

/// Whether the run stops at the refused action `next`, to go on later: a part of what it changes in place has
/// been changed, and what would be lost with the action would not fit to that. Not where the same call may
/// not be made again, and not where a device is lost. A run that has stopped before does so again.
bool LoadedProgram::Run::stops(size_t next, const ir::Failure &failure) {
    const bool once = std::exchange(once_, false);
    if (once || !bindings_.failure_groups || !is_retryable(failure))
        return false;
    const Layout::Action &action = layout_.actions[next];
    const uint32_t segments = segments_of(program_.steps[action.step]);
    const uint32_t put = segments_put_;
    if (put >= segments) // something failed after all of it
        return false;
    find_groups();
    if (!goes_on_ && (!changed_before(action, put) || shows_user(action) || !loses_results(action, put)))
        return false;
    for (size_t t = 0; on_streams_ && t < layout_.tracks.size(); ++t)
        try {
            Backend &backend = *layout_.tracks[t].backend;
            backend.synchronize(state_.tracks[t].stream, backend.record(state_.tracks[t].stream));
        } catch (const ir::Failure &) {
            return false;
        }
    const std::vector<uint32_t> &recorded = program_.steps[action.step].recorded;
    stop_.emplace(next, put,
                  ir::Failure(failure.kind(), failure.message(), failure.loc(),
                              recorded.empty() ? ir::Failure::kNoNode : recorded.back()),
                  groups_, gave_up_, std::move(blame_), put_, unordered_);
    blame_.reset();
    ordering_ = false;
    segments_put_ = 0;
    return true;
}

/// The action was refused from segment `first` on. Groups that something is lost of, or will be, and of which
/// nothing has been put, are lost as a whole: they go back to what their donors hold.
void LoadedProgram::Run::keep_together(const Layout::Action &action, uint32_t first, uint32_t failure) {
    if (put_.empty()) { // until now all has been put
        put_.resize(program_.results.size());
        for (const Layout::Action *a = layout_.actions.data(); a != &action; ++a)
            for (uint32_t segment = 0; segment < segments_of(program_.steps[a->step]); ++segment)
                note_put(*a, segment);
        find_groups();
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

/// (A guarded result has one writer, which is put as a whole or not at all.)
void LoadedProgram::Run::note_overwritten(RunReport &report) const {
    report.refused = !put_.empty();
    for (uint32_t r = 0; r < put_.size(); ++r)
        if (put_[r] && !(blame_->is_lost(r) && program_.buffers[program_.results[r]].guarded))
            report.overwritten.push_back(r);
}

} // namespace lz::runtime
