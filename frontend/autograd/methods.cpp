// The public functions of autograd.
#include "lazuli/autograd.h"
#include "lazuli/autograd/swap.h"

#include "frontend/autograd/attach.h"
#include "frontend/autograd/backward.h"
#include "frontend/ops/compose.h"
#include "frontend/record/trace.h"

#include <algorithm>
#include <string>

namespace lz {

using detail::Access;
using detail::Cell;
using detail::Step;

bool GradMode::is_enabled() {
    return detail::Recorder::current().grad_mode();
}
void GradMode::set_enabled(bool enabled) {
    detail::Recorder::current().set_grad_mode(enabled);
}

namespace {

Cell *cell_of(const Tensor &x, const char *function, Location loc) {
    detail::node_of(x, function, loc); // throws for an empty one
    return Access::cell(x);
}

/// A function that is recorded for `lz::compile` looks at the gradient, or changes it.
void note_gradient(const Cell *cell) {
    if (detail::Trace *const trace = detail::Recorder::current().trace(); trace && cell->history) [[unlikely]]
        trace->note_gradient(cell->history, cell->result);
}
void note_read(const Tensor &x) {
    if (detail::Trace *const trace = detail::Recorder::current().trace()) [[unlikely]]
        trace->note_read(x);
}
void reject_trace(const char *why, Location loc) {
    if (detail::Trace *const trace = detail::Recorder::current().trace()) [[unlikely]]
        trace->reject(why, loc);
}

/// The cell of a tensor that requires grad.
Cell *cell_with_history(const Tensor &x, const char *function, Location loc) {
    Cell *const cell = cell_of(x, function, loc);
    if (!cell->history || !cell->history->wants_gradient())
        throw StateError(
            std::string(function) + ": the tensor " + detail::text(detail::type(x)) +
                " does not require grad; call requires_grad_() on it, or on what it is computed from",
            loc);
    return cell;
}

} // namespace

Tensor &Tensor::requires_grad_(bool requires_grad, Location loc) & {
    Cell *const cell = cell_of(*this, "requires_grad_", loc);
    Step *const history = cell->history;
    if (history && !history->is_leaf()) {
        if (!requires_grad)
            throw StateError("requires_grad_: the tensor was computed from others that require grad (by " +
                                 std::string(ir::called(history->op, history->loc)) + " at " +
                                 ir::to_string(history->loc) + "); detach() gives one that does not",
                             loc);
    } else if (history) {
        history->extras->frozen = !requires_grad;
    } else if (requires_grad) {
        const ir::TensorType &type = detail::type(*this);
        if (!ir::is_float(type.dtype))
            throw DTypeError("requires_grad_: the tensor is " + detail::text(type) +
                                 "; there are gradients of floats only",
                             loc);
        cell->history = detail::make_leaf(type, detail::to_ir(loc));
        cell->result = 0;
        cell->keeps_grad = true;
    }
    return *this;
}
Tensor Tensor::requires_grad_(bool requires_grad, Location loc) && {
    requires_grad_(requires_grad, loc);
    return std::move(*this);
}

bool Tensor::requires_grad(Location loc) const {
    const Step *const history = cell_of(*this, "requires_grad", loc)->history;
    return history && history->wants_gradient();
}

bool Tensor::is_leaf(Location loc) const {
    const Step *const history = cell_of(*this, "is_leaf", loc)->history;
    return !history || history->is_leaf();
}

std::shared_ptr<const GradFn> Tensor::grad_fn(Location loc) const {
    const Step *const history = cell_of(*this, "grad_fn", loc)->history;
    if (!history || history->is_leaf())
        return nullptr;
    const std::string_view called = ir::called(history->op, history->loc);
    const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
    const bool is_class = !called.empty() && is_upper(called[0]);
    std::string name;
    bool begins = !is_class; // a word does
    for (const char c : called) {
        if (c == '_' && !is_class) {
            begins = true;
            continue;
        }
        name += begins && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
        begins = false;
    }
    return std::make_shared<GradFn>(name + (is_class ? "Backward" : "Backward0"));
}

Tensor &Tensor::grad(Location loc) const {
    const Cell *const cell = cell_of(*this, "grad", loc);
    note_gradient(cell);
    if (cell->history)
        if (auto *const kept = cell->history->kept(cell->result))
            return kept->grad;
    thread_local Tensor none;
    return none = Tensor();
}

Tensor &Tensor::mutable_grad(Location loc) {
    const Cell *const cell = cell_of(*this, "mutable_grad", loc);
    auto *const kept = cell->history ? cell->history->kept(cell->result) : nullptr;
    if (!kept)
        throw StateError(
            "mutable_grad: the tensor " + detail::text(detail::type(*this)) +
                " keeps no gradient; call requires_grad_() on it first, or retain_grad() on one that "
                "was computed",
            loc);
    note_gradient(cell);
    return kept->grad;
}

Tensor Tensor::detach(Location loc) const {
    detail::Node *const node = detail::node_of(*this, "detach", loc);
    note_read(*this);
    return Access::wrap(detail::make_alias(node));
}

Tensor &Tensor::detach_(Location loc) & {
    Cell *const cell = cell_of(*this, "detach_", loc);
    if (cell->history && cell->history->is_leaf())
        return requires_grad_(false, loc);
    detail::forget_history(*this);
    return *this;
}

Tensor &Tensor::set_data(const Tensor &value, Location loc) & {
    Cell *const cell = cell_of(*this, "set_data", loc);
    reject_trace("changes what a tensor is (set_data)", loc);
    detail::Node *const next = detail::node_of(value, "set_data", loc);
    Step *const history = cell->history;
    if (history && !history->is_leaf())
        throw StateError("set_data: the tensor was computed from others that require grad (by " +
                             std::string(ir::called(history->op, history->loc)) + " at " +
                             ir::to_string(history->loc) + "); detach_() makes it forget that",
                         loc);
    if (history && !(history->results()[0] == next->type)) {
        if (!ir::is_float(next->type.dtype))
            throw DTypeError("set_data: the tensor, which requires grad, would be " +
                                 detail::text(next->type) + "; there are gradients of floats only",
                             loc);
        // What was recorded from it so far has gradients of the former type: it is a new leaf.
        Tensor grad = this->grad(loc);
        if (grad.defined()) {
            if (detail::type(grad).shape == next->type.shape)
                grad = grad.to(detail::from_ir(next->type.device), detail::from_ir(next->type.dtype), loc);
            else
                grad = Tensor();
        }
        detail::replace_leaf(*this, next->type, std::move(grad), loc);
    }
    detail::Node *const last = cell->current;
    detail::add_use(next);
    cell->current = next;
    detail::drop_use(last);
    return *this;
}

void swap_tensors(Tensor &a, Tensor &b, Location loc) {
    Cell *const one = cell_of(a, "swap_tensors", loc);
    Cell *const other = cell_of(b, "swap_tensors", loc);
    reject_trace("swaps tensors", loc);
    std::swap(one->current, other->current);
    std::swap(one->history, other->history);
    std::swap(one->result, other->result);
    std::swap(one->keeps_grad, other->keeps_grad);
}

Tensor autograd::alias(const Tensor &x, Location loc) {
    const Cell *const cell = cell_of(x, "alias", loc);
    note_read(x);
    return Access::wrap(detail::make_alias(detail::Access::node(x), cell->history, cell->result));
}

void Tensor::retain_grad(Location loc) const {
    Cell *const cell = cell_with_history(*this, "retain_grad", loc);
    if (cell->history->kept(cell->result))
        return;
    auto kept = std::make_unique<detail::StepExtras::Kept>();
    kept->result = cell->result;
    const detail::StepLock lock(*cell->history);
    cell->history->more().kept.push_back(std::move(kept));
    cell->keeps_grad = true;
}

bool Tensor::retains_grad(Location loc) const {
    const Cell *const cell = cell_of(*this, "retains_grad", loc);
    return cell->history && !cell->history->is_leaf() && cell->history->kept(cell->result);
}

unsigned Tensor::add_hook(std::function<Tensor(const Tensor &)> hook, Location loc) const {
    Cell *const cell = cell_with_history(*this, "register_hook", loc);
    const detail::StepLock lock(*cell->history);
    detail::StepExtras &more = cell->history->more();
    more.hooks.push_back({more.next_hook, cell->result, std::move(hook)});
    return more.next_hook++;
}

void Tensor::remove_hook(unsigned number, Location loc) const {
    Cell *const cell = cell_with_history(*this, "remove_hook", loc);
    std::function<Tensor(const Tensor &)> removed; // what it holds may be the last of a graph
    const detail::StepLock lock(*cell->history);
    if (cell->history->extras) {
        auto &hooks = cell->history->extras->hooks;
        const auto found = std::ranges::find(hooks, number, &detail::StepExtras::Hook::number);
        if (found != hooks.end()) {
            removed = std::move(found->function);
            hooks.erase(found);
            return;
        }
    }
    throw StateError("remove_hook: the tensor has no hook of number " + std::to_string(number), loc);
}

void Tensor::backward(Location loc) const {
    backward(Tensor(), std::nullopt, false, loc);
}

void Tensor::backward(const Tensor &gradient, std::optional<bool> retain_graph, bool create_graph,
                      Location loc) const {
    loc = detail::in<"backward">(loc);
    detail::run_backward({this, 1}, {&gradient, 1}, {},
                         {.retain_graph = retain_graph.value_or(create_graph),
                          .create_graph = create_graph,
                          .accumulate = true,
                          .function = "backward"},
                         loc);
}

namespace autograd {
namespace {

void check_count(size_t tensors, size_t gradients, const char *function, Location loc) {
    if (gradients != 0 && gradients != tensors)
        throw StateError(std::string(function) + ": " + std::to_string(gradients) +
                             " gradients are given for " + std::to_string(tensors) +
                             " tensors; give one for each (an empty tensor: 1), or none",
                         loc);
}

} // namespace

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> grad_outputs, std::optional<bool> retain_graph,
                         bool create_graph, bool allow_unused, Location loc) {
    loc = detail::in<"grad">(loc);
    check_count(outputs.size(), grad_outputs.size(), "grad", loc);
    for (const Tensor &input : inputs)
        cell_with_history(input, "grad", loc);
    std::vector<Tensor> gradients = detail::run_backward(outputs, grad_outputs, inputs,
                                                         {.retain_graph = retain_graph.value_or(create_graph),
                                                          .create_graph = create_graph,
                                                          .accumulate = false,
                                                          .allow_unused = allow_unused,
                                                          .function = "grad"},
                                                         loc);
    return gradients;
}

void backward(std::span<const Tensor> tensors, std::span<const Tensor> gradients,
              std::optional<bool> retain_graph, bool create_graph, Location loc) {
    loc = detail::in<"backward">(loc);
    check_count(tensors.size(), gradients.size(), "backward", loc);
    detail::run_backward(tensors, gradients, {},
                         {.retain_graph = retain_graph.value_or(create_graph),
                          .create_graph = create_graph,
                          .accumulate = true,
                          .function = "backward"},
                         loc);
}

std::vector<Tensor> grad(std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> inputs,
                         std::initializer_list<Tensor> grad_outputs, std::optional<bool> retain_graph,
                         bool create_graph, bool allow_unused, Location loc) {
    return grad(std::span(outputs.begin(), outputs.size()), std::span(inputs.begin(), inputs.size()),
                std::span(grad_outputs.begin(), grad_outputs.size()), retain_graph, create_graph,
                allow_unused, loc);
}

void backward(std::initializer_list<Tensor> tensors, std::initializer_list<Tensor> gradients,
              std::optional<bool> retain_graph, bool create_graph, Location loc) {
    backward(std::span(tensors.begin(), tensors.size()), std::span(gradients.begin(), gradients.size()),
             retain_graph, create_graph, loc);
}

} // namespace autograd
} // namespace lz
