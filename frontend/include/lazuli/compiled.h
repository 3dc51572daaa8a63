#pragma once
/// Functions that are recorded once and replayed: `lz::compile(f)` calls `f` until two calls recorded the
/// same, and from then on only binds tensors and launches the Program:
///
///     auto step = lz::compile([&](const lz::Tensor &x, const lz::Tensor &y) {
///         optimizer.zero_grad();
///         lz::Tensor loss = lz::cross_entropy(net(x), y);
///         loss.backward();
///         optimizer.step();
///         return loss;
///     });
///     for (auto &[x, y] : loader)
///         lz::Tensor loss = step(x, y);
///
/// docs/compiled-functions.md says what is replayed, what is not, and what a function may do.

#include "lazuli/core/scalar.h"
#include "lazuli/tensor.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lz {

template <class F>
class Compiled;

/// What a compiled function has done so far.
struct CompiledStats {
    int64_t replays = 0;    ///< calls that bound and launched a Program
    int64_t recordings = 0; ///< calls that ran the function and kept what it recorded
    /// Calls that ran the function, and whose recording could not be kept, or is no good for replays.
    int64_t uncompiled = 0;
    int64_t signatures = 0; ///< that are known now
    int64_t sizes = 0;      ///< that are known now, of all signatures together
    /// Why the last of the uncompiled calls was one, with the line; empty if there was none.
    std::string why;
};

/// How a function is compiled.
struct CompiledOptions {
    /// In errors, `explain()` and profiles.
    std::string name = "compiled function";
    /// How many signatures (dtypes, ranks, devices, structure, modes) are kept; of more the one not used for
    /// longest is forgotten.
    size_t signatures = 64;
    /// How many sizes (extents of tensors, and integers) are kept of all signatures together; likewise.
    size_t sizes = 1024;
};

/// Whether the calling thread is recording a function for `compile`.
LZ_API bool is_recording();
/// For libraries whose functions count on the host: while a function is recorded for `compile`, `work` is
/// kept, and called at each replay before its Program is launched, in the order of these calls. Otherwise it
/// does nothing. `undo` is called when the replay then fails, and must not throw.
LZ_API void on_replay(std::function<void()> work, std::function<void()> undo = {});
/// For libraries that count on the host what they change in place: remembers which value a tensor stands for.
/// An in-place form gives it another one; where that fails at a sync, the tensor goes back (S26), and so
/// should the count. Keeps no memory of the value.
class LZ_API ValueMark {
public:
    /// The value that the tensor has now. Throws StateError for an empty tensor.
    explicit ValueMark(const Tensor &tensor, Location loc = Location::current());
    /// Takes what the other one has, which is left without a value.
    ValueMark(ValueMark &&other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
    /// Takes what the other one has.
    ValueMark &operator=(ValueMark &&other) noexcept {
        std::swap(node_, other.node_);
        return *this;
    }
    ~ValueMark();
    /// Whether the tensor has gone back to that value, because in-place forms have failed.
    bool is_again_that_of(const Tensor &tensor) const;
    /// Whether anything still has that value, or may go back to it.
    bool is_alive() const;

private:
    void *node_;
};
/// A tensor without axes with this number, of a floating dtype. While a function is recorded for `compile`
/// replays use what `again` gives then, in the order of `on_replay`; otherwise `again` is not called.
LZ_API Tensor replayed_number(double now, std::function<double()> again, const TensorOptions &options = {},
                              Location loc = Location::current());
/// While a function is recorded for `compile`: it does what no replay could do, and is not kept. `why` goes
/// on after "it" in `CompiledStats::why`.
LZ_API void keep_uncompiled(const char *why, Location loc = Location::current());
/// While a function is recorded for `compile`: `check` is called when the function has ended without an
/// exception, and may call keep_uncompiled. Otherwise it does nothing.
LZ_API void at_end_of_recording(std::function<void()> check);
/// While a function is recorded for `compile`: what is recorded depends on these numbers otherwise than by
/// computing with them as they are, negated, inverted or taken from 1 (`std::min(a, 1.0)`, a branch, a size).
/// The function is then recorded for each value of an argument that is one of them. Otherwise it does
/// nothing.
LZ_API void specialize_on(std::initializer_list<double> numbers);
/// What functions look at on the host has changed (a module was set to `eval()`): every compiled function
/// calls its function once more before it replays.
LZ_API void host_state_changed();

namespace detail {

/// A vector with room for a few elements of its own.
template <class T, size_t N>
class Few {
public:
    void push_back(T value) {
        if (size_ < N) [[likely]]
            few_[size_++] = value;
        else
            push_further(value);
    }
    std::span<const T> span() const { return {size_ <= N ? few_.data() : more_.data(), size_}; }
    std::span<T> span() { return {size_ <= N ? few_.data() : more_.data(), size_}; }
    size_t size() const { return size_; }

private:
    void push_further(T value) {
        if (more_.empty())
            more_.assign(few_.begin(), few_.end());
        more_.push_back(value);
        ++size_;
    }

