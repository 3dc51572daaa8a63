#include "lazuli/compiled.h"

#include "frontend/compiled/core.h"
#include "frontend/compiled/learn.h"
#include "frontend/compiled/plan.h"
#include "frontend/compiled/replay.h"
#include "frontend/compiled/signature.h"
#include "frontend/engine/engine.h"
#include "frontend/ops/compose.h"
#include "frontend/record/access.h"
#include "frontend/record/record.h"
#include "frontend/record/recorder.h"
#include "frontend/record/sync/sync.h"
#include "lazuli/ops/creation.h"
#include "lazuli/ops/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <utility>

namespace lz {
namespace {

std::atomic<uint64_t> host_state{0};

} // namespace

namespace detail {

uint64_t host_state_now() {
    return host_state.load(std::memory_order_relaxed);
}

namespace {

/// What a call has to be recorded for as it stands: streams, effects, and a mode that launches each
/// operation. But not for modes that look at each, as debug builds do: they did when what is replayed was
/// recorded.
bool is_plain(const Recorder &recorder) {
    return !recorder.names_streams() && !recorder.trace() && !recorder.has_effects() &&
           !recorder.overwriting() && !recorder.modes().launch_blocking;
}

int check_period() {
    return engine::Engine::get().options().check_compiled;
}

} // namespace

CompiledFunction::CompiledFunction(const CompiledOptions &options, Location loc)
    : core_(std::make_unique<CompiledCore>(options, loc)) {}
CompiledFunction::~CompiledFunction() {
    clear(); // the function is whole while destructors of what it captured run, which may call it
}

namespace {

/// Takes a replay back that did not come about.
class CountedReplay {
public:
    explicit CountedReplay(CompiledCore &core) : core_(core) {}
    ~CountedReplay() {
        if (!holds_) [[unlikely]] {
            const std::lock_guard lock(core_.mutex);
            --core_.replays;
        }
    }
    CountedReplay(const CountedReplay &) = delete;
    CountedReplay &operator=(const CountedReplay &) = delete;
    bool holds() { return holds_ = true; }

private:
    CompiledCore &core_;
    bool holds_ = false;
};

/// Has the plan of the last call, if no other call does. At the end it is given back, or let go if there is a
/// new one meanwhile.
class TakenPlan {
public:
    TakenPlan(LastPlan &last, const std::atomic<uint64_t> &generation)
        : last_(last), generation_(generation), taken_(last.take()) {}
    ~TakenPlan() {
        if (!taken_)
            return;
        CompiledPlanPtr plan; // destroyed when others may have it
        std::shared_ptr<const CompiledEntry> entry;
        if (last_.generation != generation_.load(std::memory_order_relaxed)) [[unlikely]] {
            plan.swap(last_.plan);
            entry.swap(last_.entry);
        }
        last_.give_back();
    }
    TakenPlan(const TakenPlan &) = delete;
    TakenPlan &operator=(const TakenPlan &) = delete;

