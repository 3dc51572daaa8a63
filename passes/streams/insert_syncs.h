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
/// A copy that the user put on a stream of the GPU that cannot make it (PeerCopy::user) comes after all of
/// that stream, which goes on after it.
///
/// Without it steps would read what is not written yet, or write over what is still read. It stands after
/// `plan_memory`, whose reuses of bytes are dependences like any other.

#include "ir/stream.h"
#include "passes/streams/assign_streams.h"
#include "passes/streams/dependences.h"

#include <span>
#include <vector>

namespace lz::passes {

struct Syncs {
    struct Wait {
        uint32_t before_step, event;
        bool memory; ///< only for bytes that are used again
    };
    /// An event on a stream that nothing in the Program has used so far.
    struct Record {
        uint32_t before_step;
        ir::StreamRef stream;
        uint32_t event;
    };
    /// A stream that goes on after a step of another one.
    struct Hold {
        uint32_t after_step;
        ir::StreamRef stream;
        uint32_t event; ///< event_after of the step
    };
    std::vector<uint32_t> event_after; ///< by step: recorded right behind it on its stream, or kNone
    std::vector<Wait> waits;           ///< in the order of the steps, on their streams
    std::vector<Record> records;       ///< in the order of the steps
    std::vector<Hold> holds;           ///< in the order of the steps, behind the records of their events
    uint32_t num_events = 0;
};

/// Whether the step is the user's wait_stream, of which only its syncs are left.
bool is_wait_stream(const LoweredStep &step);

/// `dependences` are those by buffers of the plan. Linear in their number times the number of streams.
Syncs insert_syncs(std::span<const LoweredStep> steps, const Schedule &schedule,
                   const Dependences &dependences);

} // namespace lz::passes
