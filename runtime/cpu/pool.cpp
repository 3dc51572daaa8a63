#include "runtime/cpu/pool.h"

#include "ir/host/float_environment.h"
#include "runtime/before_exit.h"
#include "runtime/cpu/cgroup.h"
#include "runtime/cpu/workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <sched.h>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace lz::runtime {

namespace {

// --- waiting

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
/// Nanoseconds on one thread from which on a loop wakes sleeping threads. One of 38 us (a product of 128)
/// took 52 with that on a Zen 4 machine.
constexpr int64_t kWorthWaking = 80'000;
/// Nanoseconds of loops without workers from which on it was worth starting oneTBB: about what that takes;
/// and what a loop counts for at least.
constexpr int64_t kWorthStarting = 700'000, kLeastLoop = 5'000;
/// How long a caller waits at full speed for what workers have begun, and then giving way to other threads;
/// after that it sleeps between two looks.
constexpr std::chrono::microseconds kAttentive{50}, kPatient{2000}, kNap{50};

// --- one loop

/// The pieces [next, end) of one thread, on a cache line of their own.
struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;

    /// A piece, or `end` and more.
    int64_t take() {
        // Looking disturbs other threads less than taking.
        const int64_t now = next.load(std::memory_order_relaxed);
        return now < end ? next.fetch_add(1, std::memory_order_relaxed) : now;
    }
};

/// What the caller of a loop wants to have done; on its stack until nobody works for it any more.
struct alignas(64) Job {
    Job(const PoolLoop &loop, std::span<Share> all)
        : fn(loop.fn), quotient(loop.n / loop.pieces), remainder(loop.n % loop.pieces), shares(all) {
        const auto threads = static_cast<int64_t>(shares.size());
        for (int64_t s = 0; s < threads; ++s) {
            shares[static_cast<size_t>(s)].next.store(loop.pieces * s / threads, std::memory_order_relaxed);
            shares[static_cast<size_t>(s)].end = loop.pieces * (s + 1) / threads;
        }
    }

    /// The pieces of share number `self` first (neighbouring memory stays in its thread's cache), then those
    /// that others have left, up to an exception.
    void run(size_t self) {
        try {
            const ir::FloatEnvironment environment; // workers have somebody's own
            for (size_t k = 0; k < shares.size(); ++k) {
                Share &share = shares[self + k < shares.size() ? self + k : self + k - shares.size()];
                for (int64_t piece; (piece = share.take()) < share.end;)
                    fn(begin(piece), begin(piece + 1));
            }
        } catch (...) {
            if (!failed.exchange(true, std::memory_order_relaxed))
                error = std::current_exception();
        }
    }

    // What a worker needs to begin is in one line.
    const RangeFn fn;
    const int64_t quotient, remainder;
    const std::span<Share> shares;
    std::atomic<bool> failed{false};
    std::exception_ptr error; ///< the first one

private:
    int64_t begin(int64_t piece) const { return piece * quotient + std::min(piece, remainder); }
};

/// A place where a worker waits for jobs: those of the next loops, after its first one. A loop that finds it
/// waiting has its help in a fraction of a microsecond.
///
/// One word says how things stand: a phase, and the job that it is about.
class alignas(64) Seat {
public:
    /// Whether the worker who is here, if one is, has this job now, with share number `share` as its own.
    bool give(Job &job, size_t share) { return give(job, share, Phase::Waiting); }

    /// Likewise the worker who comes next: `send()` sends for one if none is on its way.
    template <class Send>
    bool give_ahead(Job &job, size_t share, Send send) {
        if (give(job, share, Phase::Coming))
            return true;
        if (!give(job, share, Phase::Gone))
            return false;
        try {
            send();
            return true;
        } catch (...) { // the loop does without, unless one comes all the same
            uintptr_t expected = word(Phase::GivenAhead, &job);
            return !state_.compare_exchange_strong(expected, word(Phase::Gone), std::memory_order_release,
                                                   std::memory_order_relaxed);
        }
    }

