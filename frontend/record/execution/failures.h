#pragma once
/// What is told of a run that failed, and to what the handles of its results go back (S26).

#include "frontend/record/failure_record.h"
#include "frontend/record/recording/recording.h"

#include <unordered_map>
#include <vector>

namespace lz::detail {

/// The failures of a sync, of which the first is thrown when everything else is in order.
class PendingErrors {
public:
    PendingErrors() = default;
    PendingErrors(const PendingErrors &) = delete;
    PendingErrors &operator=(const PendingErrors &) = delete;
    /// What was not raised is known to nobody but who reads what failed.
    ~PendingErrors();
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
class FailedNodes {
public:
    bool unknown = false; ///< something failed, and nobody knows what
    /// An operation that failed, or a result that could not be computed because of one. Before the first
    /// `depends_on_failed`.
    void add(const Node *node) noexcept;
    bool none() const { return lost_.empty() && !unknown; }
    /// Whether what failed goes into a version of the recording that was not stored.
    bool depends_on_failed(Node *version) noexcept;

private:
    bool find_failed(Node *version);
    std::unordered_map<const Node *, bool> lost_; ///< by node, of those that were looked at
};
/// Makes a failed version's fallback the newest one that did not fail, or none (S26): one that has a value,
/// or one of the same recording that nobody had asked for and that nothing of what failed goes into. That one
/// is pending again.
void keep_newest_fallback(Node *failed, FailedNodes &failed_nodes) noexcept;

} // namespace lz::detail
