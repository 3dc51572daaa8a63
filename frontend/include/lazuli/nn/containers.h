#pragma once
/// Modules that hold modules or parameters.

#include "lazuli/nn/module_holder.h"

namespace lz {
namespace nn {

namespace detail {

template <class M>
    requires std::derived_from<M, Module>
std::shared_ptr<Module> shared_module(const std::shared_ptr<M> &module) {
    return module;
}
template <class Holder>
    requires requires { typename Holder::ContainedType; }
std::shared_ptr<Module> shared_module(const Holder &holder) {
    return holder.ptr_or_null();
}

/// A holder of a module, or a shared pointer to one.
template <class M>
concept SharedModule = requires(const M &module) { shared_module(module); };

} // namespace detail

/// A module with a forward of one tensor to one tensor, whatever its class.
class AnyModule {
public:
    /// None.
    AnyModule() = default;
    /// That module, which stays shared.
    template <class M>
        requires std::derived_from<M, Module>
    AnyModule(std::shared_ptr<M> module) // NOLINT: converts
        : module_(std::move(module)), call_([](Module &self, const Tensor &x, Location loc) -> Tensor {
              return call_module(static_cast<M &>(self), loc, x);
          }) {
        static_assert(
            requires(M &m, const Tensor &x) {
                { m.forward(x) } -> std::convertible_to<Tensor>;
            }, "a module of a Sequential has a forward(const Tensor &) that gives a Tensor");
    }
    /// What the holder holds.
    template <class Holder>
        requires requires { typename Holder::ContainedType; }
    AnyModule(const Holder &holder) : AnyModule(holder.ptr_or_null()) {} // NOLINT: converts
    /// A module that is moved in.
    template <class M>
        requires(std::derived_from<M, Module> && !std::is_reference_v<M>)
    AnyModule(M &&module) : AnyModule(std::make_shared<M>(std::move(module))) {} // NOLINT: converts

    /// Its forward, with hooks. Throws StateError where there is no module.
    Tensor forward(const Tensor &x, Location loc = Location::current()) const {
        check("forward", loc);
        return call_(*module_, x, loc);
    }
    /// LibTorch's spelling: `any.forward<Tensor>(x)`.
    template <std::same_as<Tensor> Result>
    Result forward(const Tensor &x, Location loc = Location::current()) const {
        return forward(x, loc);
    }
    /// The module, or null.
    const std::shared_ptr<Module> &ptr() const noexcept { return module_; }
    /// The module as one of class M: of `LinearImpl` a reference, of `Linear` a holder of it. Throws
    /// StateError if it is none, or there is no module.
    template <class M>
    decltype(auto) get(Location loc = Location::current()) const {
        check("get", loc);
        if (!module_->as<M>())
            throw StateError("get: the module is a " + module_->name(), loc);
        if constexpr (requires { typename M::ContainedType; })
            return M(std::static_pointer_cast<typename M::ContainedType>(module_));
        else
            return static_cast<M &>(*module_);
    }
    /// Whether there is no module.
    bool is_empty() const noexcept { return !module_; }

private:
    friend class SequentialImpl;
    void check(const char *function, Location loc) const {
        if (!module_) [[unlikely]]
            throw StateError(std::string(function) + ": there is no module in this AnyModule", loc);
    }
    std::shared_ptr<Module> module_;
    Tensor (*call_)(Module &, const Tensor &, Location) = nullptr;
};

/// A module with its name in a Sequential: `Sequential({{"fc", Linear(2, 3)}, {"act", ReLU()}})`.
class NamedAnyModule {
public:
    /// Of this name.
    template <class M>
    NamedAnyModule(std::string name, M &&module) : name_(std::move(name)), module_(std::forward<M>(module)) {}
    /// As given.
    const std::string &name() const noexcept { return name_; }
    /// As given.
    const AnyModule &module() const noexcept { return module_; }

private:
    std::string name_;
    AnyModule module_;
};

/// Modules one after the other, each of one tensor to one tensor. Those without a name are called 0, 1, ...
class LZ_API SequentialImpl : public Module {
public:
    /// Empty.
    SequentialImpl() = default;
    /// With names.
    explicit SequentialImpl(std::initializer_list<NamedAnyModule> modules,
                            Location loc = Location::current());
    /// Holders, shared pointers, or modules that are moved in.
    template <class... Modules>
        requires(sizeof...(Modules) != 0 && (std::is_constructible_v<AnyModule, Modules> && ...))
    explicit SequentialImpl(Modules &&...modules) {
        (push_back(std::forward<Modules>(modules)), ...);
    }

