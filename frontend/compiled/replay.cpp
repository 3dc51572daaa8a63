#include "frontend/compiled/replay.h"

#include "frontend/compiled/core.h"
#include "frontend/compiled/signature.h"
#include "frontend/engine/engine.h"
#include "frontend/record/access.h"
#include "frontend/record/execution/execution.h"
#include "frontend/record/execution/failures.h"
#include "frontend/record/execution/stopped.h"
#include "frontend/record/record.h"
#include "frontend/record/recording/key.h"
#include "frontend/record/storage.h"
#include "frontend/record/sync/sync.h"
#include "ir/host/hot_tls.h"
#include "lazuli/ops/random.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <utility>

namespace lz::detail {
namespace {

/// What a replay fills in, with the room of the largest that the thread has done. A replay inside a replay (a
/// function of the user's that a Program calls) gets its own.
struct Scratch {
    std::vector<Node *> nodes; ///< by source
    std::vector<Cell *> cells; ///< likewise
    std::vector<void *> inputs, results;
    std::vector<ir::MemoryUse *> input_uses, result_uses;
    std::vector<Storage *> storages; ///< of results, each with a reference; null between replays
    std::vector<int64_t> words;
    std::vector<ir::Location> lines;
    std::vector<Tensor> values; ///< empty between replays
    std::vector<Node *> pending;
    uint64_t last_plan = 0; ///< for which there is room
    Scratch *below = nullptr;

    void make_room(const CompiledPlan &plan) {
        if (last_plan == plan.number)
            return;
        at_least(nodes, plan.sources.size());
        at_least(cells, plan.sources.size());
        at_least(inputs, plan.inputs.size());
        at_least(input_uses, plan.inputs.size());
        at_least(results, plan.results.size());
        at_least(result_uses, plan.results.size());
        at_least(storages, plan.results.size());
        at_least(values, plan.values.size());
        last_plan = plan.number;
    }
    template <class T>
    static void at_least(std::vector<T> &vector, size_t size) {
        if (vector.size() < size)
            vector.resize(size);
    }

    LZ_HOT_TLS static constinit thread_local Scratch *idle;
    struct Owner {
        ~Owner() {
            while (Scratch *const s = idle) {
                idle = s->below;
                delete s;
            }
        }
    };
};
LZ_HOT_TLS constinit thread_local Scratch *Scratch::idle = nullptr;

class TakenScratch {
public:
    TakenScratch() : scratch_(Scratch::idle) {
        if (scratch_) [[likely]] {
            Scratch::idle = scratch_->below;
            return;
        }
        thread_local const Scratch::Owner owner;
        (void)owner;
        scratch_ = new Scratch;
    }
    ~TakenScratch() {
        scratch_->below = Scratch::idle;
        Scratch::idle = scratch_;
    }
    TakenScratch(const TakenScratch &) = delete;
    TakenScratch &operator=(const TakenScratch &) = delete;
    Scratch *operator->() const { return scratch_; }
    Scratch &operator*() const { return *scratch_; }

private:
    Scratch *scratch_;
};

class PlanReplay : ir::FailureGroups {
public:
    PlanReplay(const CompiledPlan &plan, const CompiledArguments &arguments, Scratch &scratch)
        : plan_(plan), arguments_(arguments), s_(scratch) {
        s_.make_room(plan);
        s_.pending.clear();
    }
    ~PlanReplay() {
        for (size_t r = 0; r < bound_; ++r)
            if (Storage *const storage = std::exchange(s_.storages[r], nullptr))
                storage->release();
        for (size_t i = 0; i < plan_.values.size(); ++i)
            s_.values[i] = Tensor();
    }
    PlanReplay(const PlanReplay &) = delete;
    PlanReplay &operator=(const PlanReplay &) = delete;

    bool run(CompiledResults &results) {
        if (!numbers_hold() || !find_sources() || !slots_hold() || !inputs_hold())
            return false;
        if (plan_.executable && !bind_results())
            return false;
        try {
            const std::span<const int64_t> words = bind_words();
            if (plan_.executable)
                launch(words);
        } catch (...) {
            undo_work();
            throw;
        }
        if (!plan_.simple)
            make_values();
        give(results);
        if (!plan_.simple)
            change_tensors();
        if (stopped_) [[unlikely]]
            throw_stopped();
        return true;
    }

private:
    bool numbers_hold() const {
        const std::span<const double> numbers = arguments_.numbers.span();
        for (size_t k = 0; k < numbers.size(); ++k)
            if (!plan_.numbers[k].takes(numbers[k]))
                return false;
        return plan_.host_state == host_state_now() || plan_.host_state == CompiledPlan::kAnyHostState;
    }

