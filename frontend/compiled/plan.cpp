#include "frontend/compiled/plan.h"

#include "frontend/record/access.h"
#include "frontend/record/convert.h"
#include "frontend/record/execution/flights.h"
#include "frontend/record/record.h"
#include "frontend/record/recording/key.h"
#include "frontend/record/storage.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace lz::detail {

uint64_t next_plan_number() {
    static std::atomic<uint64_t> plans{0};
    return ++plans;
}

namespace {

using Shared = CapturedTensor::Shared;

struct CapturedTensors {
    std::mutex mutex;
    std::unordered_map<const Cell *, std::weak_ptr<Shared>> shared;
    /// A bit for each that was ever captured, which it may share with others: most tensors are not.
    std::array<std::atomic<uint64_t>, 64> filter{};

    static size_t bit_of(const Cell *cell) {
        return (reinterpret_cast<uintptr_t>(cell) * 0x9E3779B97F4A7C15) >> 52; // of 4096
    }
    void add_to_filter(const Cell *cell) {
        const size_t bit = bit_of(cell);
        filter[bit / 64].fetch_or(uint64_t{1} << bit % 64, std::memory_order_release);
    }
    bool may_have(const Cell *cell) const {
        const size_t bit = bit_of(cell);
        return filter[bit / 64].load(std::memory_order_acquire) >> bit % 64 & 1;
    }
};

CapturedTensors &captured_tensors() {
    static auto *const all = new CapturedTensors; // plans may live longer than what is static
    return *all;
}

void forget_captured(Shared *shared) {
    const std::unique_ptr<Shared> last(
        shared); // goes after the lock: whose memory this was may call anything
    CapturedTensors &all = captured_tensors();
    const std::lock_guard lock(all.mutex);
    if (const auto found = all.shared.find(Access::cell(shared->tensor));
        found != all.shared.end() && found->second.expired())
        all.shared.erase(found);
}

} // namespace

CapturedTensor::CapturedTensor(const Tensor &tensor) {
    const std::shared_ptr<Shared> added(new Shared(tensor), forget_captured);
    CapturedTensors &all = captured_tensors();
    const std::lock_guard lock(all.mutex);
    std::weak_ptr<Shared> &known = all.shared[Access::cell(tensor)];
    shared_ = known.lock();
    if (!shared_) {
        shared_ = added;
        known = added;
    }
    all.add_to_filter(Access::cell(tensor));
}

const Tensor &CapturedTensor::get() const {
    static const Tensor none;
    return shared_ ? shared_->tensor : none;
}

namespace {

/// Whether this library has the code. What it assigns is no variable of the user's: functions of ours have
/// handles of their arguments for a while.
bool is_ours(const void *code) {
    Dl_info there{}, here{};
    return dladdr(code, &there) != 0 && dladdr(reinterpret_cast<const void *>(&is_ours), &here) != 0 &&
           there.dli_fbase == here.dli_fbase;
}

} // namespace

/// What a function assigns while it is recorded is a part of what it does.
void drop_assigned(Cell *was, const Cell *now) noexcept {
    if (CapturedTensors &all = captured_tensors(); all.may_have(was) && was != now) [[unlikely]] {
        const Recorder *const recorder = Recorder::current_or_null();
        std::shared_ptr<Shared> shared; // goes without the lock
        if (!recorder || !recorder->trace()) {
            const std::lock_guard lock(all.mutex);
            if (const auto found = all.shared.find(was); found != all.shared.end())
                shared = found->second.lock();
        }
        if (shared && !is_ours(__builtin_return_address(0))) // which takes a microsecond
            shared->assigned.fetch_add(1, std::memory_order_release);
    }
    drop_handle(was);
}

namespace {

bool is_captured(const Trace::Source &source) {
    return source.argument == Trace::kNone && source.gradient == Trace::kNone;
}

/// Else the leaf is the function's own, and gone.
bool is_kept_outside(const Trace::GradientPlace &place) {
    return place.step->refs.load(std::memory_order_acquire) > 1;
}

/// A result up to this size goes back to the function that made it.
constexpr int64_t kKeptBytes = 16 << 10;

/// A result may keep a history that backward has used up: asking it again is the same error. Of steps that
/// saved nothing, as sums, backward uses up none; but from them, too, nothing may be reached but by steps
/// that it did.
bool is_used_up(Step *history) {
    std::vector<Step *> open = {history};
    std::unordered_set<const Step *> seen = {history};
    while (!open.empty()) {
        Step *const step = open.back();
        open.pop_back();
        if (step->consumed)
            continue;
        if (step->is_leaf() || step->num_saved > 0)
            return false;
        for (const Edge &edge : step->inputs())
            if (edge.step && seen.insert(edge.step).second)
                open.push_back(edge.step);
    }
    return true;
}

} // namespace