    /// At the end.
    void push_back(AnyModule module, Location loc = Location::current());
    void push_back(std::string name, AnyModule module, Location loc = Location::current());
    /// Holders or modules of a range, at the end.
    template <class Range>
    void extend(const Range &modules, Location loc = Location::current()) {
        for (const auto &module : modules)
            push_back(AnyModule(module), loc);
    }

    /// All of them, one after the other.
    Tensor forward(Tensor x, Location loc = Location::current());
    /// LibTorch's spelling: `net->forward<Tensor>(x)`.
    template <std::same_as<Tensor> Result>
    Result forward(const Tensor &x, Location loc = Location::current()) {
        return forward(x, loc);
    }

    /// How many there are.
    size_t size() const noexcept { return modules_.size(); }
    /// Whether there is none.
    bool is_empty() const noexcept { return modules_.empty(); }
    /// The module at a place. Throws IndexError.
    const std::shared_ptr<Module> &ptr(size_t index, Location loc = Location::current()) const;
    /// The same as one of class M (`Linear` or `LinearImpl`). Throws IndexError, and StateError if it is
    /// none.
    template <class M>
    auto &at(size_t index, Location loc = Location::current()) const {
        auto *const module = ptr(index, loc)->template as<M>();
        if (!module)
            throw StateError("at: module " + std::to_string(index) + " is a " + ptr(index, loc)->name(), loc);
        return *module;
    }
    /// As `ptr`.
    const std::shared_ptr<Module> &operator[](size_t index) const { return ptr(index, Location()); }
    /// The modules, in order.
    auto begin() const noexcept { return modules_.begin(); }
    /// Their end.
    auto end() const noexcept { return modules_.end(); }

    std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                  Location loc = Location::current()) const override;

private:
    std::vector<AnyModule> modules_;
    std::vector<std::string> names_;
};

/// Holds a SequentialImpl. Of braces: modules with names.
class Sequential : public ModuleHolder<SequentialImpl> {
public:
    using ModuleHolder<SequentialImpl>::ModuleHolder;
    /// What it holds.
    using Impl = SequentialImpl;
    /// Empty.
    Sequential() = default;
    /// With names.
    LZ_API Sequential(std::initializer_list<NamedAnyModule> modules, Location loc = Location::current());
};

/// A function of one tensor as a module: `Sequential(Linear(2, 3), Functional(lz::relu))`.
class LZ_API FunctionalImpl : public Module {
public:
    /// What can be called with a tensor.
    template <class F>
        requires std::is_invocable_r_v<Tensor, F &, const Tensor &>
    explicit FunctionalImpl(F function) : function_(std::move(function)) {}
    /// A function of the library.
    explicit FunctionalImpl(Tensor (*function)(const Tensor &, Location));
    /// function(x).
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                  Location loc = Location::current()) const override;

private:
    std::function<Tensor(const Tensor &)> function_;
    Tensor (*of_library_)(const Tensor &, Location) = nullptr;
};
/// Holds a FunctionalImpl.
class Functional : public ModuleHolder<FunctionalImpl> {
public:
    using ModuleHolder<FunctionalImpl>::ModuleHolder;
    /// What it holds.
    using Impl = FunctionalImpl;
    /// Of a function of the library: `Functional(lz::relu)`.
    LZ_API explicit Functional(Tensor (*function)(const Tensor &, Location));
    /// The same with what it is given behind the tensor: `Functional(lz::leaky_relu, 0.2)`. What the function
    /// has behind that has to be given, too: `Functional(lz::softmax, 1, lz::nullopt)`.
    template <class A>
    explicit Functional(Tensor (*function)(const Tensor &, A, Location), std::type_identity_t<A> a)
        : ModuleHolder(std::make_shared<FunctionalImpl>(
              [function, a = std::decay_t<A>(a)](const Tensor &x) { return function(x, a, Location()); })) {}
    /// The same with two values.
    template <class A, class B>
    explicit Functional(Tensor (*function)(const Tensor &, A, B, Location), std::type_identity_t<A> a,
                        std::type_identity_t<B> b)
        : ModuleHolder(std::make_shared<FunctionalImpl>(
              [function, a = std::decay_t<A>(a), b = std::decay_t<B>(b)](const Tensor &x) {
                  return function(x, a, b, Location());
              })) {}
    /// Of a function of your own, with what it is given behind the tensor.
    template <class F, class... More>
        requires(sizeof...(More) != 0 && std::is_invocable_r_v<Tensor, F &, const Tensor &, More &...>)
    explicit Functional(F function, More... more)
        : ModuleHolder(std::make_shared<FunctionalImpl>(
              [=](const Tensor &x) mutable -> Tensor { return function(x, more...); })) {}
};

