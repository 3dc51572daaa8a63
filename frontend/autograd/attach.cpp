#include "frontend/autograd/attach.h"

#include "frontend/autograd/rows.h"
#include "frontend/record/make_node.h"
#include "frontend/record/record.h"

#include <bit>
#include <new>
#include <string>

namespace lz::detail {
namespace {

/// Operands whose gradients are wanted, and what these need.
struct Wanted {
    bool any = false;
    uint32_t keeps = 0;
};

bool wants_gradient(const Tensor &x) {
    const Cell *const cell = Access::cell(x);
    return cell->history && cell->history->wants_gradient() && ir::is_float(type(x).dtype);
}

bool is_wanted(const Entry &entry, const Tensor &operand) {
    return has_history(operand) && entry.kind != Entry::Kind::None && wants_gradient(operand);
}

/// The values behind the mask's bits, in their order; each gets a use.
void save(Step &step, uint32_t mask, std::span<const Tensor *const> operands,
          std::span<const Tensor> results) {
    step.saved_mask = mask;
    size_t at = 0;
    for (; mask != 0; mask &= mask - 1) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(mask));
        Node *const n = Access::node(bit < Step::kResult0 ? *operands[bit] : results[bit - Step::kResult0]);
        add_use(n);
        step.saved()[at++] = n;
    }
}

void link(Step &step, size_t input, const Tensor &operand) {
    const Cell *const cell = Access::cell(operand);
    retain(cell->history);
    step.inputs()[input] = {cell->history, cell->result};
}

/// Takes over one reference of the step.
void set_history(const Tensor &x, Step *step, uint16_t result) noexcept {
    Cell *const cell = Access::cell(x);
    Step *const before = std::exchange(cell->history, step);
    const uint16_t result_before = std::exchange(cell->result, result);
    if (std::exchange(cell->keeps_grad, false))
        forget_grad(*before, result_before);
    if (before)
        release(before);
}

/// What the gradient of one operand needs to know of the others, behind the attributes (formulas.h): how many
/// words, and the words.
size_t count_of_extents(Node *n, std::span<const Tensor *const> operands) {
    if (n->op == Op::Concat)
        return operands.size();
    return n->op == Op::UpdateSlice ? static_cast<size_t>(type(*operands[1]).shape.rank()) : 0;
}
void write_extents(int64_t *words, Node *n, std::span<const Tensor *const> operands) {
    if (n->op == Op::Concat)
        for (const Tensor *const x : operands)
            *words++ = type(*x).shape[static_cast<int>(n->attrs().integer(ir::attr::kAxis))];
    if (n->op == Op::UpdateSlice)
        std::ranges::copy(type(*operands[1]).shape, words);
}

/// Zeros for what is overwritten, and all of it for the value, if that has a history.
void overwritten(RuleCall &call) {
    if (call.wanted(0)) {
        const ir::TensorType &type = call.type(0);
        call.give(0, record_literal(from_ir(type.dtype), 0, type.shape, type.device, call.loc()));
    }
    if (call.num_inputs() > 1 && call.wanted(1))
        call.give(1, call.g());
}
constexpr CompositeRule kOverwriting = {{overwritten}, {}};

/// The stream that the user named for the operation.
void note_stream(Step &step, Node *n) {
    if (n->stream == ir::kNoStream)
        return;
    StepExtras &more = step.more();
    more.stream_device = device_of_work(n);
    more.stream = n->stream;
    more.stream_handle = Recorder::current().stream_handle(more.stream_device);
}

} // namespace

