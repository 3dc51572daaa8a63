#pragma once
/// One run of a LoadedProgram: walks its actions, and keeps account of what failed.

#include "runtime/executor/blame.h"
#include "runtime/executor/program/state.h"

#include <exception>
#include <optional>
#include <utility>

namespace lz::runtime {

class LoadedProgram::Run {
public:
    /// `on_streams`: every action is put on its stream; else all are run here, on the CPU.
    Run(const LoadedProgram &loaded, State &state, const Bindings &bindings, bool on_streams);

    /// Whether somebody watches what each action takes.
    static bool is_shown();

    /// Where the run stopped, for somebody to go on later.
    struct Stop {
        size_t action;
        uint32_t put_segments; ///< of the action
        ir::Failure why;
        std::vector<uint32_t> groups; ///< by result (ir::FailureGroups)
        bool gave_up;                 ///< as Run::gave_up, of this run or of one before
        // Of what had failed before, if something had.
        std::optional<Blame> blame;
        std::vector<bool> put;
        std::vector<std::optional<uint32_t>> unordered;
    };

    /// Runs or issues everything; then, on streams, notes the ends of the tracks in the state and in the uses
    /// of memory. Also when it throws (std::bad_alloc): what has been issued by then is noted before memory
    /// can be given back.
    RunReport all() { return from(0, 0); }
    /// As `all`, from the launch on that was refused where no State was.
    RunReport go_on(const Refused &refused) {
        refused_ = &refused;
        return from(refused.action, 0);
    }
    /// Before `go_on`: what the run that stopped there knew. Where the host has no memory for that, the stop
    /// is as it was.
    void take_over(Stop &stop);
    /// As `all`, from where another run of the state stopped.
    RunReport go_on(const Stop &stop) { return from(stop.action, stop.put_segments); }
    /// Whether it went on, and a call was refused by which it did not stop again.
    bool gave_up() const { return gave_up_; }
    /// After `all` or `go_on`, if it stopped: everything that was put is over, and nothing is lost.
    std::optional<Stop> &stop() { return stop_; }
    /// After `all`: what is lost of it, for the flight; nothing if nothing failed.
    std::optional<Blame> take_blame() { return std::move(blame_); }

private:
    RunReport from(size_t next, uint32_t put);
    void bind();
    void start();
    RunReport issue(size_t next, uint32_t put);
    void end() noexcept;
    void note_uses(uint32_t track, bool write);
    void wait_for_track(uint32_t track) noexcept;
    void wait_for_others(const Layout::Action &action);
    void wait_for(const Layout::Action &action, Backend &backend, ir::StreamRef stream, uint64_t tick);
    void order_after(const Layout::Action &action, Backend &other, StreamId of, uint64_t tick);
    ir::MemoryUse *use_of(uint32_t memory) const;

    void replay(size_t &done);
    void note_key();
    void fill_replay();
    bool is_retryable(const ir::Failure &failure) const;
    bool drain(const Layout::Action &action) noexcept;
    template <class F>
    void with_retry(const Layout::Action &action, F &&call);
    void launch(const Layout::Action &action, const Backend::Launch &whole) {
        try {
            action.backend->launch(whole, stream_of(action));
        } catch (const ir::Failure &failure) {
            launch_rest(action, whole, failure);
        }
    }
    [[gnu::cold]] void launch_refused(const Layout::Action &action);
    [[gnu::cold]] void launch_rest(const Layout::Action &action, const Backend::Launch &whole,
                                   const ir::Failure &failure);
    [[gnu::cold]] void launch_from(const Layout::Action &action, const Backend::Launch &whole, uint32_t put);
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
    void perform_unharmed(const Layout::Action &action, uint32_t first = 0);
    void lose_by(const Layout::Action &action, uint32_t failure, uint32_t first = 0);
    // failure_groups.cpp
    void find_groups();
    bool changed_before(const Layout::Action &action, uint32_t put) const;
    bool loses_results(const Layout::Action &action, uint32_t put) const;
    bool shows_user(const Layout::Action &action) const;
    bool stops(size_t next, const ir::Failure &failure);
    void perform_rest(const Layout::Action &action, uint32_t first);
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
    bool bound_ = false;                        ///< the state holds what the bindings say
    bool waited_ = false;                       ///< for all that others do: nothing waits again
    uint64_t first_arrow_ = 0;                  ///< number of event 0's arrow
    std::vector<std::vector<uint64_t>> arrows_; ///< by track: into its next action
    std::optional<Blame> blame_;
    std::optional<Stop> stop_;
    const Refused *refused_ = nullptr; ///< until that launch has been made again, or told as failed
    bool goes_on_ = false;             ///< it stopped before
    bool gave_up_ = false;
    bool once_ = false;         ///< what was refused may have been done in part: it is not to be called again
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