void CompiledPlan::Result::make_slot_if_small(bool on_streams) {
    if (!on_streams && donor < 0 && type.bytes() <= kKeptBytes)
        slot.make();
}

bool CompiledPlan::is_dead() const {
    return std::ranges::any_of(sources, [](const Source &source) {
        const Tensor &tensor = source.tensor.get();
        return tensor.defined() && (Access::cell(tensor)->handles.load(std::memory_order_acquire) == 1 ||
                                    source.tensor.assigned() != source.assigned);
    });
}

size_t CompiledPlan::bytes() const {
    return sizeof *this + key.size() * (sizeof(uint64_t) + sizeof(KeyWord)) + words.size() * sizeof(int64_t) +
           operations.size() * sizeof(Operation) + sources.size() * sizeof(Source) +
           inputs.size() * sizeof(Input) + results.size() * sizeof(Result) + values.size() * sizeof(Value) +
           outputs.size() * sizeof(Output) + updates.size() * sizeof(Update) +
           gradients.size() * sizeof(GradientChange) + numbers.size() * sizeof(KnownNumber) +
           earlier.size() * (numbers.size() * sizeof(double) + words.size() * sizeof(int64_t));
}

void CompiledPlan::note_simple() {
    simple = gradients.empty() && again.empty() && draws.empty() && work.empty() && updates.empty() &&
             std::ranges::all_of(sources, [](const Source &s) { return s.argument != kNone; }) &&
             std::ranges::all_of(values, [](const Value &v) { return v.source == kNone; });
}

PlanBuilder::PlanBuilder(Trace &trace, std::span<Tensor *const> results, std::span<const double> numbers)
    : trace_(trace) {
    plan_->number = next_plan_number();
    for (const double number : numbers)
        plan_->numbers.emplace_back(number, trace);
    add_sources();
    add_outputs(results);
    add_gradients();
    plan_->draws = trace.draws;
    plan_->work = trace.work;
    for (const Trace::Number &number : trace.numbers)
        plan_->numbers_again.push_back(number.again);
}

void PlanBuilder::add_sources() {
    for (const Trace::Source &source : trace_.sources) {
        const Cell *const cell = Access::cell(source.tensor);
        CompiledPlan::Source &added = plan_->sources.emplace_back();
        added.argument = source.argument;
        added.gradient = source.gradient;
        added.replaced = source.replaced;
        added.type = source.node->type;
        added.only = source.argument != Trace::kNone ? cell : nullptr;
        if (source.gradient != Trace::kNone) {
            const Trace::GradientPlace &place = trace_.gradients[source.gradient];
            added.gradient = static_cast<uint32_t>(std::count_if(
                trace_.gradients.begin(), trace_.gradients.begin() + source.gradient, is_kept_outside));
            if (!is_kept_outside(place))
                trace_.reject("reads a gradient of its own that was there before", from_ir(place.step->loc));
        }
        if (is_captured(source)) {
            added.tensor = CapturedTensor(source.tensor);
            added.assigned = added.tensor.assigned();
            if (cell->handles.load(std::memory_order_acquire) <= 2) // the trace's and the plans'
                trace_.reject("reads a tensor from outside that nobody else keeps",
                              from_ir(source.node->loc));
            if (cell->history) {
                added.history = StepRef(cell->history);
                added.wants_gradient = cell->history->wants_gradient();
                if (source.replaced && !cell->history->is_leaf())
                    trace_.reject("changes a tensor in place through which gradients go",
                                  from_ir(cell->history->loc));
            }
        } else if (source.replaced && cell->history && !cell->history->is_leaf()) {
            trace_.reject("changes a tensor in place through which gradients go",
                          from_ir(cell->history->loc));
        }
    }
}

