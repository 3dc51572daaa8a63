#pragma once
/// Where oneTBB is: the threads behind parallel_for. Everything that includes its headers is in pool.cpp,
/// which ThreadSanitizer builds leave uninstrumented (the library itself is, so half of its synchronisation
/// would be seen); the atomics of parallel.cpp order what callers and workers share.

#include <cstddef>

namespace lz::runtime {

/// Threads that loops share, the caller's included.
size_t pool_threads();
/// Makes it that many, from the next loop on.
void select_pool(size_t threads);
/// Calls work(context, slot) for each slot below `slots`, on the pool and the calling thread; returns when
/// all have returned, and throws again the first exception.
void run_on_pool(size_t slots, void (*work)(void *context, size_t slot), void *context);

} // namespace lz::runtime
