// Slopes where there are two are PyTorch's. What would overflow where it is not chosen is computed of 0
// there, so that the gradient of the chosen branch is not 0 * infinity.
#include "lazuli/nn/functional.h"

#include "lazuli/compiled.h"

#include <string>

namespace lz::nn::functional {

namespace {

/// f(x), of half types in f32.
template <class F>
Tensor in_working_dtype(const Tensor &x, Location loc, F &&f) {
    const DType dtype = x.dtype(loc);
    if (dtype == f16 || dtype == bf16)
        return f(x.to(f32, loc)).to(dtype, loc);
    return f(x);
}

/// x where it is above 0, else f(x).
template <class F>
Tensor above_zero_or(const Tensor &x, Location loc, F &&below) {
    const Tensor above = gt(x, 0, loc);
    return where(above, x, below(where(above, 0, x, loc)), loc);
}

} // namespace

Tensor elu(const Tensor &x, double alpha, Location loc) {
    loc = lz::detail::in_function("elu", loc);
    return in_working_dtype(x, loc, [&](const Tensor &v) {
        return above_zero_or(v, loc,
                             [&](const Tensor &negative) { return mul(expm1(negative, loc), alpha, loc); });
    });
}

Tensor selu(const Tensor &x, Location loc) {
    loc = lz::detail::in_function("selu", loc);
    constexpr double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
    return in_working_dtype(x, loc, [&](const Tensor &v) { return mul(elu(v, alpha, loc), scale, loc); });
}

Tensor celu(const Tensor &x, double alpha, Location loc) {
    loc = lz::detail::in_function("celu", loc);
    if (alpha == 0)
        throw StateError("celu: alpha is 0, and x is divided by it", loc);
    return in_working_dtype(x, loc, [&](const Tensor &v) {
        return above_zero_or(v, loc, [&](const Tensor &negative) {
            return mul(expm1(div(negative, alpha, loc), loc), alpha, loc);
        });
    });
}

Tensor relu6(const Tensor &x, Location loc) {
    loc = lz::detail::in_function("relu6", loc);
    return hardtanh(x, 0, 6, loc);
}

Tensor hardtanh(const Tensor &x, double min_val, double max_val, Location loc) {
    loc = lz::detail::in_function("hardtanh", loc);
    if (!(min_val <= max_val))
        throw StateError("hardtanh: min_val is " + std::to_string(min_val) + ", above max_val, " +
                             std::to_string(max_val),
                         loc);
    specialize_on({min_val, max_val}); // their order
    return where(le(x, min_val, loc), min_val, where(ge(x, max_val, loc), max_val, x, loc), loc);
}

Tensor hardsigmoid(const Tensor &x, Location loc) {
    loc = lz::detail::in_function("hardsigmoid", loc);
    return in_working_dtype(x, loc, [&](const Tensor &v) { return div(relu6(add(v, 3, loc), loc), 6, loc); });
}

Tensor hardswish(const Tensor &x, Location loc) {
    loc = lz::detail::in_function("hardswish", loc);
    return in_working_dtype(
        x, loc, [&](const Tensor &v) { return div(mul(v, relu6(add(v, 3, loc), loc), loc), 6, loc); });
}

Tensor hardshrink(const Tensor &x, double lambda, Location loc) {
    loc = lz::detail::in_function("hardshrink", loc);
    // Of the two comparisons that NaN fails, it passes on.
    return where(logical_and(ge(x, -lambda, loc), le(x, lambda, loc), loc), 0, x, loc);
}

Tensor softshrink(const Tensor &x, double lambda, Location loc) {
    loc = lz::detail::in_function("softshrink", loc);
    if (lambda < 0)
        throw StateError("softshrink: lambda is " + std::to_string(lambda) + "; it is 0 or more", loc);
    return in_working_dtype(x, loc, [&](const Tensor &v) {
        return where(gt(v, lambda, loc), sub(v, lambda, loc),
                     where(lt(v, -lambda, loc), add(v, lambda, loc), mul(v, 0, loc), loc), loc);
    });
}

Tensor tanhshrink(const Tensor &x, Location loc) {
    loc = lz::detail::in_function("tanhshrink", loc);
    return in_working_dtype(x, loc, [&](const Tensor &v) { return sub(v, tanh(v, loc), loc); });
}

Tensor softsign(const Tensor &x, Location loc) {
    loc = lz::detail::in_function("softsign", loc);
    return in_working_dtype(x, loc, [&](const Tensor &v) { return div(v, add(abs(v, loc), 1, loc), loc); });
}

Tensor logsigmoid(const Tensor &x, Location loc) {
    loc = lz::detail::in_function("logsigmoid", loc);
    // softplus(-x) is -x where exp(-x) would overflow, and also where adding 1 to it changes nothing.
    return in_working_dtype(x, loc,
                            [&](const Tensor &v) { return neg(softplus(neg(v, loc), 1, 40, loc), loc); });
}

Tensor mish(const Tensor &x, Location loc) {
    loc = lz::detail::in_function("mish", loc);
    return in_working_dtype(x, loc,
                            [&](const Tensor &v) { return mul(v, tanh(softplus(v, 1, 20, loc), loc), loc); });
}

Tensor threshold(const Tensor &x, double threshold, double value, Location loc) {
    loc = lz::detail::in_function("threshold", loc);
    return where(le(x, threshold, loc), value, x, loc);
}

Tensor prelu(const Tensor &x, const Tensor &weight, Location loc) {
    loc = lz::detail::in_function("prelu", loc);
    Tensor slope = weight;
    if (weight.numel(loc) != 1) {
        const int64_t channels = x.dim(loc) >= 2 ? x.size(1, loc) : 1;
        if (weight.dim(loc) != 1 || weight.size(0, loc) != channels)
            throw ShapeError("prelu: the weight has " + std::to_string(weight.numel(loc)) +
                                 " elements, and axis 1 of the input " + std::to_string(channels),
                             loc);
        Sizes sizes(std::vector<int64_t>(static_cast<size_t>(x.dim(loc)), 1));
        sizes[1] = channels;
        slope = weight.reshape(sizes, loc);
    } else {
        slope = weight.reshape(Sizes(), loc);
    }
    return where(gt(x, 0, loc), x, mul(slope, x, loc), loc);
}

Tensor rrelu(const Tensor &x, double lower, double upper, bool training, Location loc) {
    loc = lz::detail::in_function("rrelu", loc);
    if (!(lower <= upper))
        throw StateError(
            "rrelu: lower is " + std::to_string(lower) + ", above upper, " + std::to_string(upper), loc);
    specialize_on({lower, upper}); // how far apart they are
    if (!training)
        return leaky_relu(x, (lower + upper) / 2, loc);
    const Tensor slope = add(mul(rand_like(x, {}, loc), upper - lower, loc), lower, loc);
    return where(gt(x, 0, loc), x, mul(slope, x, loc), loc);
}

Tensor glu(const Tensor &x, int64_t dim, Location loc) {
    loc = lz::detail::in_function("glu", loc);
    const int64_t extent = x.size(dim, loc);
    if (extent % 2 != 0)
        throw ShapeError("glu: axis " + std::to_string(dim) + " has extent " + std::to_string(extent) +
                             ", which has no half",
                         loc);
    return mul(x.narrow(dim, 0, extent / 2, loc), sigmoid(x.narrow(dim, extent / 2, extent / 2, loc), loc),
               loc);
}

Tensor softmin(const Tensor &x, int64_t dim, Location loc) {
    loc = lz::detail::in_function("softmin", loc);
    return softmax(neg(x, loc), dim, std::nullopt, loc);
}

Tensor gumbel_softmax(const Tensor &logits, double tau, bool hard, int64_t dim, Location loc) {
    loc = lz::detail::in_function("gumbel_softmax", loc);
    if (tau == 0)
        throw StateError("gumbel_softmax: tau is 0, and the logits are divided by it", loc);
    if (!is_floating_point(logits.dtype(loc)))
        throw DTypeError("gumbel_softmax: the logits are " + std::string(name(logits.dtype(loc))) +
                             "; they must be floats",
                         loc);
    const Tensor soft = in_working_dtype(logits, loc, [&](const Tensor &v) {
        Tensor drawn = empty_like(v.detach(loc), {}, loc);
        drawn.exponential_(1, loc);
        return softmax(div(sub(v, log(drawn, loc), loc), tau, loc), dim, std::nullopt, loc);
    });
    if (!hard)
        return soft;
    // The value of the first, the gradient of the second.
    const Tensor largest = argmax(soft, dim, true, loc);
    const Tensor chosen = scatter(zeros_like(soft.detach(loc), {}, loc), dim, largest, 1, loc);
    return add(sub(chosen, soft.detach(loc), loc), soft, loc);
}

} // namespace lz::nn::functional