    /// Takes the job back if it is not begun, else waits until it is done.
    void finish(Job &job) {
        for (const auto &[given, before] :
             {std::pair{Phase::Given, Phase::Waiting}, std::pair{Phase::GivenAhead, Phase::Coming}}) {
            uintptr_t expected = word(given, &job);
            if (state_.load(std::memory_order_relaxed) == expected &&
                state_.compare_exchange_strong(expected, word(before), std::memory_order_relaxed))
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
                job->run(share_);
                state_.store(word(Phase::Waiting), std::memory_order_release);
                spin = Spin(kLinger, yields);
                break;
            case Phase::Waiting:
                if (!spin.turn() &&
                    state_.compare_exchange_strong(now, word(Phase::Gone), std::memory_order_relaxed))
                    return;
                break;
            case Phase::Filling:
                spin.turn();
                break;
            case Phase::Coming:
            case Phase::Gone:
                state_.compare_exchange_strong(now, word(Phase::Waiting), std::memory_order_relaxed);
                break;
            case Phase::Working: // another one is here: one of the two was sent for by a call that failed
                return;
            }
        }
    }

private:
    enum class Phase : uintptr_t {
        Gone,       ///< no worker is here, and none is on its way
        Coming,     ///< one is on its way
        Filling,    ///< a caller is writing the share
        GivenAhead, ///< a job is given to one on its way
        Waiting,    ///< one is here
        Given,      ///< a job is given to one who is here
        Working,    ///< at a job
    };
    static constexpr uintptr_t kPhases = 7;
    static uintptr_t word(Phase phase, const Job *job = nullptr) {
        return reinterpret_cast<uintptr_t>(job) | static_cast<uintptr_t>(phase);
    }

    bool give(Job &job, size_t share, Phase before) {
        uintptr_t expected = word(before);
        if (state_.load(std::memory_order_relaxed) != expected ||
            !state_.compare_exchange_strong(expected, word(Phase::Filling), std::memory_order_acquire,
                                            std::memory_order_relaxed))
            return false;
        share_ = share;
        state_.store(word(before == Phase::Waiting ? Phase::Given : Phase::GivenAhead, &job),
                     std::memory_order_release);
        return true;
    }

    std::atomic<uintptr_t> state_{word(Phase::Gone)};
    size_t share_ = 0; ///< of the job
};

// --- pools

/// Processors that the process may use.
size_t processors() {
    cpu_set_t mask;
    const bool told = sched_getaffinity(0, sizeof(mask), &mask) == 0;
    return std::max(1U, told ? static_cast<unsigned>(CPU_COUNT(&mask)) : std::thread::hardware_concurrency());
}

size_t default_threads() {
    const size_t cpus = processors();
    const std::optional<int> share = cgroup_cpus();
    return share ? std::min(cpus, static_cast<size_t>(*share)) : cpus;
}

/// Threads of the pool in use, once there is one: what each launch asks for.
constinit std::atomic<size_t> g_threads{0};
/// Held by who starts oneTBB or tells it how many threads there may be.
constinit std::mutex g_making_workers;

/// One a number of threads that was ever asked for; never destroyed, as its workers are not.
class Pool {
public:
    explicit Pool(size_t n) : threads(n), crowded_(n > processors()), seats_(n - 1) {
        made_.fetch_add(1, std::memory_order_release);
    }

    /// Gives the job, of a loop of so many nanoseconds, to as many others as it has shares for; calls f(seat)
    /// of each. Whether all shares are given.
    template <class F>
    bool give(Job &job, int64_t nanoseconds, F f) {
        size_t share = 1;
        const auto each = [&](auto &&gives) {
            for (Seat &seat : seats_) {
                if (share == job.shares.size())
                    break;
                if (gives(seat)) {
                    ++share;
                    f(seat);
                }
            }
        };
        each([&](Seat &seat) { return seat.give(job, share); });
        if (share < job.shares.size() && sends(nanoseconds))
            if (Workers *const workers = find_workers(nanoseconds))
                each([&](Seat &seat) {
                    return seat.give_ahead(
                        job, share, [&] { workers->send(crowded_ ? work_at<true> : work_at<false>, &seat); });
                });
        return share == job.shares.size();
    }

    /// Notes that a loop that found too few waiting has come to its end.
    void note_alone() { last_alone_.store(now(), std::memory_order_relaxed); }

