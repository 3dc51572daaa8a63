#include "runtime/cpu/pool.h"

#include "ir/host/float_environment.h"
#include "runtime/before_exit.h"
#include "runtime/cpu/cgroup.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <sched.h>
#include <span>
#include <thread>
#include <utility>
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

// --- helping a caller

/// What the caller of a loop has to do, on its stack until nobody works for it any more.
struct alignas(64) Job {
    Job(void (*function)(void *, size_t), void *argument) : work(function), context(argument) {}

    void run(size_t slot) {
        try {
            const ir::FloatEnvironment environment; // oneTBB gives workers somebody's own
            work(context, slot);
        } catch (...) {
            if (!failed.exchange(true, std::memory_order_relaxed))
                error = std::current_exception();
        }
    }

    void (*const work)(void *context, size_t slot);
    void *const context;
    std::atomic<size_t> next_slot{1}; ///< the caller has slot 0
    std::atomic<bool> failed{false};
    std::exception_ptr error; ///< the first one
};

/// Turns of a loop that waits, for a while.
class Spin {
public:
    /// `yields`: the processor is given to other threads meanwhile.
    Spin(std::chrono::microseconds time, bool yields) : time_(time), yields_(yields) {}

    /// Waits for a moment; false once the time is over.
    bool turn() {
        if (yields_)
            std::this_thread::yield();
        else
            pause();
        if (++turns_ % 32 != 0)
            return true;
        const auto now = std::chrono::steady_clock::now();
        if (turns_ == 32)
            end_ = now + time_;
        return now < end_;
    }

private:
    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ __volatile__("yield");
#endif
    }

    std::chrono::microseconds time_;
    bool yields_;
    unsigned turns_ = 0;
    std::chrono::steady_clock::time_point end_;
};

/// How long a worker waits for the next loop before oneTBB has it back, which lets it sleep.
constexpr std::chrono::microseconds kLinger{200};
/// How long a caller waits at full speed for what workers have begun, and then giving way to other threads;
/// after that it sleeps between two looks.
constexpr std::chrono::microseconds kAttentive{50}, kPatient{2000}, kNap{50};

/// A place where a worker of oneTBB's waits for jobs: those of the next loops, after its first one. A loop
/// that finds it waiting has its help in a fraction of a microsecond, where oneTBB's own loops take one or
/// two to find a worker that is awake.
///
/// One word says how things stand: a phase, and the job that it is about.
class alignas(64) Seat {
public:
    /// Whether the worker who is here, if one is, has this job now.
    bool give(Job &job) {
        uintptr_t waiting = word(Phase::Waiting);
        return state_.load(std::memory_order_relaxed) == waiting &&
               state_.compare_exchange_strong(waiting, word(Phase::Given, &job), std::memory_order_release,
                                              std::memory_order_relaxed);
    }

    /// Likewise the worker who comes next: `call()` sends for one if none is on its way.
    template <class Call>
    bool give_ahead(Job &job, Call call) {
        for (const Phase before : {Phase::Coming, Phase::Gone}) {
            uintptr_t expected = word(before);
            if (!state_.compare_exchange_strong(expected, word(Phase::GivenAhead, &job),
                                                std::memory_order_release, std::memory_order_relaxed))
                continue;
            if (before == Phase::Gone)
                try {
                    call();
                } catch (...) { // the loop does without
                    state_.store(word(Phase::Gone), std::memory_order_relaxed);
                    return false;
                }
            return true;
        }
        return false;
    }

    /// Of one whom the job was given: takes it back if it is not begun, else waits until it is done.
    void finish(Job &job) {
        for (const auto &[given, before] :
             {std::pair{Phase::Given, Phase::Waiting}, std::pair{Phase::GivenAhead, Phase::Coming}}) {
            uintptr_t expected = word(given, &job);
            if (state_.compare_exchange_strong(expected, word(before), std::memory_order_relaxed))
                return;
        }
        const auto done = [&] {
            return state_.load(std::memory_order_acquire) != word(Phase::Working, &job);
        };
        for (const auto &[time, yields] : {std::pair{kAttentive, false}, std::pair{kPatient, true}})
            for (Spin spin(time, yields); !done();)
                if (!spin.turn())
                    break;
        while (!done())
            std::this_thread::sleep_for(kNap);
    }