/// The number of a value that the call leaves behind.
uint32_t PlanBuilder::value_of(Node *node) {
    const auto found = std::ranges::find(value_nodes_, node);
    const auto index = static_cast<uint32_t>(found - value_nodes_.begin());
    if (found != value_nodes_.end()) {
        ++value_cells_[index];
        return index;
    }
    CompiledPlan::Value value;
    value.type = node->type;
    value.loc = origin_of(node);
    if (!trace_.made(node)) {
        value.source = trace_.source_of(node);
        if (value.source == Trace::kNone)
            trace_.reject(trace_.constant(node) ? "gives a tensor that it made of the host's data"
                                                : "gives a value that was there before by another name",
                          from_ir(node->loc));
    } else {
        roots_.push_back(node);
    }
    plan_->values.push_back(value);
    value_nodes_.push_back(node);
    value_cells_.push_back(1);
    return index;
}

void PlanBuilder::add_outputs(std::span<Tensor *const> results) {
    std::vector<std::pair<const Cell *, uint32_t>> cells; // and how often they are among the results
    for (uint32_t i = 0; i < results.size(); ++i) {
        const Tensor &result = *results[i];
        CompiledPlan::Output &output = plan_->outputs.emplace_back();
        if (!result.defined()) {
            output.empty = true;
            if (Access::unread(result))
                trace_.reject("gives the elements that a mask selects", {});
            continue;
        }
        const Cell *const cell = Access::cell(result);
        output.same_source = trace_.source_of(cell);
        if (output.same_source != Trace::kNone)
            continue;
        const auto known = std::ranges::find(cells, cell, &std::pair<const Cell *, uint32_t>::first);
        if (known != cells.end()) {
            ++known->second;
            for (uint32_t k = 0; k < i; ++k)
                if (results[k]->defined() && Access::cell(*results[k]) == cell) {
                    output.same_output = k;
                    break;
                }
            continue;
        }
        cells.emplace_back(cell, 1);
        output.value = value_of(Access::node(result));
        if (Step *const history = cell->history) {
            if (!is_used_up(history))
                trace_.reject("gives a tensor through which gradients go (call it under a NoGradGuard, or "
                              "compile the whole step with its backward)",
                              from_ir(history->loc));
            output.history = StepRef(history);
            output.history_result = cell->result;
        }
    }
    for (const auto &[cell, count] : cells)
        if (cell->handles.load(std::memory_order_acquire) != count)
            trace_.reject("keeps a result in a variable outside", from_ir(cell->current->loc));
    for (uint32_t s = 0; s < trace_.sources.size(); ++s)
        if (const Trace::Source &source = trace_.sources[s]; source.replaced)
            plan_->updates.push_back({s, value_of(Access::node(source.tensor))});
}

void PlanBuilder::add_gradients() {
    for (const Trace::GradientPlace &place : trace_.gradients) {
        if (!is_kept_outside(place))
            continue;
        const auto number = static_cast<uint32_t>(&place - trace_.gradients.data());
        CompiledPlan::GradientChange &added = plan_->gradients.emplace_back();
        added.step = StepRef(place.step.get());
        added.result = place.result;
        added.defined = place.defined;
        const bool captured = std::ranges::any_of(trace_.sources, [&](const Trace::Source &source) {
            return source.argument == Trace::kNone &&
                   Access::cell(source.tensor)->history == place.step.get();
        });
        const StepExtras::Kept *const kept = place.step.get()->kept(place.result);
        if (!place.defined && !(kept && kept->grad.defined()))
            continue; // there was none, as `zero_grad` found, and is none
        added.is_set = true;
        if (!captured || !place.step->is_leaf())
            trace_.reject("changes the gradient of a tensor that it does not capture",
                          from_ir(place.step->loc));
        if (!kept)
            continue;
        const uint32_t own = [&] {
            for (uint32_t s = 0; s < trace_.sources.size(); ++s)
                if (trace_.sources[s].gradient == number)
                    return s;
            return Trace::kNone;
        }();
        if (!kept->grad.defined())
            continue;
        const Cell *const cell = Access::cell(kept->grad);
        if (own != Trace::kNone && Access::cell(trace_.sources[own].tensor) == cell) {
            added.is_set = false; // as it was, or changed in place
            continue;
        }
        if (cell->history || trace_.source_of(cell) != Trace::kNone ||
            cell->handles.load(std::memory_order_acquire) != 1)
            trace_.reject("keeps a gradient elsewhere as well", from_ir(place.step->loc));
        added.value = value_of(Access::node(kept->grad));
    }
}