    /// The gradient that is kept there now, or null.
    StepExtras::Kept *kept(const CompiledPlan::GradientChange &gradient) const {
        return gradient.step.get()->kept(gradient.result);
    }

    Cell *cell_of(const CompiledPlan::Source &source) const {
        if (source.argument != CompiledPlan::kNone)
            return Access::cell(*arguments_.tensors.span()[source.argument]);
        if (source.gradient == CompiledPlan::kNone)
            return Access::cell(source.tensor.get());
        const StepExtras::Kept *const k = kept(plan_.gradients[source.gradient]);
        return k && k->grad.defined() ? Access::cell(k->grad) : nullptr;
    }

    /// What this call reads and changes, and whether it is what was recorded.
    bool find_sources() {
        for (size_t at = 0; at < plan_.sources.size(); ++at) {
            const CompiledPlan::Source &source = plan_.sources[at];
            Cell *const cell = cell_of(source);
            if (!cell)
                return false;
            Node *const node = cell->current;
            const State state = node->state.load(std::memory_order_acquire);
            if (state != State::Ready) [[unlikely]] {
                if (state == State::Failed)
                    return false;
                s_.pending.push_back(node);
            }
            const bool captured =
                source.argument == CompiledPlan::kNone && source.gradient == CompiledPlan::kNone;
            if (source.only && source.only != cell)
                return false;
            if (captured) {
                // Nobody else has the tensor any more: a variable of the function is another one now.
                if (cell->handles.load(std::memory_order_acquire) == 1 ||
                    source.tensor.assigned() != source.assigned)
                    return false;
                if (cell->history != source.history.get() ||
                    (cell->history && cell->history->wants_gradient() != source.wants_gradient))
                    return false;
            }
            if (source.argument == CompiledPlan::kNone && !same_type(node->type, source.type))
                return false;
            s_.nodes[at] = node;
            s_.cells[at] = cell;
        }
        // No argument may be a tensor that is captured as well, unless it was so when it was recorded.
        for (size_t i = 0; !plan_.simple && i < plan_.sources.size(); ++i) {
            if (plan_.sources[i].argument == CompiledPlan::kNone)
                break; // arguments come first
            for (size_t k = i + 1; k < plan_.sources.size(); ++k)
                if (plan_.sources[k].argument == CompiledPlan::kNone && s_.cells[i] == s_.cells[k])
                    return false;
        }
        if (!s_.pending.empty()) [[unlikely]]
            compute_pending();
        return true;
    }

    [[gnu::cold]] void compute_pending() {
        const std::vector<Node *> pending = std::exchange(s_.pending, {}); // this may throw
        eval_nodes(pending, {});
        for (size_t i = 0; i < plan_.sources.size(); ++i)
            s_.nodes[i] = s_.cells[i]->current;
    }

    bool slots_hold() const {
        if (plan_.simple)
            return true;
        for (const CompiledPlan::GradientChange &gradient : plan_.gradients) {
            const StepExtras::Kept *const k = kept(gradient);
            if (!k || k->grad.defined() != gradient.defined)
                return false;
        }
        return true;
    }

    static Node *node_of_input(const CompiledPlan::Input &input, const CompiledPlan &plan, const Scratch &s) {
        return input.source != CompiledPlan::kNone ? s.nodes[input.source]
                                                   : Access::node(plan.constants[input.constant]);
    }

    /// A value that the Program may overwrite is the last version of a tensor that gets another one.
    static bool may_be_overwritten(const Node *node) {
        const Storage *const storage = node->storage;
        return node->uses() == 1 && storage->refs.load(std::memory_order_acquire) == 1 && !storage->adopted &&
               !storage->exposed.load(std::memory_order_relaxed);
    }

    bool inputs_hold() {
        bool tracked = plan_.on_streams;
        for (size_t i = 0; i < plan_.inputs.size(); ++i) {
            const CompiledPlan::Input &input = plan_.inputs[i];
            Node *const node = node_of_input(input, plan_, s_);
            if (node->state.load(std::memory_order_acquire) != State::Ready ||
                node->in_flight.load(std::memory_order_acquire))
                return false;
            if (input.donated && !may_be_overwritten(node))
                return false;
            s_.inputs[i] = node->storage->data();
            tracked = tracked || node->storage->block.use.load(std::memory_order_acquire);
        }
        if (!plan_.simple && !(values_hold() && elements_are_there()))
            return false;
        tracked_ = tracked;
        if (tracked)
            for (size_t i = 0; i < plan_.inputs.size(); ++i)
                s_.input_uses[i] =
                    engine::Engine::track(node_of_input(plan_.inputs[i], plan_, s_)->storage->block);
        return true;
    }

