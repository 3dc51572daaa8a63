#pragma once
/// Runs on streams in which something may still fail (S26): an index out of range on a GPU, or an input that
/// comes of another such run. Their results are ready, and `in_flight`, until somebody has looked how it
/// ended.

#include "engine/engine.h"
#include "lazuli/detail/failure_record.h"
#include "lazuli/detail/linearise.h"

#include <memory>

namespace lz::detail {

/// The first failure of a sync, to be thrown when everything else is in order.
class Thrown {
public:
    ~Thrown();
    void note(FailureRecord *record);
    /// Throws the public error, if there is one.
    void raise();

private:
    FailureRecord *record_ = nullptr;
};

/// The user's line of what failed in a recording.
Location location_of(const Recording &recording, const ir::Failure &failure, Location fallback);
/// What failed while the operation ran, or when its result was to get memory, with the name of what the user
/// called in front.
ir::Failure of_operation(const ir::Failure &failure, ir::Op op, Location loc);
/// The same where the failure says which operation of the recording it was.
ir::Failure of_operation(const ir::Failure &failure, const Recording &recording);
/// Gives the node this failure unless it has one.
void fail(Node *node, FailureRecord *record);
/// Makes a failed version's fallback the newest one that has a value, or none.
void keep_newest_fallback(Node *failed);
/// Effects are the last rows of the op table.
inline bool is_effect(const Node *node) {
    return node->op >= ir::Op::RecordEvent;
}

/// Watches over a run: called between the run and the moment when its results become ready.
void watch_flight(const Recording &recording, std::unique_ptr<engine::Flight> flight);

enum class Until {
    Done,   ///< those that are over already, in the order of their launches
    Node,   ///< until the node is not in flight any more
    Landed, ///< all; waits
};
/// Looks how runs ended: results that failed become Failed, and what depends on them.
void settle_flights(Until until, const Node *node, Thrown &thrown);

} // namespace lz::detail
