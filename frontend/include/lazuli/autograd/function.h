#pragma once
/// Functions with a backward of the user's own, as in LibTorch:
///
///     struct Clip : lz::autograd::Function<Clip> {
///         static lz::Tensor forward(lz::autograd::AutogradContext *ctx, lz::Tensor x, double bound) {
///             ctx->save_for_backward({x});
///             ctx->saved_data["bound"] = bound;
///             return x.clamp(-bound, bound);
///         }
///         static lz::autograd::variable_list backward(lz::autograd::AutogradContext *ctx,
///                                                     lz::autograd::variable_list grads) {
///             return {grads[0], lz::Tensor()}; // one for each argument of forward
///         }
///     };
///     lz::Tensor y = Clip::apply(x, 0.5);
///
/// What `forward` records has a history of its own, which the results do not show. So an intermediate that is
/// saved keeps it, and gradients of gradients are right (*better*: PyTorch loses them silently).

#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/tensor.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

namespace lz::detail {
struct SavedTensors;
struct FunctionAccess;
} // namespace lz::detail

namespace lz::autograd {

/// What `forward` and `backward` take and give.
using variable_list = std::vector<Tensor>;
/// The same.
using tensor_list = variable_list;

/// A number, a text or a tensor that `forward` leaves for `backward`.
class SavedValue {
public:
    /// Nothing.
    SavedValue() = default;
    /// One of them.
    template <class T>
        requires std::is_arithmetic_v<T>
    SavedValue(T value) { // NOLINT: converts
        if constexpr (std::is_same_v<T, bool>)
            put(value);
        else if constexpr (std::is_floating_point_v<T>)
            put(static_cast<double>(value));
        else
            put(static_cast<int64_t>(value));
    }
    /// A text.
    LZ_API SavedValue(std::string value); // NOLINT: converts
    /// A text.
    LZ_API SavedValue(const char *value); // NOLINT: converts
    /// A tensor. A result of the function itself would keep its graph for ever: use save_for_backward.
    LZ_API SavedValue(Tensor value); // NOLINT: converts

    /// What was put in. Throws StateError, which says what there is, for another kind; so do the others.
    LZ_API int64_t toInt(Location loc = Location::current()) const;
    /// What was put in.
    LZ_API double toDouble(Location loc = Location::current()) const;
    /// What was put in.
    LZ_API bool toBool(Location loc = Location::current()) const;
    /// What was put in.
    LZ_API const std::string &toStringRef(Location loc = Location::current()) const;
    /// What was put in.
    LZ_API const Tensor &toTensor(Location loc = Location::current()) const;

private:
    friend class SavedData;
    LZ_API void put(bool value);
    LZ_API void put(int64_t value);
    LZ_API void put(double value);
    template <class T>
    const T &get(const char *function, Location loc) const;
    std::variant<std::monostate, int64_t, double, bool, std::string, Tensor> value_;
    std::string key_; ///< by which it was asked for, for messages
};

/// Values by key. What `[]` and `at` give knows its key, so that errors name it.
class SavedData : public std::map<std::string, SavedValue> {
public:
    /// The value of this key, nothing where there was none.
    LZ_API SavedValue &operator[](const std::string &key);
    /// The value of this key. Throws IndexError where there is none.
    LZ_API const SavedValue &at(const std::string &key, Location loc = Location::current()) const;
};

/// What `forward` leaves for `backward`.
class LZ_API AutogradContext {
public:
    AutogradContext();
    ~AutogradContext();
    AutogradContext(const AutogradContext &) = delete;
    AutogradContext &operator=(const AutogradContext &) = delete;

    /// Numbers and texts.
    SavedData saved_data;

    /// Inputs, results and what lies between; kept until backward has been through.
    void save_for_backward(variable_list tensors);
    /// The same tensors, in backward.
    variable_list get_saved_variables() const;
    /// Results that have no gradient. Called in forward.
    void mark_non_differentiable(const variable_list &results);
    /// Told false, `backward` gets empty tensors for results that no gradient came for, instead of zeros.
    void set_materialize_grads(bool value);
    /// Whether the gradient of this argument of `forward` is wanted. Called in backward.
    bool needs_input_grad(size_t argument) const;

private:
    friend struct lz::detail::FunctionAccess;
    std::unique_ptr<lz::detail::SavedTensors> saved_;
};

} // namespace lz::autograd

namespace lz::detail {

/// Runs forward, and gives its results a history whose rule is `backward`. `inputs`: one for each argument,
/// undefined where it is no tensor.
LZ_API std::vector<Tensor>
apply_function(const std::shared_ptr<autograd::AutogradContext> &context, const std::vector<Tensor> &inputs,
               const std::function<std::vector<Tensor>()> &forward,
               std::function<std::vector<Tensor>(autograd::AutogradContext *, std::vector<Tensor>)> backward,
               const std::type_info &type, Location loc);

template <class T>
Tensor tensor_or_none(const T &argument) {
    if constexpr (std::is_convertible_v<const T &, const Tensor &>)
        return argument;
    else
        return {};
}

} // namespace lz::detail

namespace lz::autograd {

/// Base of a function F that has static members `forward` and `backward`.
template <class F>
struct Function {
    /// What `forward` gives, with a history. Its arguments are tensors and anything else; gradients go to
    /// tensors. Errors of backward name the line of the first result's last operation; an empty result is a
    /// StateError with the line of the first argument's.
    template <class... Args>
    static auto apply(Args &&...args) {
        return apply_at(Location(), std::forward<Args>(args)...);
    }
    /// The same with a place for messages: `Clip::apply_at(lz::Location::current(), x, 0.5)`.
    template <class... Args>
    static auto apply_at(Location loc, Args &&...args) {
        using Result =
            decltype(F::forward(static_cast<AutogradContext *>(nullptr), std::forward<Args>(args)...));
        const auto context = std::make_shared<AutogradContext>();
        const variable_list inputs = {lz::detail::tensor_or_none(args)...};
        variable_list results = lz::detail::apply_function(
            context, inputs,
            [&]() -> variable_list {
                if constexpr (std::is_same_v<Result, Tensor>)
                    return {F::forward(context.get(), args...)};
                else
                    return F::forward(context.get(), args...);
            },
            [](AutogradContext *ctx, variable_list grads) { return F::backward(ctx, std::move(grads)); },
            typeid(F), loc);
        if constexpr (std::is_same_v<Result, Tensor>)
            return std::move(results[0]);
        else
            return results;
    }
};

/// f(inputs), of which nothing is kept but the inputs: backward records f again, to be computed when the
/// gradient of its result is there, so that what lies between takes no memory until then. Random numbers are
/// drawn again, too. f may use parameters beside its inputs, whose gradients come as well, with backward; not
/// with `grad`. Throws StateError where f gives an empty tensor.
LZ_API Tensor checkpoint(const std::function<Tensor(const variable_list &)> &f, const variable_list &inputs,
                         Location loc = Location::current());

} // namespace lz::autograd