/// Modules by number, of any class; has no forward.
class LZ_API ModuleListImpl : public Module {
public:
    /// Empty.
    ModuleListImpl() = default;
    /// Holders or shared pointers.
    template <class... Modules>
        requires(sizeof...(Modules) != 0 && (detail::SharedModule<Modules> && ...))
    explicit ModuleListImpl(const Modules &...modules) {
        (push_back(modules), ...);
    }
    /// At the end.
    template <class M>
    void push_back(const M &module, Location loc = Location::current()) {
        add(detail::shared_module(module), loc);
    }
    /// Before the module at a place, or at the end. Throws IndexError.
    template <class M>
    void insert(size_t index, const M &module, Location loc = Location::current()) {
        insert_at(index, detail::shared_module(module), loc);
    }
    /// Those of a range, at the end.
    template <class Range>
    void extend(const Range &modules, Location loc = Location::current()) {
        for (const auto &module : modules)
            push_back(module, loc);
    }
    /// How many there are.
    size_t size() const noexcept { return modules_.size(); }
    /// Whether there is none.
    bool is_empty() const noexcept { return modules_.empty(); }
    /// The module at a place. Throws IndexError.
    const std::shared_ptr<Module> &ptr(size_t index, Location loc = Location::current()) const;
    /// The same as one of class M (`Linear` or `LinearImpl`). Throws IndexError, and StateError if it is
    /// none.
    template <class M>
    auto &at(size_t index, Location loc = Location::current()) const {
        auto *const module = ptr(index, loc)->template as<M>();
        if (!module)
            throw StateError("at: module " + std::to_string(index) + " is a " + ptr(index, loc)->name(), loc);
        return *module;
    }
    /// As `ptr`.
    const std::shared_ptr<Module> &operator[](size_t index) const { return ptr(index, Location()); }
    /// The modules, in order.
    auto begin() const noexcept { return modules_.begin(); }
    /// Their end.
    auto end() const noexcept { return modules_.end(); }
    std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                  Location loc = Location::current()) const override;

protected:
    /// As in PyTorch.
    bool prints_equals_once() const override { return true; }

private:
    void add(std::shared_ptr<Module> module, Location loc);
    void insert_at(size_t index, std::shared_ptr<Module> module, Location loc);
    std::vector<std::shared_ptr<Module>> modules_;
};
/// Holds a ModuleListImpl.
LZ_MODULE(ModuleList);

