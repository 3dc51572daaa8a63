#pragma once
/// The quick tier: a small kernel that is found nowhere runs by the interpreter of Kernel IR while LLVM makes
/// its code on a thread beside. The first launch of `a * b + c` on a thousand elements is interpreted in tens
/// of microseconds; opening LLVM and compiling it takes seven milliseconds.
///
/// What the tier promises, and how:
///  - *Bits* do not depend on who was faster. The interpreter gives those of compiled code in everything but
///    products, which sum in the ISA's order; so kernels with a product, and all under LAZULI_FAST_MATH, are
///    compiled before they run. Faults are the same: a check has its number in the kernel.
///  - *A launch is whole.* A launch of a quick kernel is done by one thread, each phase and segment in one
///    call, which takes the compiled code or the interpreter. Whoever launches a kernel otherwise (a large
///    launch, which threads share) asks the cache for it without `quick`, and the cache compiles it first. So
///    no two threads can choose differently in the middle of a launch.
///  - *What is interpreted is little.* A kernel is quick where a launch is interpreted in less than
///    `kMostNanoseconds` (interpreted_nanoseconds, by a model of what the interpreter does): a tenth of what
///    LLVM takes. A Program whose kernels have been interpreted for `kEnoughNanoseconds` in all (with one
///    thread, which the one beside shares a CPU with, a quarter of that), and are still not compiled when it
///    is run again, waits for them, or compiles those that nobody has begun
///    (frontend/engine/compile/quick_kernels.h): a loop loses that much and no more, however long the queue
///    is.
///  - *The thread beside* begins with no kernel while others are compiled that somebody waits for.
///  - *Exit* waits for the kernel that is being compiled, or is the first to be, and drops all others: the
///    process has its result early, ends no later than it would have without the tier, and leaves that kernel
///    on disk. Not to wait would mean that short processes open LLVM again and again, and keep nothing; to
///    wait for all, that a program of many small kernels takes as long as without the tier.
///  - *A kernel that cannot be compiled* beside goes on being interpreted, which is said once; asked for
///    without `quick` it throws what compiling threw.
///  - In a *forked* child nothing runs (S65), and nobody waits for the thread that it does not have.
/// Without LLVM (LAZULI_CPU_JIT=OFF, LAZULI_CODEGEN=interpret), for dumps of code, for CUDA devices and for
/// files of programs there is no such tier.

#include "ir/diagnostic.h"
#include "ir/kernel/compiled_kernel.h"
#include "ir/kernel/kernel.h"
#include "runtime/api/backend.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lz::codegen {

/// How long the interpreter takes for a launch of all phases with these arguments, on one thread. Fitted on a
/// Zen 3 (two virtual cores of an EPYC) to what 100 launches of tests/semantics took: half of them are within
/// a factor of 2, which is enough to decide between things that differ by one of 10. Another machine should
/// look whether first calls of a few hundred microseconds are still faster interpreted than compiled.
double interpreted_nanoseconds(const ir::Kernel &kernel, std::span<const int64_t> args);

inline constexpr double kMostNanoseconds = 0.5e6;
inline constexpr int64_t kEnoughNanoseconds = 2'000'000;

/// Code of a kernel that is compiled some time. Any thread.
class QuickKernel final : public runtime::Module {
public:
    /// Whether the interpreter gives the bits of compiled code (under exact arithmetic), and has entry points
    /// for all of its phases.
    static bool can_be(const ir::Kernel &kernel);

    /// `kernel`: without Math instructions. `make` compiles it, is called once at a time, and not again when
    /// it has returned. `log` gets a whole sentence where it throws.
    QuickKernel(ir::Kernel kernel, std::function<runtime::LoadedKernel()> make,
                std::function<void(const std::string &)> log);
    ~QuickKernel() override;

    void *entry(const std::string &symbol) const override;
    const void *code() const override { return this; }
    /// As a CompiledKernel has them.
    std::vector<ir::CompiledPhase> phases() const;

    bool is_compiled() const { return state_.load(std::memory_order_acquire) == State::Compiled; }
    /// Whether it is compiled, or could not be.
    bool is_settled() const { return state_.load(std::memory_order_acquire) >= State::Compiled; }
    /// Compiles it (again, where that failed), or waits until another thread has. Does nothing where it is
    /// compiled or LLVM is gone (process_end.h). What is thrown is kept.
    void compile() const noexcept;
    /// What compiling threw the last time, or null.
    std::exception_ptr failure() const;
    /// How long it has been interpreted so far.
    int64_t interpreted() const { return interpreted_.load(std::memory_order_relaxed); }

private:
    static constexpr size_t kMostPhases = 16;
    enum class State : uint8_t { Waiting, Compiling, Compiled, Failed };

    template <size_t phase>
    static void run_phase(const ir::KernelFrame *frame, int64_t begin, int64_t end, void *worker);
    void interpret(size_t phase, const ir::KernelFrame &frame, int64_t begin, int64_t end,
                   void *worker) const;
    void say(std::string_view why) const noexcept;

    /// Of compiled code; null until it is there.
    mutable std::array<std::atomic<ir::PhaseEntry>, kMostPhases> compiled_{};
    const ir::Kernel kernel_;
    const std::function<void(const std::string &)> log_;
    mutable std::atomic<int64_t> interpreted_{0};
    mutable std::atomic<State> state_{State::Waiting};
    mutable std::mutex mutex_; ///< guards what follows, and changes of state_
    mutable std::condition_variable settled_;
    mutable std::function<runtime::LoadedKernel()> make_;
    mutable std::shared_ptr<const runtime::Module> module_;
    mutable std::exception_ptr failure_;
};
using QuickKernelPtr = std::shared_ptr<const QuickKernel>;

/// The module as a kernel of this tier; null for any other.
QuickKernelPtr quick_kernel(const std::shared_ptr<const runtime::Module> &module);

} // namespace lz::codegen
