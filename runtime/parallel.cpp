#include "runtime/api/parallel.h"

#include "ir/diagnostic.h"
#include "runtime/cgroup.h"

#include <fmt/format.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <span>
#include <thread>
#include <vector>

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

// --- the pool

int default_threads() {
    int cpus = static_cast<int>(std::thread::hardware_concurrency());
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof(mask), &mask) == 0)
        cpus = CPU_COUNT(&mask);
    return std::clamp(std::min(cpus, cgroup_cpus().value_or(cpus)), 1, kMaxThreads);
}

/// One arena a number of threads that was ever asked for; never destroyed, because other threads may be
/// inside and static objects of the user's may still compute after main (S68).
struct Pool {
    explicit Pool(int n) : threads(n), arena(n, 1) {}
    const int threads;
    tbb::task_arena arena;
};

class Pools {
public:
    static Pools &get() {
        static Pools *pools = new Pools;
        return *pools;
    }

    Pool &current() { return *current_.load(std::memory_order_acquire); }

    void select(int threads) {
        std::lock_guard lock(mutex_);
        auto same = [&](const auto &pool) { return pool->threads == threads; };
        auto found = std::find_if(pools_.begin(), pools_.end(), same);
        if (found == pools_.end())
            found = pools_.insert(pools_.end(), std::make_unique<Pool>(threads));
        // oneTBB makes no more workers than the hardware has threads unless told to.
        if (static_cast<unsigned>(threads) > std::thread::hardware_concurrency())
            more_ = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                          static_cast<size_t>(threads));
        else
            more_.reset();
        current_.store(found->get(), std::memory_order_release);
    }

private:
    Pools() { select(default_threads()); }

    std::mutex mutex_;
    std::vector<std::unique_ptr<Pool>> pools_;
    std::unique_ptr<tbb::global_control> more_;
    std::atomic<Pool *> current_{nullptr};
};

// --- one loop

/// The pieces [next, end) of a thread's share, on a cache line of their own.
struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
};

/// Each thread takes the pieces of its own contiguous share first (neighbouring memory stays in its cache),
/// then helps the others. The atomics also order the caller's writes before the pieces and the pieces before
/// the return, in terms that ThreadSanitizer sees although oneTBB's own are hidden from it.
class Loop {
public:
    Loop(int64_t n, int64_t pieces, std::span<Share> shares, const RangeFn &fn)
        : quotient_(n / pieces), remainder_(n % pieces), shares_(shares), fn_(fn) {
        auto threads = static_cast<int64_t>(shares.size());
        for (int64_t s = 0; s < threads; ++s) {
            shares[static_cast<size_t>(s)].end = pieces * (s + 1) / threads;
            shares[static_cast<size_t>(s)].next.store(pieces * s / threads, std::memory_order_release);
        }
    }

    void work(size_t self) {
        for (size_t k = 0; k < shares_.size(); ++k) {
            Share &share = shares_[self + k < shares_.size() ? self + k : self + k - shares_.size()];
            for (int64_t piece; (piece = share.next.fetch_add(1, std::memory_order_acq_rel)) < share.end;)
                fn_(begin(piece), begin(piece + 1));
        }
        done_.fetch_add(1, std::memory_order_release);
    }
    void join() const { (void)done_.load(std::memory_order_acquire); }

private:
    int64_t begin(int64_t piece) const { return piece * quotient_ + std::min(piece, remainder_); }

    int64_t quotient_, remainder_;
    std::span<Share> shares_;
    const RangeFn &fn_;
    std::atomic<int64_t> done_{0};
};

void run_on_pool(Pool &pool, int64_t n, int64_t threads, int64_t pieces, const RangeFn &fn) {
    Share few[16];
    std::vector<Share> many(threads > 16 ? static_cast<size_t>(threads) : 0);
    std::span<Share> shares = many.empty() ? std::span(few, static_cast<size_t>(threads)) : std::span(many);
    Loop loop(n, pieces, shares, fn);
    // Isolated: while this thread waits it takes pieces of this loop only, never another kernel's, which
    // would use the same thread scratch, nor work that needs a lock held by our caller.
    pool.arena.execute([&] {
        tbb::this_task_arena::isolate([&] {
            tbb::parallel_for(
                size_t{0}, shares.size(), [&loop](size_t slot) { loop.work(slot); },
                tbb::static_partitioner{});
        });
    });
    loop.join();
}

} // namespace

void check_not_forked() {
    Use use = g_use.load(std::memory_order_relaxed);
    if (use == Use::Used) [[likely]]
        return;
    if (use == Use::Forked)
        throw ir::Failure(ir::ErrorKind::State,
                          "This process was forked from one that had already computed something, and its "
                          "worker threads do not "
                          "exist here; fork before the first computation, or start the child with exec.");
    note_first_use();
}

void parallel_for(int64_t n, int64_t grain, RangeFn fn) {
    if (n <= 0)
        return;
    check_not_forked();
    grain = std::max<int64_t>(grain, 1);
    if (n < 2 * grain) {
        fn(0, n);
        return;
    }
    Pool &pool = Pools::get().current();
    int64_t ranges = n / grain;
    int64_t threads = std::min<int64_t>(pool.threads, ranges);
    if (threads == 1)
        fn(0, n);
    else
        run_on_pool(pool, n, threads, std::min(ranges, threads * kPiecesPerThread), fn);
}

void *thread_scratch(size_t bytes) {
    struct Scratch {
        void *memory = nullptr;
        size_t bytes = 0;
        ~Scratch() { std::free(memory); }
    };
    thread_local Scratch scratch;
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
    return Pools::get().current().threads;
}

void set_num_threads(int n) {
    if (n <= 0 || n > kMaxThreads)
        throw ir::Failure(
            ir::ErrorKind::State,
            fmt::format("The number of threads is between 1 and {}; {} was asked for.", kMaxThreads, n));
    Pools::get().select(n);
}

} // namespace lz::runtime
