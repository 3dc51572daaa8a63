#pragma once
/// Threads of the process: one pool for kernels, library calls and compilation.

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lz::runtime {

/// A borrowed callable `void(begin, end)`.
class RangeFn {
public:
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, RangeFn>)
    RangeFn(F &&f) // NOLINT: a parameter type, meant to convert
        : object_(const_cast<void *>(static_cast<const void *>(&f))),
          call_(
              [](void *o, int64_t b, int64_t e) { (*static_cast<std::remove_reference_t<F> *>(o))(b, e); }) {}
    void operator()(int64_t begin, int64_t end) const { call_(object_, begin, end); }

private:
    void *object_;
    void (*call_)(void *, int64_t, int64_t);
};

/// Runs fn over [0, n) in ranges of at least `grain`, on the pool and the calling thread; returns when all is
/// done. The first exception is thrown again here. Nested calls are fine. Throws Failure(State) in a child
/// forked after the parent has run something (S65). `nanoseconds`: about how long one thread would take for
/// all of it. A short loop uses threads that are awake, and is not worth waking others.
void parallel_for(int64_t n, int64_t grain, RangeFn fn, int64_t nanoseconds = INT64_MAX);

/// Scratch of the calling thread, 64-byte aligned, at least `bytes`, kept until the thread ends. Not
/// reentrant: one kernel at a time on a thread uses it.
void *thread_scratch(size_t bytes);

/// Throws Failure(State) in a child process that was forked after its parent used the pool or ran a Program;
/// else notes that this process has. A few instructions.
void check_not_forked();

/// What set_num_threads said (the engine passes LAZULI_THREADS), else the container's CPU quota rounded up,
/// else the CPUs this process may run on.
int num_threads();
/// Throws Failure(State) unless n > 0.
void set_num_threads(int n);

} // namespace lz::runtime
