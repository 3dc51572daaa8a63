#pragma once
/// verify_schedule: proof that a finished Program orders every pair of conflicting accesses (S46).
///
/// Property: for any two steps that touch a common byte of memory (two buffers may share bytes), one of them
/// writing, one happens before the other, by streams and events alone; and whoever reads a buffer reads what
/// was last written *for that buffer*, to the byte: an arena's bytes may be reused only once their old value
/// is no longer wanted.
///
/// Without it a missing wait or a wrong reuse would be a result that is sometimes wrong. It stands at the
/// very end, reads nothing but the Program, and works the bytes out anew from the kernels' accesses: it
/// shares no code with the passes that it checks (plan_memory, build_program, and insert_syncs to come).

#include "ir/program.h"

namespace lz::passes {

/// Throws Failure(Internal) with the two steps, the buffer and the bytes at the first pair that is not
/// ordered, or the first read of bytes that hold another value. Near linear in the number of accesses.
void verify_schedule(const ir::Program &program);

} // namespace lz::passes