void PlanBuilder::run(const Recording &recording, const engine::ExecutablePtr &executable) noexcept {
    ++runs_;
    if (runs_ > 1 || trace_.rejected()) {
        trace_.reject("was computed in several programs", {});
        return;
    }
    try {
        build(recording, executable);
    } catch (const std::bad_alloc &) {
        trace_.reject("there was no memory for the plan", {});
    }
}

void PlanBuilder::build(const Recording &recording, const engine::ExecutablePtr &executable) {
    plan_->executable = executable;
    plan_->on_streams = executable && !engine::Engine::get().cpu_only(*executable);
    if (!recording.streams.empty())
        trace_.reject("names streams", {});
    plan_->key.assign(recording.key.begin(),
                      recording.key.begin() + static_cast<ptrdiff_t>(recording.claimed_words));
    for (const Recording::Input &input : recording.inputs)
        if (input.key_at < plan_->key.size())
            plan_->key[input.key_at] &= ~kDonatedBit;
    plan_->key_words.assign(plan_->key.size(), CompiledPlan::KeyWord::Structure);
    add_inputs(recording);
    add_operations(recording);
    add_values(recording);
}

/// Says what `count` words of the key are.
void PlanBuilder::note_key_words(size_t first, size_t count, CompiledPlan::KeyWord kind) {
    for (size_t at = first; at < std::min(first + count, plan_->key_words.size()); ++at)
        plan_->key_words[at] = kind;
}

void PlanBuilder::add_inputs(const Recording &recording) {
    for (const Recording::Input &input : recording.inputs) {
        CompiledPlan::Input &added = plan_->inputs.emplace_back();
        added.donated = input.donated || input.donated_to != ir::kNone;
        if (const Tensor *const constant = trace_.constant(input.node)) {
            if (input.node->storage && input.node->storage->adopted)
                trace_.reject("reads memory of the user's that it made a tensor of",
                              from_ir(input.node->loc));
            note_key_words(input.key_at + 1, static_cast<size_t>(input.node->type.shape.rank()),
                           CompiledPlan::KeyWord::Attribute);
            added.constant = static_cast<uint32_t>(plan_->constants.size());
            plan_->constants.push_back(*constant);
            added.donated = false;
            continue;
        }
        added.source = trace_.source_of(input.node);
        const bool is_argument =
            added.source != Trace::kNone && plan_->sources[added.source].argument != CompiledPlan::kNone;
        note_key_words(input.key_at + 1, static_cast<size_t>(input.node->type.shape.rank()),
                       is_argument ? CompiledPlan::KeyWord::Extent : CompiledPlan::KeyWord::Attribute);
        if (added.source == Trace::kNone)
            trace_.reject("reads a value that was recorded before, by no tensor of its own",
                          from_ir(input.node->loc));
        else if (added.donated && !plan_->sources[added.source].replaced)
            trace_.reject("lets go of a tensor from outside", from_ir(input.node->loc));
    }
}

/// Whether the call leaves more behind than its results.
bool PlanBuilder::changes_something() const {
    return !plan_->work.empty() || std::ranges::any_of(plan_->sources, &CompiledPlan::Source::replaced) ||
           std::ranges::any_of(plan_->gradients, &CompiledPlan::GradientChange::is_set);
}