    bool taken() const { return taken_; }
    /// Whether it is what a call finds first.
    bool is_for(const CompiledArguments &arguments, const RecordingModes &modes) const {
        return taken_ && last_.plan && last_.generation == generation_.load(std::memory_order_relaxed) &&
               last_.entry->signature.matches(arguments, modes);
    }

private:
    LastPlan &last_;
    const std::atomic<uint64_t> &generation_;
    const bool taken_;
};

} // namespace

bool CompiledFunction::replay(const CompiledArguments &arguments, CompiledResults &results) {
    Recorder &recorder = Recorder::current();
    if (!is_plain(recorder)) [[unlikely]]
        return false;
    CompiledCore &core = *core_;
    if (recorder.count() > 0) [[unlikely]]
        launch_left_behind(core.loc);
    const RecordingModes modes = modes_of_now();
    const TakenPlan taken(core.last, core.generation);
    if (taken.is_for(arguments, modes) && detail::replay(*core.last.plan, arguments, results)) [[likely]] {
        core.last.count();
        return true;
    }
    for (size_t tried = 0;; ++tried) {
        CompiledPlanPtr plan;
        std::shared_ptr<const CompiledEntry> entry;
        uint64_t generation = 0;
        bool keep = false;
        {
            const std::lock_guard lock(core.mutex);
            entry = core.find(arguments, modes);
            if (!entry || tried >= entry->plans.size())
                return false;
            if (tried == 0 && core.until_check > 0 && --core.until_check == 0)
                return false;
            if (entry->plans[tried]->may_fail_later)
                continue;
            plan = entry->plans[tried];
            ++core.replays; // here, where the lock is held anyway
            keep = tried == 0 && taken.taken() && core.until_check == 0;
            generation = core.generation.load(std::memory_order_relaxed);
        }
        if (keep) { // without the lock: what was there may be destroyed
            core.last.plan = plan;
            core.last.entry = std::move(entry);
            core.last.generation = generation;
        }
        CountedReplay counted(core);
        if (detail::replay(*plan, arguments, results))
            return counted.holds();
    }
}

CompiledStats CompiledFunction::stats() const {
    const std::lock_guard lock(core_->mutex);
    CompiledStats stats = core_->stats;
    stats.replays = core_->replays + core_->last.replays();
    stats.signatures = static_cast<int64_t>(core_->forms.size());
    stats.sizes = static_cast<int64_t>(core_->entries.size());
    return stats;
}

namespace {
constexpr size_t kExplained = 32; ///< so many signatures
} // namespace

std::string CompiledFunction::explain() const {
    const std::lock_guard lock(core_->mutex);
    std::string out =
        fmt::format("{}, compiled at {}: {} replays, {} recordings, {} uncompiled calls\n",
                    core_->options.name, ir::to_string(to_ir(core_->loc)),
                    core_->replays + core_->last.replays(), core_->stats.recordings, core_->stats.uncompiled);
    const std::vector<const CompiledEntry *> entries = core_->sorted_entries();
    for (size_t i = 0; i < entries.size(); ++i) {
        if (i == kExplained) {
            out += fmt::format("and {} sizes more, used before these\n", entries.size() - i);
            break;
        }
        const CompiledEntry *const entry = entries[i];
        out += fmt::format("{}: {} plans\n", entry->signature.text(), entry->plans.size());
        if (!entry->why.empty())
            out += fmt::format("  not replayed: {}\n", entry->why);
        for (const CompiledPlanPtr &plan : entry->plans)
            out += fmt::format(
                "  {} operations, {} tensors from outside, {} changed in place, {} results\n{}",
                plan->operations.size(), plan->sources.size(), plan->updates.size(), plan->outputs.size(),
                plan->executable ? engine::Engine::get().explain(*plan->executable) : "");
    }
    return out;
}

void CompiledFunction::clear() {
    decltype(core_->entries) forgotten; // destroyed without the lock, as in keep
    std::vector<std::shared_ptr<CompiledForm>> forms;
    const TakenPlan last(core_->last, core_->generation); // a call that has it lets it go at its end
    const std::lock_guard lock(core_->mutex);
    core_->generation.fetch_add(1, std::memory_order_relaxed);
    forgotten.swap(core_->entries);
    forms.swap(core_->forms);
    core_->plan_bytes = 0;
    core_->dropped = 0;
}

struct CompiledFunction::Recording::Impl {
    Impl(CompiledCore &c, const CompiledArguments &a, const RecordingModes &modes, bool is_check)
        : core(c), signature(a, modes), numbers(a.numbers.span().begin(), a.numbers.span().end()),
          host_state(host_state_now()), check(is_check), generator(default_generator().get_state()),
          given(given_by(a)), trace(a.tensors.span()) {}

    /// A tensor that was given, and how many handles there were of it.
    struct Given {
        Cell *cell = nullptr;
        uint32_t handles = 0;
    };
    static std::vector<Given> given_by(const CompiledArguments &arguments) {
        std::vector<Given> all;
        for (const Tensor *const tensor : arguments.tensors.span()) {
            Given &one = all.emplace_back();
            if (!tensor->defined())
                continue;
            one.cell = Access::cell(*tensor);
            one.handles = one.cell->handles.load(std::memory_order_acquire);
        }
        return all;
    }

    void stop() noexcept {
        if (std::exchange(recording, false))
            Recorder::current().set_trace(nullptr);
    }
    void check_arguments(const CompiledArguments &after, std::span<Tensor *const> results);
    void check_draws();

