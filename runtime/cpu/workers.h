#pragma once
/// Where oneTBB is: its threads are those of the pool (pool.h). Everything that includes its headers is in
/// workers.cpp, which ThreadSanitizer builds leave uninstrumented (the library itself is, so half of its
/// synchronisation would be seen): what passes between threads passes through the pool's atomics.

#include <cstddef>

namespace lz::runtime {

/// Threads that come when they are sent for. Never destroyed, because others may be inside and static objects
/// of the user's may still compute after main (S68).
class Workers {
public:
    /// At most `count` at a time, of all that the process has.
    explicit Workers(size_t count);
    Workers(const Workers &) = delete;
    Workers &operator=(const Workers &) = delete;
    ~Workers() = delete;

    /// work(context) on one of them, soon. Throws what oneTBB does when there is no memory.
    void send(void (*work)(void *context), void *context);

private:
    struct Arena;
    Arena *arena_;
};

/// Lets the process have so many threads that compute, where it has fewer processors. Not for two threads at
/// once.
void allow_threads(size_t threads);

} // namespace lz::runtime
