#pragma once
/// What one writes for a module: `nn::Linear` is a shared pointer to a `LinearImpl`. It is called like a
/// function, and LZ_MODULE makes one of a class of the user's:
///
///     struct NetImpl : lz::nn::Module { ... };
///     LZ_MODULE(Net);
///     Net net;               // holds a NetImpl
///     lz::Tensor y = net(x); // net->forward(x), with hooks

#include "lazuli/compiled.h"
#include "lazuli/core/option.h"
#include "lazuli/nn/module.h"

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <tuple>
#include <typeinfo>

namespace lz {
namespace nn {

namespace detail {

/// One call of a module that has hooks.
class LZ_API HookedCall {
public:
    /// Calls what comes before forward.
    HookedCall(Module &module, const Tensor &input, Location loc);
    ~HookedCall();
    HookedCall(const HookedCall &) = delete;
    HookedCall &operator=(const HookedCall &) = delete;
    /// What forward gets.
    const Tensor &input() const { return input_; }
    /// Calls what comes after it, which may change the result.
    void finish(Tensor &result);

private:
    struct Backward;
    Module &module_;
    Tensor input_;
    std::shared_ptr<Backward> backward_;
    Location loc_;
};

/// forward, with the caller's line where it takes one.
template <class M, class... A>
auto forward_of(M &module, Location loc, A &&...arguments) {
    if constexpr (requires { module.forward(std::forward<A>(arguments)..., loc); })
        return module.forward(std::forward<A>(arguments)..., loc);
    else
        return module.forward(std::forward<A>(arguments)...);
}

template <class T>
Tensor *first_tensor(T &result) {
    if constexpr (std::is_same_v<T, Tensor>)
        return &result;
    else if constexpr (requires { std::tuple_size<T>::value; })
        return first_tensor(std::get<0>(result));
    else
        return nullptr;
}

template <class M, class First, class... Rest>
auto call_with_hooks(M &module, Location loc, First &&first, Rest &&...rest) {
    if constexpr (std::is_convertible_v<First, const Tensor &> &&
                  !std::is_void_v<decltype(forward_of(module, loc, std::declval<const Tensor &>(),
                                                      std::forward<Rest>(rest)...))>) {
        HookedCall call(module, first, loc);
        auto result = forward_of(module, loc, call.input(), std::forward<Rest>(rest)...);
        if (Tensor *const tensor = first_tensor(result))
            call.finish(*tensor);
        return result;
    } else {
        return forward_of(module, loc, std::forward<First>(first), std::forward<Rest>(rest)...);
    }
}

[[noreturn]] LZ_API void throw_empty_holder(const std::type_info &type, Location loc);

} // namespace detail

/// Calls the module's forward, and its hooks. For modules that hold modules.
template <class M, class... A>
auto call_module(M &module, Location loc, A &&...arguments) {
    if constexpr (sizeof...(A) != 0)
        if (module.hooks_) [[unlikely]]
            return detail::call_with_hooks(module, loc, std::forward<A>(arguments)...);
    return detail::forward_of(module, loc, std::forward<A>(arguments)...);
}

/// A shared pointer to a module of class Contained. Copies hold the same module.
template <class Contained>
class ModuleHolder {
public:
    /// What it holds.
    using ContainedType = Contained;

    /// A new module.
    ModuleHolder()
        requires std::is_default_constructible_v<Contained>
        : module_(std::make_shared<Contained>()) {}
    /// None, until one is assigned.
    ModuleHolder(std::nullptr_t) {} // NOLINT: converts
    /// That one.
    ModuleHolder(std::shared_ptr<Contained> module) : module_(std::move(module)) {} // NOLINT: converts
    /// A new module, made of this. Messages have this line where its constructor has a Location last.
    template <class A>
        requires(!std::derived_from<std::remove_cvref_t<A>, ModuleHolder> &&
                 !std::convertible_to<A, std::shared_ptr<Contained>> &&
                 std::is_constructible_v<Contained, A, Location>)
    explicit ModuleHolder(A &&a, Location loc = Location::current())
        : module_(std::make_shared<Contained>(std::forward<A>(a), loc)) {}
    /// The same of two.
    template <class A, class B>
        requires std::is_constructible_v<Contained, A, B, Location>
    explicit ModuleHolder(A &&a, B &&b, Location loc = Location::current())
        : module_(std::make_shared<Contained>(std::forward<A>(a), std::forward<B>(b), loc)) {}
    /// The same of three.
    template <class A, class B, class C>
        requires std::is_constructible_v<Contained, A, B, C, Location>
    explicit ModuleHolder(A &&a, B &&b, C &&c, Location loc = Location::current())
        : module_(
              std::make_shared<Contained>(std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), loc)) {}
    /// A new module, made of these.
    template <class First, class... Rest>
        requires((sizeof...(Rest) != 0 || (!std::derived_from<std::remove_cvref_t<First>, ModuleHolder> &&
                                           !std::convertible_to<First, std::shared_ptr<Contained>>)) &&
                 std::is_constructible_v<Contained, First, Rest...> &&
                 (sizeof...(Rest) > 2 || !std::is_constructible_v<Contained, First, Rest..., Location>))
    explicit ModuleHolder(First &&first, Rest &&...rest)
        : module_(std::make_shared<Contained>(std::forward<First>(first), std::forward<Rest>(rest)...)) {}
    /// Of one whose constructor takes extents: `LayerNorm({64})`.
    explicit ModuleHolder(std::initializer_list<int64_t> sizes)
        requires std::is_constructible_v<Contained, Sizes>
        : module_(std::make_shared<Contained>(Sizes(sizes))) {}

