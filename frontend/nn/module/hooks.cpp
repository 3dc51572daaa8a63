#include "frontend/nn/module/hooks.h"

#include "frontend/nn/module/type_name.h"
#include "lazuli/autograd/function.h"
#include "lazuli/nn/module_holder.h"

#include <algorithm>

namespace lz::nn {

using detail::Hooks;

RemovableHandle Module::add_hook(int kind, Hook hook) {
    if (!hooks_)
        hooks_ = std::make_shared<Hooks>();
    RemovableHandle handle;
    handle.hooks_ = hooks_;
    handle.number_ = hooks_->next++;
    hooks_->of[static_cast<size_t>(kind)].push_back({handle.number_, std::move(hook)});
    return handle;
}

void RemovableHandle::remove() {
    if (const auto hooks = hooks_.lock())
        for (auto &kind : hooks->of)
            std::erase_if(kind, [&](const Hooks::Hook &hook) { return hook.number == number_; });
    hooks_.reset();
}

namespace detail {

namespace {

/// The tensor as another one, so that a hook on it sees this module's part of the gradient alone.
struct BackwardHookFunction : autograd::Function<BackwardHookFunction> {
    static Tensor forward(autograd::AutogradContext *, const Tensor &x) { return x; }
    static autograd::variable_list backward(autograd::AutogradContext *, autograd::variable_list grads) {
        return grads;
    }
};

} // namespace

/// What the gradients of a call wait for. Kept by the graph, and keeps nothing of it.
struct HookedCall::Backward {
    std::weak_ptr<Module> module;
    std::weak_ptr<Hooks> hooks;
    Tensor grad_output;

    /// The gradient of the input after all hooks.
    Tensor run(Tensor grad_input) {
        const Tensor output = std::exchange(grad_output, Tensor());
        const std::shared_ptr<Module> owner = module.lock();
        const std::shared_ptr<Hooks> there = hooks.lock();
        if (!owner || !there)
            return grad_input;
        for (const Hooks::Hook &hook : there->copy_of(Hooks::kBackward))
            if (Tensor changed = hook.function(*owner, grad_input, output); changed.defined())
                grad_input = std::move(changed);
        return grad_input;
    }
};

HookedCall::HookedCall(Module &module, const Tensor &input, Location loc)
    : module_(module), input_(input), loc_(loc) {
    const std::shared_ptr<Hooks> hooks = module.hooks_;
    for (const Hooks::Hook &hook : hooks->copy_of(Hooks::kBeforeForward))
        if (Tensor changed = hook.function(module, {}, input_); changed.defined())
            input_ = std::move(changed);
    if (hooks->of[Hooks::kBackward].empty() || !GradMode::is_enabled())
        return;
    backward_ = std::make_shared<Backward>();
    backward_->module = module.weak_from_this();
    backward_->hooks = hooks;
    if (input_.requires_grad(loc)) {
        input_ = BackwardHookFunction::apply_at(loc, input_);
        input_.register_hook([backward = backward_](const Tensor &grad) { return backward->run(grad); }, loc);
    }
}

HookedCall::~HookedCall() = default;

void HookedCall::finish(Tensor &result) {
    const std::shared_ptr<Hooks> hooks = module_.hooks_;
    if (hooks)
        for (const Hooks::Hook &hook : hooks->copy_of(Hooks::kAfterForward))
            if (Tensor changed = hook.function(module_, input_, result); changed.defined())
                result = std::move(changed);
    if (!backward_ || !result.requires_grad(loc_))
        return;
    const bool input_wants = input_.requires_grad(loc_);
    result = BackwardHookFunction::apply_at(loc_, result);
    result.register_hook(
        [backward = backward_, input_wants](const Tensor &grad) {
            backward->grad_output = grad;
            if (!input_wants)
                backward->run({});
        },
        loc_);
}

void throw_empty_holder(const std::type_info &type, Location loc) {
    throw StateError("the holder of a " + type_name(type) +
                         " is empty: it was made of nullptr, or moved from, and none was assigned",
                     loc);
}

} // namespace detail
} // namespace lz::nn