    std::array<T, N> few_;
    size_t size_ = 0;
    std::vector<T> more_;
};

/// The arguments of a call, taken apart.
struct CompiledArguments {
    Few<const Tensor *, 8> tensors;
    Few<double, 4> numbers;
    Few<int64_t, 4> integers;
    Few<uint64_t, 16>
        structure;       ///< types, how many there are, keys, and every value that is no tensor and no number
    uintptr_t types = 0; ///< the first of these, but the same for named arguments and temporaries
};

/// Whether members() or lz_members(x) gives the members of a struct as a tuple of references.
template <class T>
concept HasMembers = requires(T &x) { x.members(); };
template <class T>
concept HasMembersOutside = requires(T &x) { lz_members(x); };
template <class T>
concept TupleLike = requires { std::tuple_size<std::remove_cv_t<T>>::value; };
template <class T>
concept Keyed = requires(T &x) {
    x.begin()->first;
    x.begin()->second;
    x.size();
} && requires(const T &x) { std::string_view(x.begin()->first); };
template <class T>
concept Listed = requires(T &x) {
    *x.begin();
    x.end();
    x.size();
};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class>
inline constexpr bool kNoSuch = false;

template <class T, class V>
void take_apart(T &value, V &v);

/// For keys, which are a part of the form of what they lead to.
template <class V>
struct FormVisitor {
    V &v;
    void tensor(const Tensor &) const {}
    void number(double) const {}
    void integer(int64_t x) const { v.form(static_cast<uint64_t>(x)); }
    void word(uint64_t x) const { v.form(x); }
    void form(uint64_t x) const { v.form(x); }
};

/// Calls v.tensor, v.number (floats), v.integer, v.form (sizes, keys, whether there is something) and v.word
/// (everything else) for what a value is made of, in order.
template <class T, class V>
void take_apart(T &value, V &v) {
    using Type = std::remove_cv_t<T>;
    if constexpr (std::is_base_of_v<Tensor, Type>) {
        v.tensor(value);
    } else if constexpr (std::is_floating_point_v<Type>) {
        v.number(static_cast<double>(value));
    } else if constexpr (std::is_same_v<Type, Scalar>) {
        v.word(static_cast<uint64_t>(value.category()));
        if (value.is_float())
            v.number(value.to_double());
        else if (value.category() == Scalar::Category::Integer)
            v.integer(value.to_int());
        else
            v.word(static_cast<uint64_t>(value.to_int()));
    } else if constexpr (std::is_integral_v<Type> && !std::is_same_v<Type, bool>) {
        v.integer(static_cast<int64_t>(value));
    } else if constexpr (std::is_same_v<Type, bool> || std::is_enum_v<Type>) {
        v.word(static_cast<uint64_t>(value));
    } else if constexpr (std::is_convertible_v<const Type &, std::string_view>) {
        const std::string_view text = value;
        v.word(text.size());
        for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
            uint64_t word = 0;
            std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
            v.word(word);
        }
    } else if constexpr (IsOptional<Type>::value) {
        v.form(value.has_value());
        if (value)
            take_apart(*value, v);
    } else if constexpr (HasMembers<T>) {
        std::apply([&](auto &...members) { (take_apart(members, v), ...); }, value.members());
    } else if constexpr (HasMembersOutside<T>) {
        std::apply([&](auto &...members) { (take_apart(members, v), ...); }, lz_members(value));
    } else if constexpr (Keyed<T>) {
        v.form(value.size());
        const FormVisitor<V> keys{v};
        for (auto &item : value) {
            take_apart(std::as_const(item.first), keys);
            take_apart(item.second, v);
        }
    } else if constexpr (Listed<T>) {
        v.form(value.size());
        if constexpr (std::is_same_v<Type, std::vector<bool>>)
            for (const bool item : value)
                take_apart(item, v);
        else
            for (auto &item : value)
                take_apart(item, v);
    } else if constexpr (TupleLike<T>) {
        std::apply([&](auto &...members) { (take_apart(members, v), ...); }, value);
    } else {
        static_assert(kNoSuch<T>,
                      "a compiled function takes and gives tensors, numbers, strings, vectors, arrays, maps "
                      "by strings, tuples, optionals, and structs with a member function members() (or a "
                      "function lz_members(x) beside them) that gives std::tie of their members; everything "
                      "else it can capture by reference");
    }
}

template <class T>
inline constexpr char kTypeTag = 0;

struct ArgumentVisitor {
    CompiledArguments &out;
    void tensor(const Tensor &x) const { out.tensors.push_back(&x); }
    void number(double x) const { out.numbers.push_back(x); }
    void integer(int64_t x) const { out.integers.push_back(x); }
    void word(uint64_t x) const { out.structure.push_back(x); }
    void form(uint64_t x) const { out.structure.push_back(x); }
};

/// A result's tensors; what else it gives is not replayed.
struct ResultVisitor {
    Few<Tensor *, 8> &out;
    bool *has_others;
    void tensor(Tensor &x) const { out.push_back(&x); }
    void number(double) const { *has_others = true; }
    void integer(int64_t) const { *has_others = true; }
    void word(uint64_t) const { *has_others = true; }
    void form(uint64_t) const {}
};

struct CompiledPlan;
struct CompiledCore;

/// What a replay gives: tensors in the order in which `take_apart` finds them, and a value to put them into.
struct CompiledResults {
    std::array<Tensor, 4> few;
    std::vector<Tensor> more; ///< all of them, if there are more
    size_t count = 0;
    std::shared_ptr<const void> skeleton;
    Tensor *data() { return more.empty() ? few.data() : more.data(); }
};

/// The part of a compiled function that knows no types.
class LZ_API CompiledFunction {
public:
    CompiledFunction(const CompiledOptions &options, Location loc);
    ~CompiledFunction();
    CompiledFunction(const CompiledFunction &) = delete;
    CompiledFunction &operator=(const CompiledFunction &) = delete;

