#pragma once
/// A module called with other tensors in place of its parameters and buffers.

#include "lazuli/core/ordered_dict.h"
#include "lazuli/nn/module_holder.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lz {
namespace nn {

/// Parameters and buffers of a module are other tensors until the end of the scope: for all that have a
/// handle of them, and with the histories of the other tensors, so that gradients go there. What was recorded
/// meanwhile stays what it was recorded from. For one thread at a time; scopes on one module end in the
/// reverse order.
class LZ_API ParameterScope {
public:
    /// `tensors`: any of the module's, by the names of `named_parameters` and `named_buffers`. Throws
    /// StateError, and changes nothing, for names that the module does not have (all of them are listed) and
    /// for an empty tensor.
    ParameterScope(Module &module, const StateDict &tensors, Location loc = Location::current());
    /// The module has its own again. What forward changed in place (running statistics) is let go of.
    ~ParameterScope();
    ParameterScope(const ParameterScope &) = delete;
    ParameterScope &operator=(const ParameterScope &) = delete;

private:
    std::vector<std::pair<Tensor, Tensor>> exchanged_; ///< of the module, and what stands for it
};

/// The tensors of a functional_call, and the line that it stands in. For the length of a call.
class LZ_API NamedTensors {
public:
    /// Those of a dictionary, which is not copied.
    NamedTensors(const StateDict &tensors, Location loc = Location::current()); // NOLINT: converts
    /// These.
    NamedTensors(std::initializer_list<StateDict::Item> tensors, Location loc = Location::current());
    ~NamedTensors();
    NamedTensors(const NamedTensors &) = delete;
    NamedTensors &operator=(const NamedTensors &) = delete;
    /// By name.
    const StateDict &tensors() const noexcept { return *tensors_; }
    /// The line of the call.
    Location loc() const noexcept { return loc_; }

private:
    std::optional<StateDict> own_;
    const StateDict *tensors_;
    Location loc_;
};

/// What the module gives when its parameters and buffers are these tensors, as torch.func.functional_call;
/// those that are not named are its own. Gradients go to the tensors. Throws as ParameterScope.
///
///     lz::nn::functional_call(net, {{"weight", w}, {"bias", b}}, x);
template <class M, class... A>
    requires std::derived_from<M, Module>
auto functional_call(M &module, const NamedTensors &tensors, A &&...arguments) {
    const ParameterScope scope(module, tensors.tensors(), tensors.loc());
    return call_module(module, tensors.loc(), std::forward<A>(arguments)...);
}
/// The same of what the holder holds.
template <class M, class... A>
auto functional_call(const ModuleHolder<M> &holder, const NamedTensors &tensors, A &&...arguments) {
    return functional_call(*holder, tensors, std::forward<A>(arguments)...);
}

} // namespace nn
} // namespace lz
