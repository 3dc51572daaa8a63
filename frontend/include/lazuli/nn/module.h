#pragma once
/// Module: parameters, buffers and modules inside it, by name. As in LibTorch:
///
///     struct Net : lz::nn::Module {
///         lz::nn::Linear fc1{register_module("fc1", lz::nn::Linear(784, 64))};
///         lz::nn::Linear fc2{register_module("fc2", lz::nn::Linear(64, 10))};
///         lz::Tensor forward(const lz::Tensor &x) { return fc2(lz::relu(fc1(x))); }
///     };
///     Net net;
///     net.to("cuda");
///
/// A parameter is a tensor that requires grad. What the module has registered and what its members hold are
/// handles of the same tensors: `to`, `load_state_dict` and optimizers change both. So does a copy of a
/// module; `clone` makes one with parameters of its own. One module may be used by several threads as long as
/// none changes it.

#include "lazuli/autograd.h"
#include "lazuli/core/options.h"
#include "lazuli/core/ordered_dict.h"
#include "lazuli/tensor.h"

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lz::serialize {
class OutputArchive;
class InputArchive;
} // namespace lz::serialize

namespace lz {
namespace nn {

class Module;
template <class Contained>
class ModuleHolder;

namespace detail {
struct Hooks;
class HookedCall;
} // namespace detail

/// A hook of a module, which it takes off again.
class LZ_API RemovableHandle {
public:
    /// Of no hook.
    RemovableHandle() = default;
    /// Takes the hook off, if it is still there.
    void remove();

private:
    friend class Module;
    std::weak_ptr<detail::Hooks> hooks_;
    unsigned number_ = 0;
};

/// What `load_state_dict` found to differ where it is not strict.
struct IncompatibleKeys {
    /// Names of the module that the dictionary lacks.
    std::vector<std::string> missing_keys;
    /// Names of the dictionary that the module lacks.
    std::vector<std::string> unexpected_keys;
};

/// Base of all modules.
class LZ_API Module : public std::enable_shared_from_this<Module> {
public:
    /// In training mode, and empty.
    Module();
    /// With a name for printing, where that of the class does not do.
    explicit Module(std::string name);
    virtual ~Module();
    /// Another module with the same parameters, buffers, children and hooks.
    Module(const Module &);
    /// The same.
    Module &operator=(const Module &);
    /// Takes over what the other one has.
    Module(Module &&) noexcept;
    /// The same.
    Module &operator=(Module &&) noexcept;

    // Making one.
    /// A parameter, which from now on requires grad; an empty tensor is a parameter that is left out. Returns
    /// the tensor. Throws StateError for a name that is taken, is empty or has a dot, and for a tensor that
    /// was computed from others that require grad; DTypeError for one that is not of floats.
    Tensor register_parameter(std::string name, Tensor tensor, bool requires_grad = true,
                              Location loc = Location::current());
    /// A tensor that is no parameter, but moves and is saved with the module; saved only if `persistent`.
    /// Throws as register_parameter.
    Tensor register_buffer(std::string name, Tensor tensor, bool persistent = true,
                           Location loc = Location::current());
    /// A module inside this one. Returns it. Throws as register_parameter, and StateError for no module and
    /// for one that this one is a part of.
    template <class M>
    std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module,
                                       Location loc = Location::current()) {
        add_child(std::move(name), module, loc);
        return module;
    }
    /// The same of what the holder holds.
    template <class M>
    std::shared_ptr<M> register_module(std::string name, ModuleHolder<M> holder,
                                       Location loc = Location::current()) {
        return register_module(std::move(name), holder.ptr_or_null(), loc);
    }
    /// Another module in place of the one of this name.
    template <class M>
    std::shared_ptr<M> replace_module(const std::string &name, std::shared_ptr<M> module,
                                      Location loc = Location::current()) {
        replace_child(name, module, loc);
        return module;
    }
    /// The same of what the holder holds.
    template <class M>
    std::shared_ptr<M> replace_module(const std::string &name, ModuleHolder<M> holder,
                                      Location loc = Location::current()) {
        return replace_module(name, holder.ptr_or_null(), loc);
    }
    /// Forgets the module of this name. Throws StateError where there is none.
    void unregister_module(const std::string &name, Location loc = Location::current());