    /// True: it has run, and `results` are there. False: the function has to be called.
    bool replay(const CompiledArguments &arguments, CompiledResults &results);
    CompiledStats stats() const;
    std::string explain() const;
    void clear();

    /// The function is called, and this watches what it records.
    class LZ_API Recording {
    public:
        Recording(CompiledFunction &function, const CompiledArguments &arguments);
        ~Recording();
        Recording(const Recording &) = delete;
        Recording &operator=(const Recording &) = delete;
        /// Launches what was recorded. Throws what fails of it. `after`: the arguments, taken apart again:
        /// those from before the call may point at what is no more. `has_others`: what the function gives is
        /// not tensors alone.
        void finish(const CompiledArguments &after, std::span<Tensor *const> results,
                    std::shared_ptr<const void> skeleton, bool has_others);

    private:
        struct Impl;
        std::unique_ptr<Impl> impl_; ///< null: nobody watches
    };

    const CompiledCore &core() const { return *core_; }

private:
    std::unique_ptr<CompiledCore> core_;
};

template <class F>
const CompiledFunction &function_of(const Compiled<F> &compiled);

/// Throws StateError.
[[noreturn]] LZ_API void fail_moved_from();

/// What the function that is recorded gets for an argument of type T &&: of a temporary a copy, so that what
/// was given is still there to be looked at when the function has moved from it.
template <class T>
decltype(auto) given(std::remove_reference_t<T> &argument) {
    using Type = std::remove_cvref_t<T>;
    if constexpr (std::is_lvalue_reference_v<T>)
        return static_cast<T &>(argument);
    else if constexpr (std::is_copy_constructible_v<Type>)
        return Type(std::as_const(argument));
    else
        return static_cast<T &&>(argument);
}

template <class... Args>
void take_apart_arguments(CompiledArguments &to, Args &...args) {
    [[maybe_unused]] const ArgumentVisitor visitor{to};
    // Only looked at: members() need not be const.
    (take_apart(const_cast<std::remove_cvref_t<Args> &>(args), visitor), ...);
}

} // namespace detail

/// A function that `compile` made. Copies are the same function. Any thread may call it, also several at
/// once, as far as the function that it was made of allows that.
template <class F>
class Compiled {
public:
    /// As `compile` calls it; `loc` is the line that errors name.
    Compiled(F function, const CompiledOptions &options, Location loc)
        : shared_(std::make_shared<Shared>(std::move(function), options, loc)) {}