/// Modules by name, in the order of insertion; has no forward.
class LZ_API ModuleDictImpl : public Module {
public:
    /// Empty.
    ModuleDictImpl() = default;
    /// With these.
    explicit ModuleDictImpl(std::initializer_list<std::pair<std::string, std::shared_ptr<Module>>> modules,
                            Location loc = Location::current());
    /// In place of the one of this name, or at the end. A holder or a shared pointer.
    template <class M>
    void insert(const std::string &name, const M &module, Location loc = Location::current()) {
        put(name, detail::shared_module(module), loc);
    }
    /// Takes a module out. Throws StateError where there is none of this name.
    std::shared_ptr<Module> pop(const std::string &name, Location loc = Location::current());
    /// Whether there is one of this name.
    bool contains(const std::string &name) const;
    /// How many there are.
    size_t size() const;
    /// Whether there is none.
    bool is_empty() const { return size() == 0; }
    /// The same.
    bool empty() const { return is_empty(); }
    /// The names, in order.
    std::vector<std::string> keys() const;
    /// The modules, in order.
    std::vector<std::shared_ptr<Module>> values() const;
    /// The names with their modules, in order.
    std::vector<std::pair<std::string, std::shared_ptr<Module>>> items() const;
    /// The module of this name. Throws IndexError where there is none.
    std::shared_ptr<Module> at(const std::string &name, Location loc = Location::current()) const;
    /// The same.
    std::shared_ptr<Module> operator[](const std::string &name) const { return at(name, Location()); }
    /// The same as one of class M (`Linear` or `LinearImpl`). Throws IndexError, and StateError if it is
    /// none.
    template <class M>
    auto &at(const std::string &name, Location loc = Location::current()) const {
        auto *const module = at(name, loc)->template as<M>();
        if (!module)
            throw StateError("at: module \"" + name + "\" is a " + at(name, loc)->name(), loc);
        return *module;
    }
    std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                  Location loc = Location::current()) const override;

private:
    void put(const std::string &name, std::shared_ptr<Module> module, Location loc);
};
/// Holds a ModuleDictImpl.
LZ_MODULE(ModuleDict);

/// Parameters by number: 0, 1, ...
class LZ_API ParameterListImpl : public Module {
public:
    /// Empty.
    ParameterListImpl() = default;
    /// With these.
    explicit ParameterListImpl(std::initializer_list<Tensor> parameters, Location loc = Location::current());
    /// At the end. Throws as register_parameter.
    void append(const Tensor &parameter, bool requires_grad = true, Location loc = Location::current());
    /// All of a range, at the end.
    template <class Range>
    void extend(const Range &parameters, Location loc = Location::current()) {
        for (const Tensor &parameter : parameters)
            append(parameter, true, loc);
    }
    /// How many there are.
    size_t size() const noexcept { return list_.size(); }
    /// The parameter at a place. Throws IndexError.
    const Tensor &at(size_t index, Location loc = Location::current()) const;
    /// The same.
    const Tensor &operator[](size_t index) const { return at(index, Location()); }
    /// The parameters, in order.
    auto begin() const noexcept { return list_.begin(); }
    /// Their end.
    auto end() const noexcept { return list_.end(); }
    std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                  Location loc = Location::current()) const override;

private:
    std::vector<Tensor> list_;
};
/// Holds a ParameterListImpl.
LZ_MODULE(ParameterList);

/// Parameters by name, in the order of insertion.
class LZ_API ParameterDictImpl : public Module {
public:
    /// Empty.
    ParameterDictImpl() = default;
    /// With these.
    explicit ParameterDictImpl(const OrderedDict<Tensor> &parameters, Location loc = Location::current());
    /// At the end. Throws as register_parameter. Returns the parameter.
    Tensor insert(const std::string &name, const Tensor &parameter, Location loc = Location::current());
    /// Whether there is one of this name.
    bool contains(const std::string &name) const;
    /// How many there are.
    size_t size() const noexcept;
    /// The names, in order.
    std::vector<std::string> keys() const;
    /// The parameter of this name. Throws IndexError where there is none.
    const Tensor &at(const std::string &name, Location loc = Location::current()) const;
    /// The same.
    const Tensor &operator[](const std::string &name) const { return at(name, Location()); }
    std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                  Location loc = Location::current()) const override;

private:
    OrderedDict<Tensor> dict_;
};
/// Holds a ParameterDictImpl.
LZ_MODULE(ParameterDict);

} // namespace nn
} // namespace lz
