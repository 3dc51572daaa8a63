#include "runtime/api/parallel.h"

#include "ir/diagnostic.h"
#include "ir/host/per_thread.h"
#include "runtime/cpu/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <pthread.h>

namespace lz::runtime {

namespace {

/// Ranges a thread's share is cut into, so that one that falls behind can be helped.
constexpr int64_t kPiecesPerThread = 8;
constexpr int kMaxThreads = 1024;

// --- fork: a child has none of the pool's threads

enum class Use : int { None, Used, Forked };
std::atomic<Use> g_use{Use::None};

void note_first_use() {
    static std::once_flag once;
    std::call_once(once, [] {
        pthread_atfork(nullptr, nullptr, [] {
            if (g_use.load(std::memory_order_relaxed) == Use::Used)
                g_use.store(Use::Forked, std::memory_order_relaxed);
        });
    });
    Use none = Use::None;
    g_use.compare_exchange_strong(none, Use::Used);
}

} // namespace

void check_not_forked() {
    Use use = g_use.load(std::memory_order_relaxed);
    if (use == Use::Used) [[likely]]
        return;
    if (use == Use::Forked)
        throw ir::Failure(
            ir::ErrorKind::State,
            "This process was forked from one that had already computed something, and has none of its "
            "worker threads; fork before the first computation, or start the child with exec.");
    note_first_use();
}

void parallel_for(int64_t n, int64_t grain, RangeFn fn, int64_t nanoseconds) {
    if (n <= 0)
        return;
    check_not_forked();
    int64_t ranges = n / std::max<int64_t>(grain, 1);
    int64_t threads = ranges < 2 ? 1 : std::min(static_cast<int64_t>(pool_threads()), ranges);
    if (threads == 1) {
        fn(0, n);
        return;
    }
    run_on_pool({n, std::min(ranges, threads * kPiecesPerThread), nanoseconds, fn},
                static_cast<size_t>(threads));
}

namespace {

struct Scratch {
    void *memory = nullptr;
    size_t bytes = 0;
    ~Scratch() { std::free(memory); }
};

} // namespace

void *thread_scratch(size_t bytes) {
    Scratch &scratch = ir::per_thread<Scratch>();
    if (bytes > scratch.bytes || !scratch.memory) {
        size_t rounded = (std::max<size_t>(bytes, 4096) + 63) / 64 * 64;
        void *memory = std::aligned_alloc(64, rounded);
        if (!memory)
            throw ir::Failure(
                ir::ErrorKind::OutOfMemory,
                fmt::format("cpu: the system has no {} bytes for a worker's scratch.", rounded));
        std::free(scratch.memory);
        scratch.memory = memory;
        scratch.bytes = rounded;
    }
    return scratch.memory;
}

int num_threads() {
    return static_cast<int>(pool_threads());
}

void set_num_threads(int n) {
    if (n <= 0 || n > kMaxThreads)
        throw ir::Failure(
            ir::ErrorKind::State,
            fmt::format("The number of threads is between 1 and {}; {} was asked for.", kMaxThreads, n));
    select_pool(static_cast<size_t>(n));
}

} // namespace lz::runtime