    ModuleHolder(const ModuleHolder &) = default;
    ModuleHolder(ModuleHolder &&) noexcept = default;
    /// Holds what the other one holds. Compiled functions may have called the module that it held before:
    /// they are recorded again.
    ModuleHolder &operator=(const ModuleHolder &other) noexcept {
        hold(other.module_);
        return *this;
    }
    /// The same; the other one holds none then.
    ModuleHolder &operator=(ModuleHolder &&other) noexcept {
        hold(std::move(other.module_));
        return *this;
    }
    ~ModuleHolder() = default;

    /// Calls it: its forward, with hooks. Messages have the line of the call where forward has a Location
    /// last.
    auto operator()(Location loc = Location::current()) const { return call_module(held(loc), loc); }
    /// The same with one argument.
    template <class A>
        requires(!std::same_as<std::remove_cvref_t<A>, Location>)
    auto operator()(A &&a, Location loc = Location::current()) const {
        return call_module(held(loc), loc, std::forward<A>(a));
    }
    /// The same with two.
    template <class A, class B>
        requires(!std::same_as<std::remove_cvref_t<B>, Location>)
    auto operator()(A &&a, B &&b, Location loc = Location::current()) const {
        return call_module(held(loc), loc, std::forward<A>(a), std::forward<B>(b));
    }
    /// The same with three.
    template <class A, class B, class C>
        requires(!std::same_as<std::remove_cvref_t<C>, Location>)
    auto operator()(A &&a, B &&b, C &&c, Location loc = Location::current()) const {
        return call_module(held(loc), loc, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c));
    }
    /// The same with four.
    template <class A, class B, class C, class D>
        requires(!std::same_as<std::remove_cvref_t<D>, Location>)
    auto operator()(A &&a, B &&b, C &&c, D &&d, Location loc = Location::current()) const {
        return call_module(held(loc), loc, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c),
                           std::forward<D>(d));
    }
    /// The same with more; their line is not known then.
    template <class A, class B, class C, class D, class E, class... More>
        requires(!std::same_as<std::remove_cvref_t<E>, Location>)
    auto operator()(A &&a, B &&b, C &&c, D &&d, E &&e, More &&...more) const {
        return call_module(held(Location()), Location(), std::forward<A>(a), std::forward<B>(b),
                           std::forward<C>(c), std::forward<D>(d), std::forward<E>(e),
                           std::forward<More>(more)...);
    }

    /// What the module has at this place or of this name: `seq[0]`, `dict["fc"]`. Throws StateError where
    /// there is no module.
    template <class Place>
        requires requires(Contained &module, const Place &place) { module[place]; }
    decltype(auto) operator[](const Place &place) const {
        if constexpr (std::is_integral_v<Place>)
            return held(Location())[static_cast<size_t>(place)];
        else
            return held(Location())[place];
    }

    /// The module. Throws StateError where there is none.
    Contained *operator->() const { return &held(Location()); }
    /// The module. Throws StateError where there is none.
    Contained &operator*() const { return held(Location()); }
    /// The module. Throws StateError where there is none.
    Contained *get() const { return &held(Location()); }
    /// The pointer. Throws StateError where there is none.
    std::shared_ptr<Contained> ptr() const {
        held(Location());
        return ptr_or_null();
    }
    /// The pointer, or null.
    std::shared_ptr<Contained> ptr_or_null() const noexcept {
        return std::static_pointer_cast<Contained>(module_);
    }
    /// Whether it holds none.
    bool is_empty() const noexcept { return !module_; }
    /// Whether it holds one.
    explicit operator bool() const noexcept { return !is_empty(); }

private:
    void hold(std::shared_ptr<Module> module) noexcept {
        if (module_ && module_ != module)
            host_state_changed();
        module_ = std::move(module);
    }

    Contained &held(Location loc) const {
        if (!module_) [[unlikely]]
            detail::throw_empty_holder(typeid(Contained), loc);
        return static_cast<Contained &>(*module_);
    }

    /// Of the class Contained. One type for all holders: every file would else compile a shared pointer for
    /// each class of modules that it has heard of.
    std::shared_ptr<Module> module_;
};

/// Prints the module.
template <class Contained>
std::ostream &operator<<(std::ostream &out, const ModuleHolder<Contained> &holder) {
    return out << static_cast<const Module &>(*holder);
}

} // namespace nn
} // namespace lz

/// `Name`: a holder of NameImpl.
#define LZ_MODULE_IMPL(Name, Implementation)                                                                 \
    class Name : public ::lz::nn::ModuleHolder<Implementation> {                                             \
    public:                                                                                                  \
        using ::lz::nn::ModuleHolder<Implementation>::ModuleHolder;                                          \
        using Impl [[maybe_unused]] = Implementation;                                                        \
    }
/// `Name`: a holder of NameImpl.
#define LZ_MODULE(Name) LZ_MODULE_IMPL(Name, Name##Impl)