    bool has_workers() const { return workers_.load(std::memory_order_relaxed) != nullptr; }

    const size_t threads;

private:
    /// Whether workers should be sent for that are not waiting: for a long loop, or where one like this came
    /// a moment ago, so that the next one will find them.
    bool sends(int64_t nanoseconds) const {
        return nanoseconds >= kWorthWaking ||
               std::chrono::nanoseconds(now() - last_alone_.load(std::memory_order_relaxed)) < kLinger;
    }
    static std::chrono::nanoseconds::rep now() {
        return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    }

    /// Null where the loop should do without them: there were too few loops yet, static objects of oneTBB's
    /// may be gone, or it does not start.
    Workers *find_workers(int64_t nanoseconds) noexcept {
        if (Workers *const workers = workers_.load(std::memory_order_acquire)) [[likely]]
            return workers;
        const int64_t before = without_workers_.load(std::memory_order_relaxed);
        // What it is thought to take may be too little.
        const int64_t loop = std::max(nanoseconds, kLeastLoop);
        if (loop < kWorthStarting - before) {
            without_workers_.store(before + loop, std::memory_order_relaxed);
            return nullptr;
        }
        try {
            // And no BeforeExit: a thread of a stream may have to go on for the one that leaves.
            const BeforeExit::Announced work;
            if (!work)
                return nullptr;
            const std::lock_guard lock(g_making_workers);
            if (!has_workers()) {
                allow_threads(g_threads.load(std::memory_order_relaxed));
                workers_.store(new Workers(threads - 1), std::memory_order_release);
            }
            return workers_.load(std::memory_order_relaxed);
        } catch (const std::exception &) {
            return nullptr;
        }
    }
    template <bool Yields>
    static void work_at(void *seat) {
        // That the seat was made before is oneTBB's doing, which ThreadSanitizer does not see.
        (void)made_.load(std::memory_order_acquire);
        static_cast<Seat *>(seat)->work(Yields);
    }

    static constinit std::atomic<size_t> made_;

    const bool crowded_; ///< there are more of them than processors
    std::vector<Seat> seats_;
    std::atomic<std::chrono::nanoseconds::rep> last_alone_{0}; ///< when such a loop ended
    std::atomic<int64_t> without_workers_{0}; ///< nanoseconds of loops that had none to send for
    std::atomic<Workers *> workers_{nullptr};
};

constinit std::atomic<size_t> Pool::made_{0};

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
        if (std::any_of(pools_.begin(), pools_.end(), [](const auto &pool) { return pool->has_workers(); })) {
            const std::lock_guard making(g_making_workers);
            allow_threads(threads);
        }
        auto found = std::find_if(pools_.begin(), pools_.end(), same);
        if (found == pools_.end())
            found = pools_.insert(pools_.end(), std::make_unique<Pool>(threads));
        current_.store(found->get(), std::memory_order_release);
        g_threads.store(threads, std::memory_order_relaxed);
    }

private:
    Pools() { select(default_threads()); }

    std::mutex mutex_;
    std::vector<std::unique_ptr<Pool>> pools_;
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

void run_on_pool(const PoolLoop &loop, size_t threads) {
    constexpr size_t kFew = 16;
    Share few_shares[kFew];
    Seat *few_seats[kFew];
    std::vector<Share> many_shares(threads > kFew ? threads : 0);
    std::vector<Seat *> many_seats(many_shares.size());
    const std::span<Share> shares =
        many_shares.empty() ? std::span(few_shares, threads) : std::span(many_shares);
    const std::span<Seat *> seats = many_seats.empty() ? std::span(few_seats) : std::span(many_seats);

    Job job(loop, shares);
    size_t given = 0;
    Pool &pool = Pools::get().current();
    const bool all = pool.give(job, loop.nanoseconds, [&](Seat &seat) { seats[given++] = &seat; });
    job.run(0);
    for (Seat *const seat : seats.first(given))
        seat->finish(job);
    if (!all)
        pool.note_alone();
    if (job.error)
        std::rethrow_exception(job.error);
}

} // namespace lz::runtime
