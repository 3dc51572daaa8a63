#include "codegen/quick.h"

#include "codegen/process_end.h"
#include "ir/diagnostic.h"
#include "ir/interpreter/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace lz::codegen {

namespace {

// --- what the interpreter costs, in nanoseconds

constexpr double kPhase = 3000;     // to begin a phase
constexpr double kRoom = 150;       // to make room for the values of an instruction
constexpr double kInstruction = 20; // to find out what an instruction is
constexpr double kElement = 2;      // and then for each element that runs in step
constexpr double kAlone = 40;       // an element of a loop that runs by itself
constexpr double kLoop = 400;       // to begin and end a loop
constexpr int64_t kInStep = 256;    // elements at once (ir/interpreter/kernel.cpp)

class Estimate {
public:
    Estimate(const ir::Kernel &kernel, std::span<const int64_t> args) : kernel_(kernel), args_(args) {}

    double phase(const ir::Phase &phase) const {
        double points = 1, in_step = 1;
        for (const ir::AxisId axis : phase.grid)
            points *= extent(axis);
        if (phase.vector_grid && !phase.grid.empty())
            in_step = std::min(extent(phase.grid.back()), static_cast<double>(kInStep));
        return kPhase + kRoom * static_cast<double>(kernel_.instrs.size()) +
               (points == 0 ? 0 : points / in_step * region(phase.body, in_step));
    }

private:
    double extent(ir::AxisId axis) const {
        const ir::ArgId arg = kernel_.axes[axis].extent;
        return arg == ir::kNoArg ? 0 : static_cast<double>(std::max<int64_t>(args_[arg], 0));
    }

    /// For so many grid points at once.
    double region(const ir::Region &region, double in_step) const {
        double cost = 0;
        for (const ir::Stmt &stmt : region)
            cost += stmt.kind == ir::Stmt::Instruction ? kInstruction + kElement * in_step
                                                       : loop(kernel_.loops[stmt.id], in_step);
        return cost;
    }

    double loop(const ir::Loop &loop, double in_step) const {
        double length = extent(loop.axis);
        if (loop.begin != ir::kNoValue) // one chunk of a reduction that is split
            length = std::min(length, static_cast<double>(std::max(loop.chunk, ir::kLaneChunk))) /
                     static_cast<double>(loop.step);
        const double folds = static_cast<double>(loop.reductions.size());
        const bool simple =
            std::ranges::none_of(loop.body, [](const ir::Stmt &stmt) { return stmt.kind == ir::Stmt::Loop; });
        if (in_step == 1 && simple && loop.order == ir::LoopOrder::Lanes) {
            const double at_once = std::clamp(length, 1.0, static_cast<double>(kInStep));
            return kLoop * (1 + folds) + length / at_once * region(loop.body, at_once) +
                   folds * length * kElement;
        }
        return kLoop * (1 + folds) +
               length * (kAlone + region(loop.body, in_step) + folds * in_step * kAlone);
    }

    const ir::Kernel &kernel_;
    const std::span<const int64_t> args_;
};

std::string symbol_of(size_t phase) {
    return "phase" + std::to_string(phase);
}

} // namespace

double interpreted_nanoseconds(const ir::Kernel &kernel, std::span<const int64_t> args) {
    const Estimate estimate(kernel, args);
    double sum = 0;
    for (const ir::Phase &phase : kernel.phases)
        sum += estimate.phase(phase);
    return sum;
}

// --- entry points

template <size_t phase>
void QuickKernel::run_phase(const ir::KernelFrame *frame, int64_t begin, int64_t end, void *worker) {
    const auto &kernel = *static_cast<const QuickKernel *>(frame->code);
    const ir::PhaseEntry compiled = kernel.compiled_[phase].load(std::memory_order_acquire);
    if (compiled) [[likely]]
        compiled(frame, begin, end, worker);
    else
        kernel.interpret(phase, *frame, begin, end, worker);
}

