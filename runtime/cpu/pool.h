#pragma once
/// The threads behind parallel_for: oneTBB's (workers.h), which it makes, wakes and lets sleep. One that has
/// helped with a loop waits awake for the next one for a while, and is given it directly.

#include "runtime/api/parallel.h"

#include <cstddef>
#include <cstdint>

namespace lz::runtime {

/// Threads that loops share, the caller's included.
size_t pool_threads();
/// Makes it that many, from the next loop on.
void select_pool(size_t threads);

/// A loop over [0, n) in so many pieces, 1 to n, of even length, which would take one thread so long.
struct PoolLoop {
    int64_t n, pieces, nanoseconds;
    const RangeFn &fn;
};
/// Runs the pieces of a loop here and on threads of the pool: `threads` of them with this one, or as many as
/// are free and come before the loop is done. Returns when all pieces are done, and throws again the first
/// exception; then some may be left out. A long loop wakes threads that sleep, which costs some 10
/// microseconds, and so does one that begins soon after the end of another that had too few of them; for the
/// rest those come that are awake from an earlier loop. oneTBB is started, which takes most of a millisecond,
/// when there was that much to do for it.
void run_on_pool(const PoolLoop &loop, size_t threads);

} // namespace lz::runtime