    /// What a worker that was sent for does. `yields`: there are more threads than processors.
    void work(bool yields) {
        for (Spin spin(kLinger, yields);;) {
            uintptr_t now = state_.load(std::memory_order_relaxed);
            Job *const job = reinterpret_cast<Job *>(now & ~kPhases);
            switch (static_cast<Phase>(now & kPhases)) {
            case Phase::Given:
            case Phase::GivenAhead:
                if (!state_.compare_exchange_strong(now, word(Phase::Working, job), std::memory_order_acquire,
                                                    std::memory_order_relaxed))
                    break;
                job->run(job->next_slot.fetch_add(1, std::memory_order_relaxed));
                state_.store(word(Phase::Waiting), std::memory_order_release);
                spin = Spin(kLinger, yields);
                break;
            case Phase::Waiting:
                if (!spin.turn() &&
                    state_.compare_exchange_strong(now, word(Phase::Gone), std::memory_order_relaxed))
                    return;
                break;
            default:
                state_.compare_exchange_strong(now, word(Phase::Waiting), std::memory_order_relaxed);
            }
        }
    }

private:
    enum class Phase : uintptr_t {
        Gone,       ///< no worker is here, and none is on its way
        Coming,     ///< one is on its way
        GivenAhead, ///< a job is given to one on its way
        Waiting,    ///< one is here
        Given,      ///< a job is given to one who is here
        Working,    ///< at a job
    };
    static constexpr uintptr_t kPhases = 7;
    static uintptr_t word(Phase phase, const Job *job = nullptr) {
        return reinterpret_cast<uintptr_t>(job) | static_cast<uintptr_t>(phase);
    }

    std::atomic<uintptr_t> state_{word(Phase::Gone)};
};

/// One arena a number of threads that was ever asked for; never destroyed, because other threads may be
/// inside and static objects of the user's may still compute after main (S68).
struct Pool {
    /// The arena is made now, and not by a loop that may come when oneTBB's static objects are gone; it keeps
    /// what loops need.
    explicit Pool(size_t n)
        : threads(n), crowded(n > std::thread::hardware_concurrency()), seats(n - 1),
          arena(static_cast<int>(n), 1) {
        arena.initialize();
    }
    void send_to(Seat &seat) {
        arena.enqueue([this, &seat] { seat.work(crowded); });
    }
    /// Whether workers should be sent for that are not waiting: for a long loop, or where one like this came
    /// a moment ago, so that the next one will find them.
    bool sends(bool is_long) {
        const auto now = std::chrono::steady_clock::now().time_since_epoch();
        const std::chrono::nanoseconds last(last_alone.exchange(now.count(), std::memory_order_relaxed));
        return is_long || now - last < kLinger;
    }

    const size_t threads;
    const bool crowded; ///< there are more of them than processors
    std::vector<Seat> seats;
    std::atomic<std::chrono::nanoseconds::rep> last_alone{0}; ///< when a loop last found too few waiting
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

void run_on_pool(size_t slots, bool is_long, void (*work)(void *context, size_t slot), void *context) {
    Pool &pool = Pools::get().current();
    const size_t wanted = std::min(slots - 1, pool.seats.size());
    Seat *few[16];
    std::vector<Seat *> many(wanted > std::size(few) ? wanted : 0);
    const std::span<Seat *> given = many.empty() ? std::span(few) : std::span(many);
    size_t count = 0;
    Job job(work, context);
    for (Seat &seat : pool.seats)
        if (count < wanted && seat.give(job))
            given[count++] = &seat;
    if (count < wanted && pool.sends(is_long))
        for (Seat &seat : pool.seats)
            if (count < wanted && seat.give_ahead(job, [&] { pool.send_to(seat); }))
                given[count++] = &seat;
    job.run(0);
    for (Seat *const seat : given.first(count))
        seat->finish(job);
    if (job.error)
        std::rethrow_exception(job.error);
}

} // namespace lz::runtime
