#pragma once
/// The quick tier as the engine uses it (codegen/quick.h says what it is): which kernels are small enough,
/// the thread on which they are compiled, and how long a Program goes on without their code.

#include "codegen/quick.h"
#include "frontend/engine/options.h"
#include "ir/program/program.h"
#include "runtime/before_exit.h"
#include "runtime/executor/executor.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lz::engine {

/// By kernel of the Program: whether each launch of it is done by one thread as a whole, and interpreted in
/// less than codegen::kMostNanoseconds (with Quick::Always: in any time).
std::vector<bool> small_kernels(const ir::Program &program, Quick quick);

/// Compiles those kernels that were small in another Program and are not in this one. Throws KernelFailure
/// for one that cannot be compiled.
void compile_large(const ir::Program &program, std::span<const runtime::ProgramKernel> kernels, Quick quick);

/// How long the end of a process may be put off by kernels that are still to be compiled, where they are kept
/// on disk: so the next process finds what this one has begun, however short both are.
inline constexpr std::chrono::milliseconds kMostAtExit{100};

/// A thread for what nobody waits for, one thing after another in the order in which it was put. It is there
/// from the first one on until the process ends, which waits for the one that is being done or is the next
/// (runtime/before_exit.h), and for those that begin within `at_exit` from then on. Lives as long as the
/// process. Any thread.
class Beside {
public:
    using AtExit = std::function<std::chrono::milliseconds()>;
    /// `at_exit` is asked when exit has begun.
    explicit Beside(AtExit at_exit) : at_exit_(std::move(at_exit)) {}

    /// Where there is no memory or no thread nobody does it.
    void put(std::function<void()> work) noexcept;

    /// While one lives nothing is begun: it would take the place of what somebody waits for.
    class Pause {
    public:
        explicit Pause(Beside &beside);
        ~Pause();
        Pause(const Pause &) = delete;
        Pause &operator=(const Pause &) = delete;

    private:
        Beside &beside_;
    };

private:
    void start();
    void serve();
    bool may_go_on();

    const AtExit at_exit_;
    /// Until when it goes on; once exit has begun.
    std::optional<std::chrono::steady_clock::time_point> last_;
    std::mutex mutex_; ///< guards what follows
    std::condition_variable changed_;
    std::deque<std::function<void()>> waiting_;
    std::optional<runtime::BeforeExit::Announced> next_; ///< of what is waiting, while nothing is being done
    int pauses_ = 0;
    bool has_thread_ = false, is_busy_ = false;
};

/// The kernels of a Program that may not be compiled yet.
class QuickKernels {
public:
    /// Before the first run.
    void watch(std::span<const runtime::ProgramKernel> kernels);
    /// To be called before each run, by the thread that runs it: a load, once all are compiled. When they
    /// have been interpreted for long enough it compiles them all, or waits until they are. Throws
    /// Failure(State) in a forked child.
    void before_run() const {
        if (unsettled_.load(std::memory_order_relaxed)) [[unlikely]]
            settle();
    }

private:
    void settle() const;

    std::vector<codegen::QuickKernelPtr> kernels_;
    mutable std::atomic<bool> unsettled_{false};
};

} // namespace lz::engine
