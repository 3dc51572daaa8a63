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
#include <span>
#include <vector>

namespace lz::runtime {

namespace {

/// Ranges a thread's share is cut into, so that one that falls behind can be helped.
constexpr int64_t kPiecesPerThread = 8;
constexpr int kMaxThreads = 1024;
/// Nanoseconds on one thread from which on a loop wakes sleeping threads. One of 38 us (a product of 128)
/// took 52 with that on a Zen 4 machine.
constexpr int64_t kWorthWaking = 80'000;

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

// --- one loop

/// The pieces [next, end) of a thread's share, on a cache line of their own.
struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
};

/// Each thread takes the pieces of its own contiguous share first (neighbouring memory stays in its cache),
/// then helps the others. `order_` puts what the caller wrote before the pieces, and the pieces before its
/// return: oneTBB does too, but ThreadSanitizer does not see it.
class Loop {
public:
    Loop(int64_t n, int64_t pieces, std::span<Share> shares, const RangeFn &fn)
        : quotient_(n / pieces), remainder_(n % pieces), shares_(shares), fn_(fn) {
        auto threads = static_cast<int64_t>(shares.size());
        for (int64_t s = 0; s < threads; ++s) {
            shares[static_cast<size_t>(s)].end = pieces * (s + 1) / threads;
            shares[static_cast<size_t>(s)].next.store(pieces * s / threads, std::memory_order_relaxed);
        }
        order_.store(0, std::memory_order_release);
    }

    void work(size_t self) {
        (void)order_.load(std::memory_order_acquire);
        for (size_t k = 0; k < shares_.size(); ++k) {
            Share &share = shares_[self + k < shares_.size() ? self + k : self + k - shares_.size()];
            for (int64_t piece; (piece = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;)
                fn_(begin(piece), begin(piece + 1));
        }
        order_.fetch_add(1, std::memory_order_release);
    }
    void join() const { (void)order_.load(std::memory_order_acquire); }

private:
    int64_t begin(int64_t piece) const { return piece * quotient_ + std::min(piece, remainder_); }

    int64_t quotient_, remainder_;
    std::span<Share> shares_;
    const RangeFn &fn_;
    std::atomic<int64_t> order_{0};
};

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
    Share few[16];
    std::vector<Share> many(threads > 16 ? static_cast<size_t>(threads) : 0);
    std::span<Share> shares = many.empty() ? std::span(few, static_cast<size_t>(threads)) : std::span(many);
    Loop loop(n, std::min(ranges, threads * kPiecesPerThread), shares, fn);
    run_on_pool(
        shares.size(), nanoseconds >= kWorthWaking,
        [](void *context, size_t slot) { static_cast<Loop *>(context)->work(slot); }, &loop);
    loop.join();
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
