#pragma once
/// A claimed recording on its way through the engine: found or compiled, bound, launched, and its nodes
/// settled.

#include "frontend/record/execution/flights.h"
#include "frontend/record/recording/recording.h"
#include "ir/stream.h"
#include "lazuli/core/location.h"

#include <vector>

namespace lz::detail {

/// Before its first launch whatever is thrown leaves every claimed node pending; from then on each ends Ready
/// or Failed. False: there is no memory for it, and nothing has changed. `last`: that is a failure, too.
bool execute(Recording &recording, Location loc, PendingErrors &thrown, bool last);

/// Runs a Program for this thread, whose account of what it has put on streams is kept; it waits where it is
/// too many runs ahead of its devices. Sets `bindings.ends`.
ir::Launched run_on_account(const engine::Executable &executable, ir::Bindings &bindings, bool watch);

/// Where the thread's work on streams ends, the latest moment of each stream.
std::vector<ir::Point> &issued_by_thread();

} // namespace lz::detail