void attach(std::span<const Tensor> results, std::span<const Tensor *const> operands) {
    Node *const n = Access::node(results[0]);
    const Row &row = gradient_row(n->op);
    if (row.count == 0 || !ir::is_float(n->type.dtype))
        return;
    Wanted wanted;
    for (size_t i = 0; i < operands.size(); ++i)
        if (const Entry &entry = row.of(i); is_wanted(entry, *operands[i])) {
            wanted.any = true;
            wanted.keeps |= entry.keeps;
        }
    if (!wanted.any)
        return;
    const size_t own = size_t{n->num_structural} + n->num_runtime;
    const size_t extents = count_of_extents(n, operands);
    StepRef made = StepRef::take(make_step(&kRowRule, n->op, n->loc, results.size(), operands.size(),
                                           static_cast<size_t>(std::popcount(wanted.keeps)), own + extents));
    Step *const step = made.get();
    step->num_structural = n->num_structural;
    std::copy_n(n->structural_data(), own, step->words().data());
    if (extents != 0) [[unlikely]]
        write_extents(step->words().data() + own, n, operands);
    for (size_t k = 0; k < results.size(); ++k)
        step->results()[k] = type(results[k]);
    for (size_t i = 0; i < operands.size(); ++i)
        if (is_wanted(row.of(i), *operands[i]))
            link(*step, i, *operands[i]);
    if (wanted.keeps != 0)
        save(*step, wanted.keeps, operands, results);
    note_stream(*step, n);
    set_history(results[0], made.leave(), 0);
    for (size_t k = 1; k < results.size(); ++k)
        if (ir::is_float(type(results[k]).dtype)) {
            retain(step);
            set_history(results[k], step, static_cast<uint16_t>(k));
        }
}

void use_with_history(Node *n, std::span<const Tensor *const> operands) {
    const Row &row = gradient_row(n->op);
    uint32_t wanted = 0, keeps = 0;
    for (uint32_t i = 0; i < operands.size(); ++i) {
        const Entry &entry = row.of(i);
        const Step *const history = Access::cell(*operands[i])->history;
        if (history && entry.kind != Entry::Kind::None && history->wants_gradient()) {
            wanted |= uint32_t{1} << i;
            keeps |= entry.keeps;
        }
    }
    Step *step = nullptr;
    if (wanted != 0)
        try {
            step = make_step(&kRowRule, n->op, n->loc, 1, operands.size(),
                             static_cast<size_t>(std::popcount(keeps)), 0);
        } catch (const std::bad_alloc &) {
            discard(n);
            throw;
        }
    // What the step saves is a use more of an operand: one exchange counts both.
    for (uint32_t i = 0; i < operands.size(); ++i) {
        const uint64_t uses = step && (keeps >> i & 1) != 0 ? 2 : 1;
        n->operand_data()[i]->refs.fetch_add(uses * Node::kUse, std::memory_order_relaxed);
    }
    if (!step)
        return;
    step->results()[0] = n->type;
    for (uint32_t i = 0; i < operands.size(); ++i)
        if ((wanted >> i & 1) != 0)
            link(*step, i, *operands[i]);
    step->saved_mask = keeps;
    Node **saved = step->saved().data();
    for (uint32_t i = 0; i < operands.size(); ++i)
        if ((keeps >> i & 1) != 0)
            *saved++ = n->operand_data()[i];
    if ((keeps & Step::saved_result(0)) != 0) { // nobody else knows the node: its count is written as it is
        n->refs.store(n->refs.load(std::memory_order_relaxed) + Node::kUse, std::memory_order_relaxed);
        *saved = n;
    }
    n->cell.history = step;
}

void attach_composite(const CompositeRule &rule, Tensor &result, std::span<const Tensor *const> inputs,
                      std::span<const int64_t> words, Location loc) {
    const auto is_wanted = [](const Tensor *x) { return x->defined() && wants_gradient(*x); };
    if (!ir::is_float(type(result).dtype) || std::ranges::none_of(inputs, is_wanted))
        return;
    uint32_t keeps = 0;
    for (size_t i = 0; i < inputs.size(); ++i)
        if (is_wanted(inputs[i]))
            keeps |= rule.keeps[i];
    for (size_t i = 0; i < inputs.size(); ++i)
        if (!inputs[i]->defined())
            keeps &= ~(uint32_t{1} << i);
    // A composition that had nothing to do gave an input back, whose history is its own.
    if (const Cell *const cell = Access::cell(result); cell->history || cell->handles.load() != 1)
        result = Access::wrap(make_alias(Access::node(result)));
    StepRef made = StepRef::take(make_step(&rule.rule, Access::node(result)->op, to_ir(loc), 1, inputs.size(),
                                           static_cast<size_t>(std::popcount(keeps)), words.size()));
    Step *const step = made.get();
    std::ranges::copy(words, step->words().data());
    step->results()[0] = type(result);
    for (size_t i = 0; i < inputs.size(); ++i)
        if (is_wanted(inputs[i]))
            link(*step, i, *inputs[i]);
    save(*step, keeps, inputs, {&result, 1});
    note_stream(*step, Access::node(result));
    set_history(result, made.leave(), 0);
}

