#include "runtime/executor.h"

#include "runtime/api/parallel.h"
#include "runtime/blame.h"
#include "runtime/profiler.h"
#include "runtime/program_layout.h"
#include "runtime/program_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>

namespace lz::runtime {

namespace {

const char *category(ir::StepKind kind) {
    constexpr const char *kNames[] = {"kernel",       "library",    "copy",
                                      "record event", "wait event", "host callback"};
    return kNames[static_cast<size_t>(kind)];
}

/// Arenas of one run: from the cache before its first launch, back when it ends (S55).
class Arenas {
public:
    Arenas(const ir::Program &program, const std::vector<DeviceSlot> &devices, std::vector<void *> &arenas,
           const std::vector<std::vector<StreamId>> &streams)
        : devices_(devices), arenas_(arenas) {
        try {
            for (; count_ < program.arena_bytes.size(); ++count_)
                acquire(count_, program.arena_bytes[count_], streams[count_]);
        } catch (...) {
            release();
            throw;
        }
    }
    ~Arenas() { release(); }
    Arenas(const Arenas &) = delete;
    Arenas &operator=(const Arenas &) = delete;

private:
    void acquire(size_t device, int64_t bytes, const std::vector<StreamId> &streams) {
        arenas_[device] = nullptr;
        if (bytes == 0)
            return;
        arenas_[device] = devices_[device].allocator->allocate(static_cast<size_t>(bytes));
        for (StreamId stream : streams)
            devices_[device].allocator->use_on(arenas_[device], stream);
    }
    void release() noexcept {
        for (size_t d = 0; d < count_; ++d)
            if (arenas_[d])
                devices_[d].allocator->free(arenas_[d]);
    }

    const std::vector<DeviceSlot> &devices_;
    std::vector<void *> &arenas_;
    size_t count_ = 0;
};

} // namespace

LoadedProgram::LoadedProgram(ir::Program program, std::vector<LoadedKernel> kernels,
                             std::vector<DeviceSlot> devices)
    : program_(std::move(program)), kernels_(std::move(kernels)), devices_(std::move(devices)),
      layout_(std::make_unique<const Layout>(program_, kernels_, devices_)),
      states_(std::make_unique<StatePool>()) {
    launches_ = static_cast<int64_t>(layout_->launches.size() + layout_->calls.size());
}

LoadedProgram::~LoadedProgram() = default;

/// One run: walks the actions, and keeps account of what failed.
class LoadedProgram::Run {
public:
    Run(const LoadedProgram &loaded, State &state, const Bindings &bindings)
        : program_(loaded.program_), layout_(*loaded.layout_), state_(state), bindings_(bindings),
          profiling_(profiling()) {}

    RunReport all() {
        const auto &actions = layout_.actions;
        for (size_t next = 0; next < actions.size();) {
            try {
                // The steady path: nothing has failed.
                for (; next < actions.size() && !blame_; ++next) {
                    if (profiling_) [[unlikely]]
                        perform_profiled(actions[next]);
                    else
                        perform(actions[next]);
                    check(actions[next]);
                }
                for (; next < actions.size(); ++next)
                    perform_unharmed(actions[next]);
            } catch (const ir::Failure &failure) {
                fail(actions[next++], failure);
            } catch (const std::bad_alloc &) { // scratch of a library call
                fail(actions[next++], ir::Failure(ir::ErrorKind::OutOfMemory,
                                                  "The system has no memory for a step's scratch."));
            }
        }
        return blame_ ? blame_->report() : RunReport{};
    }

private:
    void perform(const Layout::Action &action) {
        switch (action.kind) {
        case ir::StepKind::Launch:
            action.backend->launch(state_.launches[action.index], action.stream);
            break;
        case ir::StepKind::Library: {
            const Layout::Call &call = layout_.calls[action.index];
            call.function({{state_.pointers.data() + call.pointers, call.num_pointers},
                           {state_.args.data() + call.args, call.num_args},
                           &state_.faults[call.fault]});
            break;
        }
        case ir::StepKind::Copy: {
            const ir::Step &step = program_.steps[action.step];
            int64_t bytes =
                std::min(program_.buffers[step.operands[0]].bytes, program_.buffers[step.operands[1]].bytes);
            void *const *pointers = state_.pointers.data() + action.index;
            action.backend->copy(pointers[1], pointers[0], static_cast<size_t>(bytes), action.stream);
            break;
        }
        case ir::StepKind::RecordEvent:
            state_.events[action.index] = action.backend->record_event(action.stream);
            break;
        case ir::StepKind::WaitEvent:
            action.backend->wait_event(action.stream, state_.events[action.index]);
            break;
        case ir::StepKind::HostCallback:
            break; // refused when the Program was loaded
        }
    }