    CompiledCore &core;
    const Signature signature;
    const std::vector<double> numbers;
    const uint64_t host_state;
    const bool check; ///< there is a plan, which this has to agree with
    const Generator::State generator;
    const std::vector<Given> given; ///< before the trace has handles, too
    Trace trace;
    bool recording = true;
};

CompiledFunction::Recording::Recording(CompiledFunction &function, const CompiledArguments &arguments) {
    Recorder &recorder = Recorder::current();
    CompiledCore &core = *function.core_;
    if (!is_plain(recorder)) {
        if (!recorder.trace()) { // else it is a part of what is recorded
            const std::lock_guard lock(core.mutex);
            ++core.stats.uncompiled;
            core.stats.why =
                "streams are named, effects are pending, or each operation is launched by itself";
        }
        return;
    }
    const RecordingModes modes = modes_of_now();
    bool check = false;
    {
        const std::lock_guard lock(core.mutex);
        if (const auto entry = core.find(arguments, modes)) {
            if (entry->is_given_up()) {
                ++core.stats.uncompiled;
                return;
            }
            check = check_period() > 0 && !entry->plans.empty() && core.until_check == 0;
        }
        if (core.until_check == 0)
            core.until_check = check_period();
    }
    impl_ = std::make_unique<Impl>(core, arguments, modes, check);
    recorder.set_trace(&impl_->trace);
}

CompiledFunction::Recording::~Recording() {
    if (impl_)
        impl_->stop();
}

/// An argument that the function assigned something else to, or that it keeps.
void CompiledFunction::Recording::Impl::check_arguments(const CompiledArguments &after,
                                                        std::span<Tensor *const> results) {
    const std::span<const Tensor *const> tensors = after.tensors.span();
    const auto same_bits = [](double a, double b) {
        return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
    };
    if (tensors.size() != given.size() ||
        !std::ranges::equal(after.structure.span(), signature.structure()) ||
        !std::ranges::equal(after.integers.span(), signature.integers()) ||
        !std::ranges::equal(after.numbers.span(), numbers, same_bits)) {
        trace.reject("changes an argument that is not a tensor", {});
        return;
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
        Cell *const cell = given[i].cell;
        if ((tensors[i]->defined() ? Access::cell(*tensors[i]) : nullptr) != cell) {
            trace.reject("assigns to an argument", {});
            continue;
        }
        if (!cell)
            continue;
        uint32_t known = 0;
        for (const Tensor *const result : results)
            known += result->defined() && Access::cell(*result) == cell;
        for (const Trace::Source &source : trace.sources)
            known += Access::cell(source.tensor) == cell;
        if (cell->handles.load(std::memory_order_acquire) > given[i].handles + known)
            trace.reject("keeps an argument in a variable outside", {});
    }
}

/// Replays draw the same amounts in the same order, so the generator must not have been set meanwhile.
void CompiledFunction::Recording::Impl::check_draws() {
    Generator::State at = generator;
    for (const Trace::Draw &draw : trace.draws) {
        if (draw.seed != at.seed || draw.offset != at.offset)
            trace.reject("sets the state of the generator of random numbers", {});
        at.offset += (static_cast<uint64_t>(draw.words) + 3) / 4;
    }
    if (!(default_generator().get_state() == at))
        trace.reject("sets the state of the generator of random numbers", {});
}

void CompiledFunction::Recording::finish(const CompiledArguments &after, std::span<Tensor *const> results,
                                         std::shared_ptr<const void> skeleton, bool has_others) {
    if (!impl_)
        return;
    Impl &impl = *impl_;
    Trace &trace = impl.trace;
    for (const std::function<void()> &check : std::exchange(trace.at_end, {})) // which may ask for more
        check();
    impl.stop();
    CompiledCore &core = impl.core;
    if (has_others)
        trace.reject("gives something that is not a tensor", {});
    impl.check_arguments(after, results);
    impl.check_draws();
    std::shared_ptr<CompiledPlan> plan;
    if (!trace.rejected()) {
        // What was pending before the call is no part of what is replayed.
        std::vector<Node *> before;
        for (const Trace::Source &source : trace.sources)
            if (source.node->uses() > 0 && source.node->pending())
                before.push_back(source.node.get());
        if (!before.empty())
            eval_nodes(before, core.loc);
        PlanBuilder builder(trace, results, impl.numbers);
        if (!trace.rejected()) {
            eval_observed(builder.roots(), builder, core.loc);
            plan = builder.take();
            if (plan)
                plan->host_state = impl.host_state;
        }
    }
    const Recorder &recorder = Recorder::current();
    for (const Node *n = recorder.tail(); plan && n; n = n->prev)
        if (trace.made(n) && n->pending()) {
            trace.reject("keeps a tensor in a variable outside", from_ir(n->loc));
            plan = nullptr;
        }
    Forgotten forgotten;
    const std::lock_guard lock(core.mutex);
    CompiledEntry &entry = core.find_or_add(impl.signature, forgotten);
    if (impl.check && plan && !plan->may_fail_later)
        core.check(entry, *plan);
    if (!plan) {
        core.note_failure(entry, trace.why(), trace.where());
        return;
    }
    plan->skeleton = std::move(skeleton);
    core.keep(entry, std::move(plan), forgotten);
}

void fail_moved_from() {
    throw StateError("a compiled function was moved from: call the one that it was moved to, or a copy", {});
}

} // namespace detail

bool is_recording() {
    return detail::Recorder::current().trace();
}

void on_replay(std::function<void()> work, std::function<void()> undo) {
    if (detail::Trace *const trace = detail::Recorder::current().trace(); trace && work)
        trace->note_work(std::move(work), std::move(undo));
}

Tensor replayed_number(double now, std::function<double()> again, const TensorOptions &options,
                       Location loc) {
    Tensor number = full({}, now, options, loc);
    detail::Trace *const trace = detail::Recorder::current().trace();
    if (trace && again)
        trace->note_number(detail::Access::node(number), std::move(again));
    return number;
}

void keep_uncompiled(const char *why, Location loc) {
    if (detail::Trace *const trace = detail::Recorder::current().trace())
        trace->reject(why, loc);
}

void at_end_of_recording(std::function<void()> check) {
    detail::Trace *const trace = detail::Recorder::current().trace();
    if (trace && check)
        trace->note_end(std::move(check));
}

void specialize_on(std::initializer_list<double> numbers) {
    detail::note_on_host(numbers);
}

void host_state_changed() {
    host_state.fetch_add(1, std::memory_order_relaxed);
}

} // namespace lz