    // What is in it. What is registered twice, or used by two modules, is listed once, under its first name.
    /// All parameters, those of the modules inside too if `recurse`.
    std::vector<Tensor> parameters(bool recurse = true) const;
    /// The same with names: `fc1.weight`.
    OrderedDict<Tensor> named_parameters(bool recurse = true) const;
    /// All buffers.
    std::vector<Tensor> buffers(bool recurse = true) const;
    /// The same with names: `norm.running_mean`.
    OrderedDict<Tensor> named_buffers(bool recurse = true) const;
    /// The modules that are registered here.
    std::vector<std::shared_ptr<Module>> children() const;
    /// The same with names.
    OrderedDict<std::shared_ptr<Module>> named_children() const;
    /// This module and all inside. The pointer to this one does not keep it alive if it is no shared one.
    std::vector<std::shared_ptr<Module>> modules(bool include_self = true);
    /// The same with names; this one's is `prefix`.
    OrderedDict<std::shared_ptr<Module>> named_modules(const std::string &prefix = "",
                                                       bool include_self = true);
    /// Calls `function` with all modules inside and then with this one. Returns itself.
    Module &apply(const std::function<void(Module &)> &function);
    Module &apply(const std::function<void(const std::string &, Module &)> &function,
                  const std::string &prefix = "");

    // Moving, in place. If it throws, nothing has moved.
    /// Parameters, buffers and gradients go there. Returns itself. Throws DeviceError for a device that is
    /// not there.
    Module &to(const Device &device, Location loc = Location::current());
    /// Those that are of floats are converted. Throws DTypeError for a dtype that is not of floats.
    Module &to(DType dtype, Location loc = Location::current());
    Module &to(const Device &device, DType dtype, Location loc = Location::current());
    /// LibTorch's: the flag changes nothing, as no copy makes the host wait for longer than it has to (S30).
    Module &to(const Device &device, bool, Location loc = Location::current()) { return to(device, loc); }
    Module &to(DType dtype, bool, Location loc = Location::current()) { return to(dtype, loc); }
    Module &to(const Device &device, DType dtype, bool, Location loc = Location::current()) {
        return to(device, dtype, loc);
    }
    /// To `cuda:index`, or to the current GPU.
    Module &cuda(int index = -1, Location loc = Location::current());
    Module &cuda(const Device &device, Location loc = Location::current());
    /// To the CPU.
    Module &cpu(Location loc = Location::current());
    /// To f16.
    Module &half(Location loc = Location::current()) { return to(f16, loc); }
    /// To bf16.
    Module &bfloat16(Location loc = Location::current()) { return to(bf16, loc); }

    // Training.
    /// In training mode (dropout drops, batch norm uses its batch's statistics) or not, with all inside.
    virtual Module &train(bool on = true);
    /// `train(false)`.
    Module &eval() { return train(false); }
    /// Whether it is in training mode.
    bool is_training() const noexcept { return training_; }
    /// Forgets all gradients, or sets them to 0.
    void zero_grad(bool set_to_none = true, Location loc = Location::current());
    /// All parameters, as Tensor::requires_grad_. Returns itself.
    Module &requires_grad_(bool requires_grad = true, Location loc = Location::current());

    // Saving.
    /// Parameters and buffers by name, as they are now: later changes of the module do not show (*better*: in
    /// PyTorch they do). No copy. A tensor that has two names is there twice.
    StateDict state_dict(const std::string &prefix = "") const;
    /// Parameters and buffers become those of the dictionary, in their own dtype and on their own device; no
    /// copy where these are the same. Throws StateError that lists all missing, all unexpected and all
    /// misshapen entries, and then nothing is loaded. Unless `strict`, missing and unexpected ones are
    /// returned.
    IncompatibleKeys load_state_dict(const StateDict &state, bool strict = true,
                                     Location loc = Location::current());
    /// Writes parameters and buffers to the archive (io/archive.h), by the names of `state_dict`. Throws
    /// StateError for a name that is there already; then nothing was written.
    void save(serialize::OutputArchive &archive, Location loc = Location::current()) const;
    /// Parameters and buffers become those of the archive, which may have more than these. Else as
    /// load_state_dict.
    void load(const serialize::InputArchive &archive, Location loc = Location::current());
    /// A module with parameters and buffers of its own, which have these values, on `device` if one is given.
    /// Throws StateError unless the class is a Cloneable.
    virtual std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                          Location loc = Location::current()) const;

