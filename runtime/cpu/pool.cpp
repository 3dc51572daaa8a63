#include "runtime/cpu/pool.h"

#include "ir/host/float_environment.h"
#include "runtime/before_exit.h"
#include "runtime/cpu/cgroup.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <sched.h>
#include <thread>
#include <vector>

namespace lz::runtime {

namespace {

int default_threads() {
    int cpus = static_cast<int>(std::thread::hardware_concurrency());
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof(mask), &mask) == 0)
        cpus = CPU_COUNT(&mask);
    return std::max(1, std::min(cpus, cgroup_cpus().value_or(cpus)));
}

/// Threads of the pool in use, once there is one: what each launch asks for.
constinit std::atomic<size_t> g_threads{0};

/// One arena a number of threads that was ever asked for; never destroyed, because other threads may be
/// inside and static objects of the user's may still compute after main (S68).
struct Pool {
    /// The arena is made now, and not by a loop that may come when oneTBB's static objects are gone; it keeps
    /// what loops need.
    explicit Pool(size_t n) : threads(n), arena(static_cast<int>(n), 1) { arena.initialize(); }
    const size_t threads;
    tbb::task_arena arena;
};

class Pools {
public:
    static Pools &get() {
        // Not a static with a guard: ThreadSanitizer does not always see what libstdc++'s guards order when
        // two threads meet at the first use.
        static constinit std::atomic<Pools *> made{nullptr};
        static constinit std::mutex making;
        Pools *pools = made.load(std::memory_order_acquire);
        if (!pools) [[unlikely]] {
            const BeforeExit before_exit;
            const std::lock_guard lock(making);
            pools = made.load(std::memory_order_relaxed);
            if (!pools) {
                pools = new Pools;
                made.store(pools, std::memory_order_release);
            }
        }
        return *pools;
    }

    Pool &current() { return *current_.load(std::memory_order_acquire); }

    void select(size_t threads) {
        const BeforeExit before_exit;
        std::lock_guard lock(mutex_);
        auto same = [&](const auto &pool) { return pool->threads == threads; };
        auto found = std::find_if(pools_.begin(), pools_.end(), same);
        if (found == pools_.end())
            found = pools_.insert(pools_.end(), std::make_unique<Pool>(threads));
        // oneTBB makes no more workers than the hardware has threads unless told to.
        if (threads > std::thread::hardware_concurrency())
            more_ =
                std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, threads);
        else
            more_.reset();
        current_.store(found->get(), std::memory_order_release);
        g_threads.store(threads, std::memory_order_relaxed);
    }

private:
    Pools() { select(static_cast<size_t>(default_threads())); }

    std::mutex mutex_;
    std::vector<std::unique_ptr<Pool>> pools_;
    std::unique_ptr<tbb::global_control> more_;
    std::atomic<Pool *> current_{nullptr};
};

} // namespace

size_t pool_threads() {
    const size_t threads = g_threads.load(std::memory_order_relaxed);
    return threads != 0 ? threads : Pools::get().current().threads;
}
void select_pool(size_t threads) {
    Pools::get().select(threads);
}

void run_on_pool(size_t slots, void (*work)(void *context, size_t slot), void *context) {
    const ir::FloatEnvironment environment; // oneTBB leaves the caller without the flags that it came with
    // Isolated: while this thread waits it takes pieces of this loop only, never another kernel's, which
    // would use the same thread scratch, nor work that needs a lock held by our caller.
    Pools::get().current().arena.execute([&] {
        tbb::this_task_arena::isolate([&] {
            tbb::parallel_for(
                size_t{0}, slots,
                [&](size_t slot) {
                    const ir::FloatEnvironment environment; // oneTBB gives workers somebody's own
                    work(context, slot);
                },
                tbb::static_partitioner{});
        });
    });
}

} // namespace lz::runtime
