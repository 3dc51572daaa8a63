#pragma once
/// verify_schedule: proof that a finished Program orders every pair of conflicting accesses (S46).
///
/// Property: for any two steps that touch a common byte of memory (two buffers may share bytes), one of them
/// writing, one happens before the other, by streams and the Program's own events alone; and whoever reads a
/// buffer reads what was last written *for that buffer*, to the byte: an arena's bytes may be reused only
/// once their old value is no longer wanted. That counts arenas of devices and of pinned memory, donated
/// inputs and inputs that share memory, blocks of results, and copies by the bytes that they move. What the
/// user's events order is not known, so it proves nothing.
///
/// Each step is on a stream that its device has: of the user's one that the recording names, on the device
/// that it belongs to.
///
/// How a run meets earlier ones (the first use of an input, a result or an arena on each stream) is the
/// executor's, and not looked at here.
///
/// Without it a missing wait or a wrong reuse would be a result that is sometimes wrong. It stands at the
/// very end, reads nothing but the Program, and works the bytes out anew from the kernels' accesses: it
/// shares no code with the passes that it checks (plan_memory, insert_syncs, build_program).

#include "ir/program/program.h"

#include <span>

namespace lz::passes {

/// Throws Failure(Internal) with the two steps, the buffer and the bytes at the first pair that is not
/// ordered, or the first read of bytes that hold another value; with the stream at the first step whose
/// stream is not there. `lines` are the user's, by recorded index: when they are given the message has those
/// of both steps. Near linear in the number of accesses.
void verify_schedule(const ir::Program &program, std::span<const ir::Location> lines = {});

} // namespace lz::passes
