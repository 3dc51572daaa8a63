#pragma once
/// Runs on streams in which something may still fail (S26): an index out of range on a GPU, or an input that
/// comes of another such run. Their results are ready, and `in_flight`, until somebody has looked how it
/// ended.

#include "frontend/engine/engine.h"
#include "frontend/record/execution/failures.h"
#include "frontend/record/recording/recording.h"

#include <memory>

namespace lz::detail {

/// A run that is watched. Nobody looks at it before it is handed over.
struct Watched;
struct WatchedDeleter {
    void operator()(Watched *watched) const;
};
using WatchedPtr = std::unique_ptr<Watched, WatchedDeleter>;
/// Called between the run and the moment when its results become ready: from here on they are in flight.
/// `overwritten`: inputs that are lost by the run itself, after it has read them.
WatchedPtr watch_flight(const Recording &recording, std::unique_ptr<ir::Flight> flight,
                        std::span<const uint32_t> overwritten);
/// How many uses of a node are those of runs that were handed over, which read it.
uint32_t uses_by_flights(const Node *node);
/// Called when they are ready.
void hand_over(WatchedPtr watched) noexcept;

enum class Until {
    Done,   ///< those that are over already, in the order of their launches
    Node,   ///< until the node is not in flight any more
    Landed, ///< all; waits
};
/// Looks how runs ended: results that failed become Failed, and what depends on them. A failure is thrown by
/// a sync of the thread that launched the run, whoever settled it.
void settle_flights(Until until, const Node *node, PendingErrors &thrown);
/// A failure for the next sync of the thread of `owner`, which has the record's reference from here on.
void tell_later(const Recorder *owner, FailureRecord *record) noexcept;
/// The thread of this recorder ends: nobody is left to be told what failed.
void forget_failures(const Recorder *recorder);

} // namespace lz::detail