    bool values_hold() const {
        return std::ranges::all_of(plan_.values, [&](const CompiledPlan::Value &value) {
            return value.source == CompiledPlan::kNone || source_can_be_shared(value);
        });
    }

    bool elements_are_there() const {
        return std::ranges::all_of(plan_.again, [&](const CompiledPlan::Word &word) {
            return word.kind != CompiledPlan::Word::Kind::Element || is_there(s_.nodes[word.of]);
        });
    }

    bool is_there(const Node *node) const {
        return node->state.load(std::memory_order_acquire) == State::Ready &&
               !node->in_flight.load(std::memory_order_acquire) && node->storage &&
               engine::Engine::get().is_idle(node->storage->block, false);
    }

    bool source_can_be_shared(const CompiledPlan::Value &value) const {
        const Node *const node = s_.nodes[value.source];
        if (node->state.load(std::memory_order_acquire) != State::Ready ||
            node->in_flight.load(std::memory_order_acquire))
            return false;
        return !value.reshaped || (!node->storage->exposed.load(std::memory_order_acquire) &&
                                   !node->storage->adopted && !node->storage->block.pinned);
    }

    /// False: there is no memory, which recording knows how to deal with.
    bool bind_results() {
        const engine::Engine &engine = engine::Engine::get();
        for (uint32_t r = 0; r < plan_.results.size(); ++r) {
            const CompiledPlan::Result &result = plan_.results[r];
            Storage *storage = nullptr;
            if (result.donor >= 0) {
                storage = node_of_input(plan_.inputs[static_cast<size_t>(result.donor)], plan_, s_)->storage;
                storage->retain();
            } else if (StorageSlot *const slot = result.slot.get(); slot && !tracked_) {
                storage = slot->take(); // what an earlier call had
            }
            if (!storage) {
                try {
                    storage =
                        Storage::allocate(result.type.bytes(), engine.result_home(*plan_.executable, r));
                } catch (const ir::Failure &) {
                    return false;
                }
                if (StorageSlot *const slot = result.slot.get()) {
                    slot->retain();
                    storage->slot = slot;
                }
            }
            s_.storages[r] = storage;
            bound_ = r + 1;
            s_.results[r] = storage->data();
            if (tracked_)
                s_.result_uses[r] = engine::Engine::track(storage->block);
        }
        return true;
    }

    std::span<const int64_t> bind_words() {
        if (plan_.simple || (plan_.again.empty() && plan_.work.empty() && plan_.draws.empty())) {
            return plan_.words;
        }
        s_.words.assign(plan_.words.begin(), plan_.words.end());
        Few<double, 8> again;
        size_t next = 0;
        for (const Trace::HostWork &work : plan_.work) {
            if (work.work)
                work.work();
            else
                again.push_back(plan_.numbers_again[next++]());
            ++worked_;
        }
        Few<Generator::State, 8> draws;
        for (const Trace::Draw &draw : plan_.draws)
            draws.push_back(default_generator().draw(draw.words));
        for (const CompiledPlan::Word &word : plan_.again)
            s_.words[word.at] = [&] {
                switch (word.kind) {
                case CompiledPlan::Word::Kind::Seed:
                    return static_cast<int64_t>(draws.span()[word.of].seed);
                case CompiledPlan::Word::Kind::Offset:
                    return static_cast<int64_t>(draws.span()[word.of].offset);
                case CompiledPlan::Word::Kind::Again:
                    return ir::scalar_word(again.span()[word.of]);
                case CompiledPlan::Word::Kind::Number:
                    return ir::scalar_word(in_form(arguments_.numbers.span()[word.of], word.form));
                case CompiledPlan::Word::Kind::Element:
                    return word_of_element(s_.nodes[word.of]->storage->data(), s_.nodes[word.of]->type.dtype);
                }
                return int64_t{0};
            }();
        return s_.words;
    }

    /// A replay that fails has changed nothing (S96).
    [[gnu::cold]] void undo_work() const {
        for (size_t i = worked_; i-- > 0;)
            if (plan_.work[i].undo)
                plan_.work[i].undo();
    }

    /// All results stand or fall together.
    void groups(std::span<uint32_t> group) const override { std::ranges::fill(group, 0u); }

