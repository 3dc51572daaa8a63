#pragma once
/// insert_syncs: the events that order steps on different streams.
///
/// Property: every dependence between two steps holds by the order of streams and by events alone, and no
/// event could be left out (a transitive reduction over vector clocks): a step waits for another only if
/// nothing that its stream did or waited for before implies it, and all that wait for one step wait for one
/// event. The host never waits. What the user's own events order is not known here, so nothing relies on it.
///
/// The user's wait_stream becomes such waits too. An effect on the default stream is about all unnamed work
/// of the device, also of earlier and later runs, and so about every stream that such work may be on:
///  - what waits for the default stream, and a record or a callback on it, comes after all of them;
///  - all of them go on after a wait or a callback on it (Hold);
///  - an unnamed copy between two GPUs is work of both: on the one that does not make it a stream where
///    nothing else is waits for it (Hold), if no unnamed work does.
/// A copy between two GPUs that the user put on a stream of the one that cannot make it comes after all of
/// that stream, which goes on after it.
///
/// Without it steps would read what is not written yet, or write over what is still read. It stands after
/// `plan_memory`, whose reuses of bytes are dependences like any other.

#include "ir/program/program.h"

namespace lz::passes {

/// Takes a Program at Stage::Planned and leaves one at Stage::Ordered. Linear in the number of dependences
/// times the number of streams.
void insert_syncs(ir::Program &program);

} // namespace lz::passes
