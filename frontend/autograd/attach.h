#pragma once
/// Recording with gradients on: what backward has to know of an operation is kept beside it.

#include "frontend/autograd/rule_call.h"
#include "frontend/record/access.h"
#include "frontend/record/recorder.h"
#include "lazuli/ops/indexing.h"

#include <array>
#include <initializer_list>
#include <span>

namespace lz::detail {

/// Whether an operand has a history: what `record` looks at.
inline bool has_history(const Tensor &x) {
    return Access::cell(x)->history != nullptr;
}

/// Gives the results of a primitive a history, where its row has a gradient for an operand that wants one.
/// `results` are those of one node, in order.
void attach(std::span<const Tensor> results, std::span<const Tensor *const> operands);

/// For the short way of recording (record/elementwise.cpp). `n` is an elementwise operation on floats which
/// nobody has seen yet: its uses of the operands, and a history, where an operand wants a gradient. If it
/// throws, the node's memory is back.
void use_with_history(Node *n, std::span<const Tensor *const> operands);

/// The rule of a composition. `keeps[i]`: what the gradient of input i reads, as bits of Step::saved_mask.
struct CompositeRule {
    Rule rule;
    std::array<uint32_t, 3> keeps = {};
};

/// Gives the result of a composition that was recorded with grad mode off a history. `inputs` may be
/// undefined: there is none then.
void attach_composite(const CompositeRule &rule, Tensor &result, std::span<const Tensor *const> inputs,
                      std::span<const int64_t> words, Location loc);

/// The two halves of attach_function: no step where no input wants a gradient.
StepRef make_function_step(const Rule &rule, ir::Location loc, std::span<const Tensor> results,
                           std::span<const Tensor> inputs, std::shared_ptr<void> payload);
void set_function_history(Tensor &result, Step *step, uint16_t k);

/// Gives the results of a user's function, whatever history they had, that of one step with this rule; none
/// to those that want none. `payload` is the rule's. Inputs may be undefined.
template <class Differentiable>
StepRef attach_function(const Rule &rule, ir::Location loc, std::span<Tensor> results,
                        std::span<const Tensor> inputs, Differentiable &&differentiable,
                        std::shared_ptr<void> payload) {
    StepRef step = make_function_step(rule, loc, results, inputs, std::move(payload));
    for (size_t k = 0; k < results.size(); ++k)
        set_function_history(results[k], differentiable(results[k]) ? step.get() : nullptr,
                             static_cast<uint16_t>(k));
    return step;
}
/// Grad mode off, or on, until the end of the scope.
class GradModeScope {
public:
    explicit GradModeScope(bool on) : recorder_(Recorder::current()), before_(recorder_.set_grad_mode(on)) {}
    ~GradModeScope() { recorder_.set_grad_mode(before_); }
    GradModeScope(const GradModeScope &) = delete;
    GradModeScope &operator=(const GradModeScope &) = delete;

private:
    Recorder &recorder_;
    const bool before_;
};

/// What `compute` records, as one step with a rule of its own where an input wants a gradient: only inputs
/// and results are kept for backward, nothing that lies between. `words` are numbers for the rule
/// (RuleCall::words).
template <class F>
Tensor composite(const CompositeRule &rule, std::initializer_list<const Tensor *> inputs,
                 std::span<const int64_t> words, Location loc, F &&compute) {
    const auto wants = [](const Tensor *x) {
        if (Access::unread(*x)) [[unlikely]]
            read_mask(*x);
        return x->defined() && has_history(*x);
    };
    if (!Recorder::current().grad_mode() || std::ranges::none_of(inputs, wants)) [[likely]]
        return compute();
    Tensor result;
    {
        const GradModeScope off(false);
        result = compute();
    }
    attach_composite(rule, result, {inputs.begin(), inputs.size()}, words, loc);
    return result;
}
template <class F>
Tensor composite(const CompositeRule &rule, std::initializer_list<const Tensor *> inputs,
                 std::initializer_list<int64_t> words, Location loc, F &&compute) {
    return composite(rule, inputs, std::span(words.begin(), words.size()), loc, std::forward<F>(compute));
}

/// x, whose value is that of the other one, is to backward what that is.
void share_history(Tensor &x, const Tensor &other) noexcept;

void forget_history(Tensor &x) noexcept;

/// x, which is a leaf, is another one from now on, of this type and with this gradient; its hooks stay.
void replace_leaf(Tensor &x, const ir::TensorType &type, Tensor grad, Location loc);

/// `x`'s cell shows `value` from now on: with which history (S70). Throws StateError for a leaf that requires
/// grad while grad mode is on.
void check_in_place(const Tensor &target, const Node *value);
void take_history(Tensor &target, const Tensor &value) noexcept;

/// `value`, which has a history, overwrites all of `target`: it gets one by which the gradient of what is
/// overwritten is zeros, as in PyTorch, where that is wanted and gradients are on.
void attach_overwriting(const Tensor &target, Tensor &value, Location loc);
/// The step of a `value` without a history that overwrites all of `target`, which has one; likewise. For
/// take_step, once the target shows the value.
StepRef make_overwriting_step(const Tensor &target, const Tensor &value);
void take_step(Tensor &target, StepRef step) noexcept;

} // namespace lz::detail
