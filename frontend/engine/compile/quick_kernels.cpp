#include "frontend/engine/compile/quick_kernels.h"

#include "codegen/cache/kernel_cache.h"
#include "frontend/engine/host_event.h"
#include "ir/diagnostic.h"
#include "ir/host/float_environment.h"
#include "runtime/api/parallel.h"
#include "runtime/before_exit.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <thread>
#include <utility>

namespace lz::engine {

namespace {

/// What the step's launches cost by the interpreter. The extents of a Program are constants.
double interpreted_nanoseconds(const ir::Kernel &kernel, const ir::Step &step) {
    double sum = 0;
    std::vector<int64_t> args;
    for (const ir::Segment &segment : step.segments) {
        args.clear();
        for (const ir::ArgSpec &arg : segment.args)
            args.push_back(arg.constant);
        sum += codegen::interpreted_nanoseconds(kernel, args);
    }
    return sum;
}

/// As run_launch (runtime/cpu/host_work.cpp) does it: not shared between threads, and no turns of segments.
bool is_whole(const ir::Step &step) {
    return step.cost < ir::kAloneCost && (step.rounds <= 1 || step.segments.size() <= 1);
}

/// With one CPU, what is interpreted keeps the thread beside from compiling.
int64_t enough_nanoseconds() {
    return runtime::num_threads() == 1 ? codegen::kEnoughNanoseconds / 4 : codegen::kEnoughNanoseconds;
}

} // namespace

std::vector<bool> small_kernels(const ir::Program &program, Quick quick) {
    std::vector<bool> small(program.kernels.size(), quick != Quick::Off);
    if (quick == Quick::Off)
        return small;
    for (const ir::Step &step : program.steps)
        if (step.kind == ir::StepKind::Launch && small[step.kernel])
            small[step.kernel] =
                is_whole(step) &&
                (quick == Quick::Always ||
                 interpreted_nanoseconds(program.kernels[step.kernel], step) < codegen::kMostNanoseconds);
    return small;
}

void compile_large(const ir::Program &program, std::span<const runtime::ProgramKernel> kernels, Quick quick) {
    std::vector<bool> small;
    for (size_t number = 0; number < kernels.size(); ++number) {
        const runtime::ProgramKernel &k = kernels[number];
        const codegen::QuickKernelPtr kernel = codegen::quick_kernel(k.code.module);
        if (!kernel || kernel->is_compiled())
            continue;
        if (small.empty())
            small = small_kernels(program, quick);
        if (small[k.kernel])
            continue;
        kernel->compile();
        try {
            if (const std::exception_ptr failure = kernel->failure())
                std::rethrow_exception(failure);
        } catch (const ir::Failure &failure) {
            throw codegen::KernelFailure(failure, number);
        }
    }
}

// --- the thread

void Beside::put(std::function<void()> work) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        if (!std::exchange(has_thread_, true))
            try {
                start();
            } catch (...) { // it is tried again for the next one
                has_thread_ = false;
                return;
            }
        waiting_.push_back(std::move(work));
        if (!is_busy_ && !next_)
            next_.emplace();
    } catch (const std::bad_alloc &) {
    }
    changed_.notify_one();
}

void Beside::start() {
    // Signals are for threads that know what to do with them: the new one inherits the mask.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct Restore {
        const sigset_t &before;
        ~Restore() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    } restore{before};
    std::thread([this] { serve(); }).detach();
}

void Beside::serve() {
    for (;;) {
        std::optional<runtime::BeforeExit::Announced> next;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return !waiting_.empty() && pauses_ == 0; });
            if (next_)
                next.emplace(std::move(*next_));
            next_.reset();
            is_busy_ = true;
        }
        // Without the lock: when the process ends, and this is not what it waits for, the thread stops here.
        const auto before_exit = next ? runtime::BeforeExit(std::move(*next)) : runtime::BeforeExit();
        do {
            std::function<void()> work;
            {
                const std::lock_guard lock(mutex_);
                work = std::move(waiting_.front());
                waiting_.pop_front();
            }
            const ir::FloatEnvironment environment;
            const HostEvent event("compile", "compile: beside");
            work();
        } while (may_go_on());
    }
}

/// Whether the next one is to be done at once.
bool Beside::may_go_on() {
    const auto now = std::chrono::steady_clock::now();
    if (!last_ && runtime::BeforeExit::exit_has_begun())
        last_ = now + at_exit_();
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty() && pauses_ == 0 && (!last_ || now < *last_))
        return true;
    is_busy_ = false;
    if (!waiting_.empty())
        next_.emplace();
    return false;
}

Beside::Pause::Pause(Beside &beside) : beside_(beside) {
    const std::lock_guard lock(beside_.mutex_);
    ++beside_.pauses_;
}

Beside::Pause::~Pause() {
    {
        const std::lock_guard lock(beside_.mutex_);
        --beside_.pauses_;
    }
    beside_.changed_.notify_one();
}

// --- a Program's

void QuickKernels::watch(std::span<const runtime::ProgramKernel> kernels) {
    for (const runtime::ProgramKernel &k : kernels)
        if (codegen::QuickKernelPtr kernel = codegen::quick_kernel(k.code.module);
            kernel && !kernel->is_settled())
            kernels_.push_back(std::move(kernel));
    unsettled_ = !kernels_.empty();
}

void QuickKernels::settle() const {
    std::vector<const codegen::QuickKernel *> waiting;
    int64_t interpreted = 0;
    for (const codegen::QuickKernelPtr &kernel : kernels_) {
        interpreted += kernel->interpreted();
        if (!kernel->is_settled())
            waiting.push_back(kernel.get());
    }
    if (!waiting.empty()) {
        if (interpreted < enough_nanoseconds())
            return;
        runtime::check_not_forked(); // its thread is not there
        const runtime::BeforeExit before_exit;
        const HostEvent event("compile", "compile: quick kernels");
        runtime::parallel_for(static_cast<int64_t>(waiting.size()), 1, [&](int64_t begin, int64_t end) {
            const ir::FloatEnvironment environment;
            for (int64_t k = begin; k < end; ++k)
                waiting[static_cast<size_t>(k)]->compile();
        });
    }
    unsettled_.store(false, std::memory_order_relaxed);
}

} // namespace lz::engine
