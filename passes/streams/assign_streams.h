#pragma once
/// assign_streams: a stream of a device for each step.
///
/// Property: each step has a device and a stream, and estimates of when it runs; on one stream they never go
/// back. The order of the steps stays that of the recording, in which memory lives shortest and failures are
/// told.
///  - What the user put on a stream is there, in order (S41); a transfer's stream is one of the GPU that it
///    copies to, or, to the host, of the one that it copies from. Where only the source of a copy between
///    GPUs may address the other, it makes the copy, and insert_syncs puts it in the order of the user's
///    stream.
///  - Other transfers are on the copy streams of ir/stream.h: from the host on the target's, to the host and
///    to another GPU on the source's (the target's, where only that may address the other).
///  - Work of the CPU is on its one stream, and effects of the user's that name no stream on the default one.
///  - What is left, unnamed work on GPUs, is spread over up to kComputeStreams streams where it can overlap:
///    list scheduling by the Target's estimates, longest path to the end first (Graham's rule; Kwok and
///    Ahmad, "Static Scheduling Algorithms for Allocating Directed Task Graphs to Multiprocessors",
///    section 4.2). It stays on the default stream where that gains less than kWorthwhile says: small
///    programs, chains, and kernels each of which fills the device do, because kernels that run at the same
///    time share it (estimates.h). What is gained is what small kernels leave free of it, and the time in
///    which work stands behind other work that waits for a copy.
///
/// Without it independent work would run one after the other, and copies would hold up the work around them.
/// It needs to know the steps (`lower_clusters`), and stands before `plan_memory` because what may share
/// bytes depends on what may run at the same time.

#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/streams/dependences.h"

#include <cstdint>

namespace lz::passes {

/// Several compute streams are used when they save this part of the time that the work with open streams
/// takes, and this many launches.
struct Worthwhile {
    double part = 0.05;
    double launches = 10;
};
inline constexpr Worthwhile kWorthwhile;

/// Whether unnamed work may be on several streams of a GPU.
enum class Overlap : uint8_t { No, Yes };

/// Takes a Program at Stage::Lowered, or one at Stage::Streamed to give it other streams. `dependences` are
/// its own (find_dependences).
void assign_streams(ir::Program &program, const Dependences &dependences, const ir::Target &target,
                    Overlap overlap = Overlap::Yes);

} // namespace lz::passes
