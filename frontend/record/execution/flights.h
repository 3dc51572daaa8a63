#pragma once
/// Runs on streams in which something may still fail (S26): an index out of range on a GPU, or an input that
/// comes of another such run. Their results are ready, and `in_flight`, until somebody has looked how it
/// ended.

#include "frontend/engine/engine.h"
#include "frontend/record/failure_record.h"
#include "frontend/record/recording/recording.h"

#include <memory>
#include <unordered_map>

namespace lz::detail {

/// The failures of a sync, of which the first is thrown when everything else is in order.
class Thrown {
public:
    Thrown() = default;
    Thrown(const Thrown &) = delete;
    Thrown &operator=(const Thrown &) = delete;
    /// What was not raised is known to nobody but who reads what failed.
    ~Thrown();
    void note(FailureRecord *record) noexcept;
    /// Throws the public error of the first, if there is one. All are told then.
    void raise();
    /// Leaves them to this thread's next sync.
    void postpone();

private:
    template <class F>
    void for_each(F &&f);
    FailureRecord *first_ = nullptr;
    std::vector<FailureRecord *> more_;
};

/// The user's line of what failed in a recording.
Location location_of(const Recording &recording, const ir::Failure &failure, Location fallback);
/// What failed while the operation ran, or when its result was to get memory, with the name of what the user
/// called in front.
ir::Failure of_operation(const ir::Failure &failure, ir::Op op, Location loc);
/// The same where the failure says which operation of the recording it was.
ir::Failure of_operation(const ir::Failure &failure, const Recording &recording);
inline constexpr const char *kNoMemoryToRun = "the host has no memory left to launch this";
/// For when the host has no memory for another record. Everybody knows it, so that no thread has to be told.
/// A reference. Called once before anything may fail.
FailureRecord *no_memory_record() noexcept;
/// Gives the node this failure unless it has one.
void fail(Node *node, FailureRecord *record);
/// What failed while a recording ran.
class Culprits {
public:
    bool unknown = false; ///< something failed, and nobody knows what
    /// An operation that failed, or a result that could not be computed because of one. Before the first
    /// `harm`.
    void add(const Node *node) noexcept;
    bool none() const { return lost_.empty() && !unknown; }
    /// Whether what failed goes into a version of the recording that was not stored.
    bool harm(Node *version) noexcept;

private:
    bool find_harm(Node *version);
    std::unordered_map<const Node *, bool> lost_; ///< by node, of those that were looked at
};
/// Makes a failed version's fallback the newest one that did not fail, or none (S26): one that has a value,
/// or one of the same recording that nobody had asked for and that nothing of what failed goes into. That one
/// is pending again.
void keep_newest_fallback(Node *failed, Culprits &culprits) noexcept;
/// Effects are the last rows of the op table.
inline bool is_effect(const Node *node) {
    return node->op >= ir::Op::RecordEvent;
}

/// A run that is watched. Nobody looks at it before it is handed over.
struct Watched;
struct WatchedDeleter {
    void operator()(Watched *watched) const;
};
using WatchedPtr = std::unique_ptr<Watched, WatchedDeleter>;
/// Called between the run and the moment when its results become ready: from here on they are in flight.
WatchedPtr watch_flight(const Recording &recording, std::unique_ptr<ir::Flight> flight);
/// Called when they are ready.
void hand_over(WatchedPtr watched) noexcept;

enum class Until {
    Done,   ///< those that are over already, in the order of their launches
    Node,   ///< until the node is not in flight any more
    Landed, ///< all; waits
};
/// Looks how runs ended: results that failed become Failed, and what depends on them. A failure is thrown by
/// a sync of the thread that launched the run, whoever settled it.
void settle_flights(Until until, const Node *node, Thrown &thrown);
/// The thread of this recorder ends: nobody is left to be told what failed.
void forget_failures(const Recorder *recorder);

} // namespace lz::detail