    ir::Launched put(ir::Bindings &bindings) const {
        try {
            return run_on_account(*plan_.executable, bindings, false);
        } catch (const ir::Failure &failure) {
            fail(failure);
        } catch (const std::bad_alloc &) {
            throw OutOfMemoryError(kNoMemoryToRun, {});
        }
    }

    void launch(std::span<const int64_t> words) {
        s_.lines.clear();
        if (engine::Engine::profiling())
            for (const CompiledPlan::Operation &operation : plan_.operations)
                s_.lines.push_back(operation.loc);
        const size_t tracked_inputs = tracked_ ? plan_.inputs.size() : 0,
                     tracked_results = tracked_ ? plan_.results.size() : 0;
        ir::Bindings bindings{std::span(s_.inputs.data(), plan_.inputs.size()),
                              std::span(s_.results.data(), plan_.results.size()),
                              words,
                              s_.lines,
                              std::span(s_.input_uses.data(), tracked_inputs),
                              std::span(s_.result_uses.data(), tracked_results),
                              nullptr,
                              {},
                              this};
        ir::Launched launched = put(bindings);
        if (launched.flight && plan_.may_fail_later)
            launched.report = launched.flight->finish({});
        if (launched.stopped) [[unlikely]]
            stop(std::move(launched.stopped));
        else if (!launched.report.failures.empty()) [[unlikely]]
            fail(launched.report);
    }

    /// The call fails, but what it does is done at a later sync: tensors that it changes get their new
    /// versions now, which nobody can read until then.
    [[gnu::cold]] void stop(std::unique_ptr<ir::StoppedRun> run) {
        std::vector<Node *> inputs;
        for (const CompiledPlan::Input &input : plan_.inputs)
            inputs.push_back(node_of_input(input, plan_, s_));
        FailureRecord *const record = record_of(run->why(), kGoesOnLater);
        try {
            stopped_ = keep_stopped(std::move(run), record, inputs,
                                    std::span(s_.storages.data(), plan_.results.size()));
            for (const CompiledPlan::Operation &operation : plan_.operations) {
                stopped_->lines.push_back(from_ir(operation.loc));
                stopped_->ops.push_back(operation.op);
            }
        } catch (...) {
            stopped_.reset();
            lose_changed(record);
            record->release();
            throw;
        }
        record->release();
    }
    [[noreturn, gnu::cold]] void throw_stopped() {
        FailureRecord *const record = stopped_->record;
        record->told.store(true, std::memory_order_release);
        const ir::Failure failure = record->failure;
        const Location loc = record->loc;
        hand_over(std::move(stopped_));
        throw_public(failure, loc);
    }

    /// A reference. `more` comes after the message.
    FailureRecord *record_of(const ir::Failure &failure, const char *more) const {
        const ir::Failure told(failure.kind(), failure.message() + more, failure.loc(), failure.node());
        if (failure.node() >= plan_.operations.size())
            return new FailureRecord(told, {});
        const CompiledPlan::Operation &operation = plan_.operations[failure.node()];
        const Location loc = from_ir(operation.loc);
        return new FailureRecord(of_operation(told, operation.op, loc), loc);
    }
    [[noreturn, gnu::cold]] void fail(const ir::Failure &failure) const {
        if (failure.node() >= plan_.operations.size())
            throw_public(failure, {});
        const CompiledPlan::Operation &operation = plan_.operations[failure.node()];
        throw_public(of_operation(failure, operation.op, from_ir(operation.loc)), from_ir(operation.loc));
    }
    [[noreturn, gnu::cold]] void fail(const ir::RunReport &report) const {
        std::vector<bool> as_before(plan_.results.size());
        for (const ir::RunReport::Failed &failed : report.failures)
            for (const uint32_t r : failed.results)
                as_before[r] = true;
        for (const uint32_t r : report.overwritten)
            as_before[r] = false;
        bool changed = false;
        for (size_t r = 0; r < as_before.size(); ++r)
            changed = changed || (plan_.results[r].donor >= 0 && !as_before[r]);
        if (changed && report.refused) { // and on a device that is lost, or in place: it cannot be done later
            FailureRecord *const record = record_of(report.failures.front().failure, "");
            lose_changed(record);
            record->release();
        }
        fail(report.failures.front().failure);
    }
    /// Tensors that the call changes have no value: some would be as before it and others as after it.
    void lose_changed(FailureRecord *record) const {
        record->told.store(true, std::memory_order_release);
        for (const CompiledPlan::Result &result : plan_.results) {
            if (result.donor < 0)
                continue;
            Node *const node = node_of_input(plan_.inputs[static_cast<size_t>(result.donor)], plan_, s_);
            detail::fail(node, record);
            node->state.store(State::Failed, std::memory_order_release);
        }
    }