StepRef make_function_step(const Rule &rule, ir::Location loc, std::span<const Tensor> results,
                           std::span<const Tensor> inputs, std::shared_ptr<void> payload) {
    const auto is_wanted = [](const Tensor &x) { return x.defined() && wants_gradient(x); };
    if (std::ranges::none_of(inputs, is_wanted))
        return {};
    StepRef step = StepRef::take(
        make_step(&rule, Access::node(results[0])->op, loc, results.size(), inputs.size(), 0, 0));
    step->more().payload = std::move(payload);
    for (size_t k = 0; k < results.size(); ++k)
        step->results()[k] = type(results[k]);
    for (size_t i = 0; i < inputs.size(); ++i)
        if (is_wanted(inputs[i]))
            link(*step, i, inputs[i]);
    note_stream(*step, Access::node(results[0]));
    return step;
}

void set_function_history(Tensor &result, Step *step, uint16_t k) {
    if (step && !ir::is_float(type(result).dtype))
        step = nullptr;
    // A leaf that the function gives (a parameter that it has) keeps being one to others.
    if (Access::cell(result)->handles.load(std::memory_order_acquire) != 1)
        result = Access::wrap(make_alias(Access::node(result)));
    if (step)
        retain(step);
    set_history(result, step, k);
}

void share_history(Tensor &x, const Tensor &other) noexcept {
    const Cell *const from = Access::cell(other);
    if (!from->history)
        return;
    retain(from->history);
    set_history(x, from->history, from->result);
}

void forget_history(Tensor &x) noexcept {
    set_history(x, nullptr, 0);
}

void replace_leaf(Tensor &x, const ir::TensorType &type, Tensor grad, Location loc) {
    StepRef leaf = StepRef::take(make_leaf(type, to_ir(loc)));
    StepExtras &next = leaf->more();
    next.kept.front()->grad = std::move(grad);
    {
        Step &before = *Access::cell(x)->history;
        const StepLock lock(before);
        next.frozen = before.extras->frozen;
        next.hooks = std::move(before.extras->hooks);
        next.next_hook = before.extras->next_hook;
    }
    set_history(x, leaf.leave(), 0);
    Access::cell(x)->keeps_grad = true;
}

void check_in_place(const Tensor &target, const Node *value) {
    const Step &history = *Access::cell(target)->history;
    if (!Recorder::current().grad_mode() || !history.is_leaf() || !history.wants_gradient())
        return;
    std::string function(ir::function_name(value->loc.function));
    if (function.empty())
        function = std::string(ir::name(value->op)) + "_";
    throw StateError(
        function + ": the tensor is a leaf that requires grad (since " + ir::to_string(history.loc) +
            "), which cannot be changed in place while gradients are recorded; change it under a "
            "NoGradGuard, or change a clone of it",
        from_ir(value->loc));
}

void take_history(Tensor &target, const Tensor &value) noexcept {
    if (!Recorder::current().grad_mode())
        return;
    const Cell *const from = Access::cell(value);
    Step *const history = from->history;
    if (from == Access::cell(target))
        return;
    if (!history && Access::cell(target)->history && Access::cell(target)->history->is_leaf())
        return; // frozen: it keeps its gradient
    if (history)
        retain(history);
    set_history(target, history, from->result);
}

void attach_overwriting(const Tensor &target, Tensor &value, Location loc) {
    if (!Recorder::current().grad_mode() || !has_history(target) || !has_history(value) ||
        Access::cell(target)->history->is_leaf() || !wants_gradient(target))
        return;
    const Tensor source = value;
    const std::array<const Tensor *, 2> inputs = {&target, &source};
    attach_composite(kOverwriting, value, inputs, {}, loc);
}
StepRef make_overwriting_step(const Tensor &target, const Tensor &value) {
    if (!Recorder::current().grad_mode())
        return {};
    return make_function_step(kOverwriting.rule, Access::node(value)->loc, {&value, 1}, {&target, 1}, {});
}
void take_step(Tensor &target, StepRef step) noexcept {
    set_history(target, step.leave(), 0);
}

} // namespace lz::detail
