#pragma once
/// Derivatives of functions, for those who come from JAX, MLX or torch.func. The functions are any that are
/// made of Lazuli's; arguments need not require grad.

#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/tensor.h"

#include <functional>
#include <utility>
#include <vector>

namespace lz {

/// Several tensors to one.
using TensorFunction = std::function<Tensor(const std::vector<Tensor> &)>;

namespace detail {
LZ_API std::pair<Tensor, std::vector<Tensor>> value_and_grad(const TensorFunction &f,
                                                             const std::vector<Tensor> &at, Location loc);
}

/// A function that gives f's value, one number, and its gradients with respect to all arguments, which are
/// tensors of floats: `auto [loss, grads] = value_and_grad(f)(w, b);`. Gradients can be differentiated again.
template <class F>
auto value_and_grad(F f, Location loc = Location::current()) {
    return [f = std::move(f), loc]<class... T>(const T &...arguments) {
        const std::vector<Tensor> at = {arguments...};
        return detail::value_and_grad(
            [&f](const std::vector<Tensor> &x) {
                return [&]<size_t... i>(std::index_sequence<i...>) -> Tensor {
                    return f(x[i]...);
                }(std::index_sequence_for<T...>());
            },
            at, loc);
    };
}

/// f(at), and the gradients of sum(v * f(at)) with respect to `at`: v times the Jacobian. `v` has the shape
/// of f(at).
LZ_API std::pair<Tensor, std::vector<Tensor>> vjp(const TensorFunction &f, const std::vector<Tensor> &at,
                                                  const Tensor &v, Location loc = Location::current());
/// f(at), and how it changes in the direction of `tangents`, which have the shapes of `at`: the Jacobian
/// times them. Two backwards.
LZ_API std::pair<Tensor, Tensor> jvp(const TensorFunction &f, const std::vector<Tensor> &at,
                                     const std::vector<Tensor> &tangents, Location loc = Location::current());
/// d f(x)[i] / d x[j], in the shape of f(x) followed by that of x. One backward for each element of f(x).
LZ_API Tensor jacobian(const std::function<Tensor(const Tensor &)> &f, const Tensor &x,
                       Location loc = Location::current());
/// The second derivatives of f, which gives one number, in the shape of x twice.
LZ_API Tensor hessian(const std::function<Tensor(const Tensor &)> &f, const Tensor &x,
                      Location loc = Location::current());

} // namespace lz