    /// A version of a tensor that the Program has written over, where it was: the tensor has its new value.
    bool is_in_place(const CompiledPlan::Update &update, const CompiledPlan::Value &value) const {
        if (value.result == CompiledPlan::kNone)
            return false;
        const int donor = plan_.results[value.result].donor;
        return donor >= 0 && plan_.inputs[static_cast<size_t>(donor)].source == update.source &&
               s_.nodes[update.source]->type == value.type;
    }

    /// Handles of the values that more than one place gets, or that are nobody's new version.
    const Tensor &value(uint32_t index) {
        Tensor &made = s_.values[index];
        if (made.defined())
            return made;
        const CompiledPlan::Value &v = plan_.values[index];
        if (v.result != CompiledPlan::kNone) {
            made = make_ready(v.type, std::exchange(s_.storages[v.result], nullptr), from_ir(v.loc));
            if (stopped_) [[unlikely]]
                stop_result(*stopped_, v.result, Access::node(made));
        } else if (v.reshaped) {
            Storage *const storage = s_.nodes[v.source]->storage;
            storage->retain();
            made = make_ready(v.type, storage, from_ir(v.loc));
        } else {
            made = Access::wrap(make_alias(s_.nodes[v.source]));
        }
        return made;
    }

    /// Before anything changes: what may throw.
    void make_values() {
        for (const CompiledPlan::Update &update : plan_.updates)
            if (!is_in_place(update, plan_.values[update.value]))
                value(update.value);
        for (const CompiledPlan::GradientChange &gradient : plan_.gradients)
            if (gradient.value != CompiledPlan::kNone)
                value(gradient.value);
    }

    void give(CompiledResults &results) {
        results.count = plan_.outputs.size();
        if (results.count > results.few.size())
            results.more.resize(results.count);
        for (size_t i = 0; i < results.count; ++i)
            results.data()[i] = output(plan_.outputs[i], results);
        results.skeleton = plan_.skeleton;
    }

    void change_tensors() {
        for (const CompiledPlan::Update &update : plan_.updates) {
            if (is_in_place(update, plan_.values[update.value]) && !s_.values[update.value].defined()) {
                if (stopped_) [[unlikely]]
                    stop_result(*stopped_, plan_.values[update.value].result, s_.nodes[update.source]);
                continue; // its node shows the memory that was written
            }
            Cell *const cell = s_.cells[update.source];
            Node *const next = Access::node(s_.values[update.value]);
            add_use(next);
            drop_use(std::exchange(cell->current, next));
        }
        for (const CompiledPlan::GradientChange &gradient : plan_.gradients)
            if (gradient.is_set)
                set_gradient(gradient);
    }

    void set_gradient(const CompiledPlan::GradientChange &gradient) {
        Tensor value = gradient.value == CompiledPlan::kNone ? Tensor() : own(gradient.value);
        std::swap(kept(gradient)->grad, value);
    }

    /// A tensor of its own; of several places that get one value the first takes the tensor that was made.
    Tensor own(uint32_t index) {
        const Tensor &made = value(index);
        if (plan_.values[index].places == 1)
            return std::move(s_.values[index]);
        if (Access::cell(made)->handles.load(std::memory_order_acquire) == 1)
            return made;
        return Access::wrap(make_alias(Access::node(made)));
    }

    Tensor output(const CompiledPlan::Output &output, CompiledResults &results) {
        if (output.empty)
            return {};
        if (output.same_source != CompiledPlan::kNone) {
            copy_handle(s_.cells[output.same_source]);
            return Access::wrap(s_.cells[output.same_source]);
        }
        if (output.same_output != CompiledPlan::kNone)
            return results.data()[output.same_output];
        Tensor out = own(output.value);
        if (output.history.get()) {
            Cell *const cell = Access::cell(out);
            retain(output.history.get());
            cell->history = output.history.get();
            cell->result = output.history_result;
        }
        return out;
    }

    const CompiledPlan &plan_;
    const CompiledArguments &arguments_;
    Scratch &s_;
    bool tracked_ = false;
    size_t bound_ = 0;  ///< results that have a storage
    size_t worked_ = 0; ///< so much of the host's work has been done
    StoppedPtr stopped_;
};

} // namespace

bool replay(const CompiledPlan &plan, const CompiledArguments &arguments, CompiledResults &results) {
    const TakenScratch scratch;
    return PlanReplay(plan, arguments, *scratch).run(results);
}

} // namespace lz::detail
