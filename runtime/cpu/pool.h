#pragma once
/// Where oneTBB is: its threads are those behind parallel_for. Everything that includes its headers is in
/// pool.cpp, which ThreadSanitizer builds leave uninstrumented (the library itself is, so half of its
/// synchronisation would be seen); the atomics of parallel.cpp order what callers and workers share.

#include <cstddef>

namespace lz::runtime {

/// Threads that loops share, the caller's included.
size_t pool_threads();
/// Makes it that many, from the next loop on.
void select_pool(size_t threads);
/// Calls work(context, 0) here and work(context, slot), with slots from 1 on, on threads of the pool: at most
/// `slots` - 1 of them, as many as are free and come before the call here has returned. Returns when all have
/// returned, and throws again the first exception. `is_long`: worth waking threads that sleep, which costs
/// some 10 microseconds; else those come that are awake from an earlier loop.
void run_on_pool(size_t slots, bool is_long, void (*work)(void *context, size_t slot), void *context);

} // namespace lz::runtime