    /// As the function itself, to the bit. What it computes is launched: results are there, or on their way
    /// on a GPU, when it returns; pending arguments are computed first. Throws what the function throws, and
    /// what fails while it runs with the line of the function. A replay has changed nothing then; a call that
    /// is recorded leaves what the function leaves. Throws StateError when it was moved from.
    template <class... Args>
        requires std::is_invocable_v<F &, Args...>
    auto operator()(Args &&...args) const {
        // What `x[0]` and `x.at({...})` give is a part of a tensor; its value is the result.
        using Given = std::remove_cvref_t<std::invoke_result_t<F &, Args...>>;
        using Result = std::conditional_t<std::is_base_of_v<Tensor, Given>, Tensor, Given>;
        detail::CompiledArguments arguments;
        if constexpr (sizeof...(Args) > 0) {
            arguments.structure.push_back(
                reinterpret_cast<uintptr_t>(&detail::kTypeTag<std::tuple<Args...>>));
            arguments.types =
                reinterpret_cast<uintptr_t>(&detail::kTypeTag<std::tuple<std::remove_cvref_t<Args>...>>);
        }
        detail::take_apart_arguments(arguments, args...);
        detail::CompiledResults results;
        Shared &shared = this->shared();
        if (shared.compiled.replay(arguments, results)) {
            if constexpr (std::is_void_v<Result>) {
                return;
            } else if constexpr (std::is_same_v<Result, Tensor>) {
                return std::move(results.data()[0]);
            } else {
                Result out = *static_cast<const Result *>(results.skeleton.get());
                Placer placer{results.data()};
                detail::take_apart(out, placer);
                return out;
            }
        } else {
            detail::CompiledFunction::Recording recording(shared.compiled, arguments);
            detail::CompiledArguments after;
            if constexpr (sizeof...(Args) > 0)
                after.structure.push_back(arguments.structure.span()[0]);
            if constexpr (std::is_void_v<Result>) {
                std::invoke(shared.function, detail::given<Args>(args)...);
                detail::take_apart_arguments(after, args...);
                recording.finish(after, {}, nullptr, false);
            } else {
                Result out = std::invoke(shared.function, detail::given<Args>(args)...);
                detail::take_apart_arguments(after, args...);
                detail::Few<Tensor *, 8> tensors;
                bool has_others = false;
                const detail::ResultVisitor found{tensors, &has_others};
                detail::take_apart(out, found);
                std::shared_ptr<Result> skeleton;
                if constexpr (!std::is_same_v<Result, Tensor>) {
                    skeleton = std::make_shared<Result>(out);
                    const Emptier emptier;
                    detail::take_apart(*skeleton, emptier);
                }
                recording.finish(after, tensors.span(), std::move(skeleton), has_others);
                return out;
            }
        }
    }

    /// Counts since it was made.
    CompiledStats stats() const { return shared().compiled.stats(); }
    /// Its signatures, what each replays, and why calls were not replayed.
    std::string explain() const { return shared().compiled.explain(); }
    /// Forgets what was recorded. What a call on another thread uses goes when that call ends, or the next
    /// one.
    void clear() const { shared().compiled.clear(); }

private:
    template <class G>
    friend const detail::CompiledFunction &detail::function_of(const Compiled<G> &);
    struct Shared {
        Shared(F f, const CompiledOptions &options, Location loc)
            : function(std::move(f)), compiled(options, loc) {}
        F function;
        detail::CompiledFunction compiled;
    };
    Shared &shared() const {
        if (!shared_) [[unlikely]]
            detail::fail_moved_from();
        return *shared_;
    }
    struct Placer {
        Tensor *next;
        void tensor(Tensor &x) { x = std::move(*next++); }
        void number(double) {}
        void integer(int64_t) {}
        void word(uint64_t) {}
        void form(uint64_t) {}
    };
    struct Emptier {
        void tensor(Tensor &x) const { x = Tensor(); }
        void number(double) const {}
        void integer(int64_t) const {}
        void word(uint64_t) const {}
        void form(uint64_t) const {}
    };
    std::shared_ptr<Shared> shared_;
};

namespace detail {
/// The part of a compiled function that knows no types.
template <class F>
const CompiledFunction &function_of(const Compiled<F> &compiled) {
    return compiled.shared().compiled;
}
} // namespace detail

/// `f` compiled: a function of tensors, floats, and structures of them, which gives tensors and structures of
/// them. Modules, optimizers and other state it captures by reference; what it changes in place is changed by
/// each replay as well. `f` is called again for every new signature and size, and whenever what it would do
/// cannot be known to be the same.
template <class F>
Compiled<std::decay_t<F>> compile(F &&f, const CompiledOptions &options = {},
                                  Location loc = Location::current()) {
    return {std::forward<F>(f), options, loc};
}

} // namespace lz