    // Hooks: called where the module is called through its holder, `fc1(x)`, or by a Sequential, and not by
    // `forward`. They see the first argument and the (first) result, where these are tensors. They are called
    // in the order of registration.
    /// Calls `hook(Module &, const Tensor &input)` before forward; a defined tensor that it returns is the
    /// input instead.
    template <class F>
    RemovableHandle register_forward_pre_hook(F hook) {
        return add_hook(0, [hook = std::move(hook)](Module &module, const Tensor &, const Tensor &input) {
            return tensor_or_none([&] { return hook(module, input); });
        });
    }
    /// Calls `hook(Module &, const Tensor &input, const Tensor &output)` after forward; a defined tensor that
    /// it returns is the result instead.
    template <class F>
    RemovableHandle register_forward_hook(F hook) {
        return add_hook(1,
                        [hook = std::move(hook)](Module &module, const Tensor &input, const Tensor &output) {
                            return tensor_or_none([&] { return hook(module, input, output); });
                        });
    }
    /// Calls `hook(Module &, const Tensor &grad_input, const Tensor &grad_output)` when backward has both;
    /// a defined tensor that it returns is the gradient of the input instead. `grad_input` is empty where the
    /// input wants no gradient. Only while the module lives, which has to be held by a shared pointer.
    template <class F>
    RemovableHandle register_full_backward_hook(F hook) {
        return add_hook(
            2, [hook = std::move(hook)](Module &module, const Tensor &grad_input, const Tensor &grad_output) {
                return tensor_or_none([&] { return hook(module, grad_input, grad_output); });
            });
    }

    // Printing.
    /// That of the class, without `Impl`.
    virtual std::string name() const;
    /// What stands in parentheses behind the name: `in_features=784, out_features=64, bias=True`.
    virtual std::string extra_repr() const;
    /// Writes `name(extra_repr)`; the modules inside come after it.
    virtual void pretty_print(std::ostream &stream) const;
    /// As PyTorch prints it.
    std::string str() const;

    /// This as a module of class M (`Linear` or `LinearImpl`); null if it is none.
    template <class M>
    auto *as() noexcept {
        if constexpr (requires { typename M::ContainedType; })
            return dynamic_cast<typename M::ContainedType *>(this);
        else
            return dynamic_cast<M *>(this);
    }

protected:
    /// For `clone`: a copy of another module forgets what it has, and makes its own of the same values.
    void start_clone();
    /// The second half.
    void finish_clone(const Module &from, const OptionalDevice &device, Location loc);
    /// The mode of this module, and of none inside.
    void train_alone(bool on) noexcept { training_ = on; }
    /// Whether equal modules that follow each other are printed once: `(0-5): 6 x Linear(...)`.
    virtual bool prints_equals_once() const;
    /// The module registered under this name, or null.
    std::shared_ptr<Module> child(const std::string &name) const;

private:
    friend class RemovableHandle;
    friend class detail::HookedCall;
    template <class M, class... A>
    friend auto call_module(M &module, Location loc, A &&...arguments);

    using Hook = std::function<Tensor(Module &, const Tensor &, const Tensor &)>;
    struct Buffer {
        Tensor tensor;
        bool persistent;
    };

    template <class F>
    static Tensor tensor_or_none(F &&f) {
        if constexpr (std::is_void_v<std::invoke_result_t<F &>>) {
            f();
            return {};
        } else {
            return f();
        }
    }
    void check_name(const std::string &name, const char *function, Location loc) const;
    void add_child(std::string name, std::shared_ptr<Module> module, Location loc);
    void replace_child(const std::string &name, std::shared_ptr<Module> module, Location loc);
    RemovableHandle add_hook(int kind, Hook hook);
    void move(const std::optional<Device> &device, std::optional<DType> dtype, Location loc);
    void print(std::ostream &stream, const std::string &indent) const;
    template <class F>
    void each(const std::string &prefix, bool recurse, F &&f) const;
    template <class F>
    void each_entry(const std::string &prefix, F &&f) const;

    std::string name_;
    OrderedDict<Tensor> parameters_;
    OrderedDict<Buffer> buffers_;
    OrderedDict<std::shared_ptr<Module>> children_;
    std::shared_ptr<detail::Hooks> hooks_; ///< null while there are none
    bool training_ = true;
};

/// Prints `str()`.
LZ_API std::ostream &operator<<(std::ostream &out, const Module &module);

/// Base of a module of class Derived that can be cloned. What the class registers it registers in `reset()`;
/// or, if it can be made without arguments, anywhere:
///
///     struct Net : lz::nn::Cloneable<Net> { ... };
template <class Derived>
class Cloneable : public Module {
public:
    using Module::Module;
    /// Registers parameters, buffers and modules anew, in members that are set already.
    virtual void reset() {}
    /// A module of the class Derived.
    std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                  Location loc = Location::current()) const override {
        std::shared_ptr<Derived> copy;
        if constexpr (std::is_same_v<decltype(&Derived::reset), void (Cloneable::*)()> &&
                      std::is_default_constructible_v<Derived>) {
            copy = std::make_shared<Derived>();
        } else {
            copy = std::make_shared<Derived>(static_cast<const Derived &>(*this));
            static_cast<Cloneable &>(*copy).start_clone();
            copy->reset();
        }
        static_cast<Cloneable &>(*copy).finish_clone(*this, device, loc);
        return copy;
    }
};

} // namespace nn
} // namespace lz