void QuickKernel::interpret(size_t phase, const ir::KernelFrame &frame, int64_t begin, int64_t end,
                            void *worker) const {
    const int64_t items = ir::work_items(kernel_, kernel_.phases[phase], {frame.args, kernel_.args.size()});
    if (llvm_is_gone() && begin > 0) // large launches come to this, too: who has the first item does all
        return;
    LZ_CHECK((begin == 0 && end == items) || llvm_is_gone(),
             fmt::format("kernel {} is launched in parts before it is compiled", kernel_.name));
    const auto started = std::chrono::steady_clock::now();
    ir::interpret_phase(kernel_, kernel_.phases[phase], frame, worker);
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - started;
    interpreted_.fetch_add(took.count(), std::memory_order_relaxed);
}

// --- the module

bool QuickKernel::can_be(const ir::Kernel &kernel) {
    return kernel.phases.size() <= kMostPhases &&
           std::ranges::none_of(kernel.phases,
                                [](const ir::Phase &phase) { return phase.contraction.has_value(); });
}

QuickKernel::QuickKernel(ir::Kernel kernel, std::function<runtime::LoadedKernel()> make,
                         std::function<void(const std::string &)> log)
    : kernel_(std::move(kernel)), log_(std::move(log)), make_(std::move(make)) {}

QuickKernel::~QuickKernel() = default;

void *QuickKernel::entry(const std::string &symbol) const {
    static constexpr auto kEntries = []<size_t... numbers>(std::index_sequence<numbers...>) {
        return std::array<ir::PhaseEntry, kMostPhases>{run_phase<numbers>...};
    }(std::make_index_sequence<kMostPhases>());
    for (size_t phase = 0; phase < kernel_.phases.size(); ++phase)
        if (symbol == symbol_of(phase))
            return reinterpret_cast<void *>(kEntries[phase]);
    ir::internal_failure(__FILE__, __LINE__, "kernel " + kernel_.name + " has no symbol " + symbol);
}

std::vector<ir::CompiledPhase> QuickKernel::phases() const {
    std::vector<ir::CompiledPhase> phases;
    for (size_t phase = 0; phase < kernel_.phases.size(); ++phase)
        phases.push_back({symbol_of(phase)});
    return phases;
}

void QuickKernel::compile() const noexcept {
    std::unique_lock lock(mutex_);
    settled_.wait(lock, [&] { return state_.load(std::memory_order_relaxed) != State::Compiling; });
    if (state_.load(std::memory_order_relaxed) == State::Compiled || llvm_is_gone())
        return;
    state_.store(State::Compiling, std::memory_order_relaxed);
    lock.unlock();
    runtime::LoadedKernel made;
    std::vector<ir::PhaseEntry> entries;
    std::exception_ptr failure;
    try {
        made = make_();
        for (const ir::CompiledPhase &phase : made.phases)
            entries.push_back(reinterpret_cast<ir::PhaseEntry>(made.module->entry(phase.symbol)));
    } catch (const std::exception &why) {
        failure = std::current_exception();
        say(why.what());
    } catch (...) {
        failure = std::current_exception();
    }
    std::function<runtime::LoadedKernel()> over; // what it holds goes without the lock
    lock.lock();
    failure_ = failure;
    if (!failure) {
        over.swap(make_);
        module_ = std::move(made.module);
        for (size_t phase = 0; phase < entries.size(); ++phase)
            compiled_[phase].store(entries[phase], std::memory_order_release);
    }
    state_.store(failure ? State::Failed : State::Compiled, std::memory_order_release);
    settled_.notify_all();
    lock.unlock();
}

void QuickKernel::say(std::string_view why) const noexcept {
    try {
        if (log_)
            log_(fmt::format("kernel {} could not be compiled and is interpreted: {}", kernel_.name, why));
    } catch (...) { // without memory for the sentence
    }
}

std::exception_ptr QuickKernel::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

QuickKernelPtr quick_kernel(const std::shared_ptr<const runtime::Module> &module) {
    return std::dynamic_pointer_cast<const QuickKernel>(module);
}

} // namespace lz::codegen
