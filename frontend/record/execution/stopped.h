#pragma once
/// Runs that stopped halfway (ir::StoppedRun): a device refused a call for good after tensors had been
/// changed in place. Each sync tries to go on with them. Until that succeeds their results are Stopped:
/// whoever reads one, a tensor that has its new value already too, is told of the failure, so that nobody
/// sees some tensors as before a training step and others as after it (S26). Then all of them have their new
/// values.

#include "frontend/engine/engine.h"
#include "frontend/record/execution/failures.h"
#include "frontend/record/recording/recording.h"

#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace lz::detail {

/// What follows the message of the failure.
inline constexpr const char *kGoesOnLater =
    " (Tensors had been changed in place before that. What this sync was to compute is kept, goes on with "
    "the "
    "call that was refused at the next sync, and cannot be read until all of it is done.)";

/// A run that stopped, with all that it needs.
struct StoppedRecording {
    std::unique_ptr<ir::StoppedRun> run;
    const Recorder *owner = nullptr;     ///< whose thread launched it; null: that has ended
    FailureRecord *record = nullptr;     ///< a reference
    std::vector<Node *> inputs, results; ///< a use of each; a result that nobody wants is null
    std::vector<Storage *> storages;     ///< a reference of each result's, and of copies of inputs
    std::vector<ir::StreamRef> streams;  ///< of the user's, held
    std::vector<Location> lines;         ///< by recorded index
    std::vector<ir::Op> ops;

    StoppedRecording() = default;
    StoppedRecording(const StoppedRecording &) = delete;
    StoppedRecording &operator=(const StoppedRecording &) = delete;
    ~StoppedRecording();
};
using StoppedPtr = std::unique_ptr<StoppedRecording>;

/// Before the results are Stopped: with its inputs, and the memory of its results, `storages`. The rest is
/// for the caller to fill in.
StoppedPtr keep_stopped(std::unique_ptr<ir::StoppedRun> run, FailureRecord *record,
                        std::span<Node *const> inputs, std::span<Storage *const> storages);
/// Makes the node, whose storage is there, result `result` of it.
void stop_result(StoppedRecording &stopped, size_t result, Node *node);
/// When all are stopped.
void hand_over(StoppedPtr stopped);

inline std::atomic<bool> any_stopped{false};
void try_to_go_on(PendingErrors &thrown, Location loc);
/// Goes on with all that stopped, as far as devices let it: results become Ready, or Failed where going on is
/// no use any more (a device is lost). Failures of that are for the threads that launched it. `loc` is the
/// line of a StateError in a forked child, in which nothing goes on (S65).
inline void go_on_with_stopped(PendingErrors &thrown, Location loc) {
    if (any_stopped.load(std::memory_order_acquire)) [[unlikely]]
        try_to_go_on(thrown, loc);
}
/// Notes the failures of this thread's runs that are still stopped.
void note_stopped(PendingErrors &thrown);
/// Throws the failure of a stopped run that has this value as an input: nobody may write to it.
void check_not_needed(const Storage *storage, Location loc);
/// The thread of this recorder ends.
void forget_stopped(const Recorder *recorder);

} // namespace lz::detail
