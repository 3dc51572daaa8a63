#pragma once
/// One run of a LoadedProgram: walks its actions, and keeps account of what failed.

#include "runtime/executor/blame.h"
#include "runtime/executor/program/state.h"

#include <optional>

namespace lz::runtime {

class LoadedProgram::Run {
public:
    /// `on_streams`: every action is put on its stream; else all are run here, on the CPU.
    Run(const LoadedProgram &loaded, State &state, const Bindings &bindings, bool on_streams);

    /// Runs or issues everything; then, on streams, notes the ends of the tracks in the state and in the uses
    /// of memory. Also when it throws (std::bad_alloc): what has been issued by then is noted before memory
    /// can be given back.
    RunReport all();
    /// After `all`: what is lost of it, for the flight; nothing if nothing failed.
    std::optional<Blame> take_blame() { return std::move(blame_); }

private:
    void start();
    RunReport issue();
    void end() noexcept;
    void note_uses(uint32_t track, bool write);
    void wait_for_track(uint32_t track) noexcept;
    void wait_for_others(const Layout::Action &action);
    void wait_for(const Layout::Action &action, Backend &backend, ir::StreamRef stream, uint64_t tick);
    ir::MemoryUse *use_of(uint32_t memory) const;

    void replay(size_t &done);
    bool is_retryable(const ir::Failure &failure) const;
    void drain(const Layout::Action &action) noexcept;
    template <class F>
    void with_retry(const Layout::Action &action, F &&call);
    void launch(const Layout::Action &action, const Backend::Launch &whole) {
        try {
            action.backend->launch(whole, stream_of(action));
        } catch (const ir::Failure &failure) {
            launch_rest(action, whole, failure);
        }
    }
    [[gnu::cold]] void launch_rest(const Layout::Action &action, const Backend::Launch &whole,
                                   const ir::Failure &failure);
    void call(const Layout::Action &action, OnDone done);
    void perform(const Layout::Action &action, OnDone done = {});
    void perform_shown(const Layout::Action &action);
    void perform_profiled(const Layout::Action &action);
    Backend::Call call_of(const Layout::Action &action);
    Backend::Copy copy_of(const Layout::Action &action) const;
    void record(const Layout::Action &action);
    void wait(const Layout::Action &action);
    void wait_in_order(const Layout::Action &action);
    void check(const Layout::Action &action);
    void settle(const Layout::Action &action);
    void fail(const Layout::Action &action, const ir::Failure &failure);
    void perform_unharmed(const Layout::Action &action);
    void lose_by(const Layout::Action &action, uint32_t failure, uint32_t first = 0);
    // failure_groups.cpp
    void keep_together(const Layout::Action &action, uint32_t first, uint32_t failure);
    void lose_together(uint32_t result, const Layout::Action &action, uint32_t failure);
    void note_put(const Layout::Action &action, uint32_t segment);
    void note_overwritten(RunReport &report) const;
    StreamId stream_of(const Layout::Action &action) const {
        return on_streams_ ? state_.tracks[action.track].stream : ir::kHostStream;
    }
    Blame &blame();

    const LoadedProgram &loaded_;
    const ir::Program &program_;
    const Layout &layout_;
    State &state_;
    const Bindings &bindings_;
    const bool on_streams_;
    const bool profiling_, listened_; ///< by a profile; by a tool's NVTX
    bool may_replay_;
    bool waited_ = false;                       ///< for all that others do: nothing waits again
    uint64_t first_arrow_ = 0;                  ///< number of event 0's arrow
    std::vector<std::vector<uint64_t>> arrows_; ///< by track: into its next action
    std::optional<Blame> blame_;
    uint32_t segments_put_ = 0; ///< of the launch that is being told as failed
    bool ordering_ = false;     ///< what is going on is a wait, not work
    /// By track, once a wait failed: the failure by which the order of what comes on it is not known.
    std::vector<std::optional<uint32_t>> unordered_;
    // By result, once a call failed: its group (Bindings::failure_groups), and whether something was written
    // where its donor is.
    std::vector<uint32_t> groups_;
    std::vector<bool> put_;
};

} // namespace lz::runtime