/// Which of the words of what was recorded are others at each call.
void PlanBuilder::add_operations(const Recording &recording) {
    plan_->words = recording.words;
    plan_->is_constant.assign(plan_->words.size(), false);
    uint32_t at = 0;
    const auto again = [&](CompiledPlan::Word::Kind kind, size_t of, uint32_t word) {
        plan_->again.push_back({word, kind, static_cast<uint32_t>(of), NumberForm::Itself});
    };
    for (const Recording::Operation &o : recording.operations) {
        Node *const n = o.node;
        plan_->operations.push_back({n->op, n->loc});
        if (o.argument) {
            if (const uint32_t source = trace_.source_of(n); source != Trace::kNone)
                again(CompiledPlan::Word::Kind::Element, source, at);
            else if (!trace_.constant(n))
                trace_.reject("reads a number that was recorded before", from_ir(n->loc));
            ++at;
            continue;
        }
        if (!trace_.made(n))
            trace_.reject("needs work that was recorded before", from_ir(n->loc));
        if (n->pinned)
            trace_.reject("gives a tensor in pinned memory", from_ir(n->loc));
        if (plan_->on_streams && has_checks(n)) {
            if (changes_something())
                trace_.reject("changes tensors, and has an operation that may fail on a GPU while it runs",
                              from_ir(n->loc));
            if (!std::exchange(plan_->may_fail_later, true))
                plan_->may_fail_at = n->loc;
        }
        if (n->projection == 0) {
            const size_t operands = (n->read_operands().size() + 1) / 2; // in words
            note_key_words(o.key_at + 1 + operands + (n->like ? 1 : 0), n->num_structural,
                           CompiledPlan::KeyWord::Attribute);
        }
        if (n->op == ir::Op::Philox)
            for (size_t d = 0; d < trace_.draws.size(); ++d)
                if (plan_->words[at] == static_cast<int64_t>(trace_.draws[d].seed) &&
                    plan_->words[at + 1] == static_cast<int64_t>(trace_.draws[d].offset) &&
                    trace_.draws[d].words > 0) {
                    again(CompiledPlan::Word::Kind::Seed, d, at);
                    again(CompiledPlan::Word::Kind::Offset, d, at + 1);
                    break;
                }
        if (n->op == ir::Op::Constant && ir::is_float(n->type.dtype)) {
            plan_->is_constant[at] = true;
            for (size_t k = 0; k < trace_.numbers.size(); ++k)
                if (trace_.numbers[k].node == n) {
                    again(CompiledPlan::Word::Kind::Again, k, at);
                    plan_->is_constant[at] = false;
                }
        }
        at += n->num_runtime;
    }
}

void PlanBuilder::add_values(const Recording &recording) {
    const engine::Engine &engine = engine::Engine::get();
    for (uint32_t r = 0; r < recording.wanted.size(); ++r) {
        const Recording::Operation &operation = recording.operations[recording.wanted[r]];
        Node *const n = operation.node;
        CompiledPlan::Result &result = plan_->results.emplace_back();
        result.type = n->type;
        result.donor = engine.donor(*plan_->executable, r);
        result.make_slot_if_small(plan_->on_streams);
        const auto found = std::ranges::find(value_nodes_, n);
        if (found == value_nodes_.end()) {
            if (!operation.for_versions) // a replay changes all or nothing, and needs none
                trace_.reject("keeps a tensor in a variable outside", from_ir(n->loc));
            continue;
        }
        const auto index = static_cast<size_t>(found - value_nodes_.begin());
        plan_->values[index].result = r;
        // Beside the recording's own use there is one for each cell.
        if (n->uses() != n->inner_uses + 1 + value_cells_[index])
            trace_.reject("keeps a tensor in a variable outside", from_ir(n->loc));
    }
    for (const Recording::Alias &alias : recording.aliases) {
        const auto found = std::ranges::find(value_nodes_, alias.node);
        const uint32_t source = trace_.source_of(alias.source);
        if (found == value_nodes_.end() || source == Trace::kNone || trace_.made(alias.source)) {
            trace_.reject("gives a view of what is no tensor from outside", from_ir(alias.node->loc));
            continue;
        }
        CompiledPlan::Value &value = plan_->values[static_cast<size_t>(found - value_nodes_.begin())];
        value.source = source;
        value.reshaped = true;
    }
    for (size_t i = 0; i < plan_->values.size(); ++i)
        plan_->values[i].places = value_cells_[i];
    for (const CompiledPlan::Value &value : plan_->values)
        if (value.result == CompiledPlan::kNone && value.source == CompiledPlan::kNone)
            trace_.reject("gives a value that is computed elsewhere", from_ir(value.loc));
}

std::shared_ptr<CompiledPlan> PlanBuilder::take() {
    if (runs_ == 0 && !roots_.empty())
        trace_.reject("was computed by another thread", {});
    for (const auto &constant : plan_->constants) {
        // One use is that of the handle that the trace and the plan share; runs on their way have others.
        const Node *const node = Access::node(constant);
        const uint32_t by_flights = uses_by_flights(node);
        if (node->uses() > 1 + by_flights)
            trace_.reject("keeps a tensor of the host's data in a variable outside", from_ir(node->loc));
    }
    return trace_.rejected() ? nullptr : std::move(plan_);
}

} // namespace lz::detail
