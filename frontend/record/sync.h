#pragma once
/// Between recording and the engine: claiming pending nodes, linearising them, and what happens with the
/// results. The public half of it (sync_all, eval_nodes, materialize) is in record.h.

#include "frontend/record/recorder.h"
#include "lazuli/location.h"

namespace lz::detail {

/// S22: launches the oldest part of a pending list that grew too long. The cut falls before the newest
/// operation at the line where the list began, so that a loop is cut between two rounds and finds its Program
/// again.
void launch_prefix(Recorder &recorder, Location loc);

} // namespace lz::detail