    /// On a device that runs later the time is that of handing the work over.
    void perform_profiled(const Layout::Action &action) {
        const ir::Step &step = program_.steps[action.step];
        ProfileEvent event;
        event.name = step.label.empty() ? step.symbol : step.label;
        event.category = category(step.kind);
        event.device = step.device;
        event.track = action.stream;
        event.begin = profile_clock();
        perform(action);
        event.end = profile_clock();
        event.args.emplace_back("program", program_.name);
        if (step.kind == ir::StepKind::Launch) {
            const Backend::Launch &launch = state_.launches[action.index];
            event.args.emplace_back("kernel", program_.kernels[step.kernel].name);
            event.args.emplace_back("work items", fmt::format("{}", launch.items()));
            event.args.emplace_back("segments", fmt::format("{}", launch.segments));
        }
        std::string lines;
        for (uint32_t recorded : step.recorded)
            if (recorded < bindings_.lines.size())
                lines += (lines.empty() ? "" : ", ") + ir::to_string(bindings_.lines[recorded]);
        if (!lines.empty())
            event.args.emplace_back("lines", lines);
        record_event(std::move(event));
    }

    /// Looks for faults of what has just run. On a device that runs later it has to be waited for.
    void check(const Layout::Action &action) {
        if (action.faults == action.end_faults)
            return;
        if (program_.steps[action.step].device != ir::kCpu)
            action.backend->synchronize_stream(action.stream);
        for (uint32_t f = action.faults; f < action.end_faults; ++f)
            if (state_.faults[f].code.load(std::memory_order_relaxed) != 0) [[unlikely]]
                fault(action, f);
    }

    void fault(const Layout::Action &action, uint32_t index) {
        const ir::Fault &fault = state_.faults[index];
        uint32_t segment = action.kind == ir::StepKind::Launch ? index - action.faults : 0;
        blame().lose(action.step, segment, failure_of(program_, action.step, segment, fault));
        state_.faults[index].code.store(0, std::memory_order_relaxed);
    }

    /// All segments of the action's step are lost: it did not run, or not to its end.
    void fail(const Layout::Action &action, const ir::Failure &failure) {
        uint32_t step = action.step;
        const ir::Step &s = program_.steps[step];
        ir::Failure named(failure.kind(), failure.message(), failure.loc(),
                          s.recorded.empty() ? ir::Failure::kNoNode : s.recorded.back());
        size_t segments = std::max<size_t>(s.segments.size(), 1);
        blame().lose(step, 0, named);
        for (uint32_t segment = 1; segment < segments; ++segment)
            blame().lose_with_last(step, segment);
        for (uint32_t f = action.faults; f < action.end_faults; ++f)
            state_.faults[f].code.store(0, std::memory_order_relaxed);
    }

    /// As perform and check, once something has failed: leaves out what depends on it, segment by segment.
    void perform_unharmed(const Layout::Action &action) {
        const ir::Step &step = program_.steps[action.step];
        if (step.kind == ir::StepKind::RecordEvent || step.kind == ir::StepKind::WaitEvent) {
            perform(action);
            return;
        }
        if (step.kind != ir::StepKind::Launch) {
            if (blame_->harmed(action.step, 0))
                return;
            perform(action);
            check(action);
            return;
        }
        const Backend::Launch &whole = state_.launches[action.index];
        for (uint32_t segment = 0; segment < whole.segments; ++segment) {
            if (blame_->harmed(action.step, segment))
                continue;
            int64_t items = whole.ends[segment] - (segment ? whole.ends[segment - 1] : 0);
            Backend::Launch one = whole;
            one.frames += segment;
            one.ends = &items;
            one.segments = 1;
            if (items > 0)
                action.backend->launch(one, action.stream);
            // `items` is read by the launch, and faults of this segment must not be mistaken for a later
            // one's.
            if (step.device != ir::kCpu)
                action.backend->synchronize_stream(action.stream);
        }
        check(action);
    }

    Blame &blame() {
        if (!blame_)
            blame_.emplace(program_);
        return *blame_;
    }

    const ir::Program &program_;
    const Layout &layout_;
    State &state_;
    const Bindings &bindings_;
    const bool profiling_;
    std::optional<Blame> blame_;
};

RunReport LoadedProgram::run(const Bindings &bindings) const {
    check_not_forked();
    LZ_CHECK(
        bindings.words.size() >= program_.num_runtime_words,
        fmt::format("a run binds {} runtime words of {}", bindings.words.size(), program_.num_runtime_words));
    struct Taken {
        StatePool &pool;
        State *state;
        ~Taken() { pool.give_back(state); }
    };
    State *free = states_->take();
    Taken taken{*states_, free ? free : new State(program_, *layout_, devices_.size())};
    Arenas arenas(program_, devices_, taken.state->arenas, layout_->arena_streams);
    taken.state->bind(program_, *layout_, bindings);
    return Run(*this, *taken.state, bindings).all();
}

RunReport run(const LoadedProgram &program, const Bindings &bindings) {
    return program.run(bindings);
}

} // namespace lz::runtime
