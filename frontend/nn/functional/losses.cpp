// Losses but for those with a gradient rule of their own (lz::mse_loss, cross_entropy, nll_loss). What would
// be infinite where it is not chosen is computed of another number there, as in activations.cpp.
#include "lazuli/nn/functional.h"

#include "lazuli/autograd/function.h"
#include "lazuli/lazuli.h"

#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace lz::nn::functional {

namespace {

/// Where softplus is the straight line for f64, too: exp(-40) added to 1 changes nothing.
constexpr double kStraight = 40;

/// What keeps PyTorch's formulas off 0: a number of f32 there.
constexpr double kTiny = 1e-12f;

bool is_half(DType dtype) {
    return dtype == f16 || dtype == bf16;
}

Tensor widened(const Tensor &x, Location loc) {
    return x.defined() && is_half(x.dtype(loc)) ? x.to(f32, loc) : x;
}

/// What a loss of these is: half if all that are of floats have that half type, but never under autocast.
DType result_dtype(std::initializer_list<const Tensor *> inputs, const char *function, Location loc) {
    DType dtype = boolean;
    for (const Tensor *input : inputs)
        if (input->defined())
            dtype = promote_types(dtype, input->dtype(loc));
    if (!is_half(dtype) && dtype != f32 && dtype != f64)
        throw DTypeError(fmt::format("{}: takes floats, and none of its inputs is of floats", function), loc);
    if (is_half(dtype) && is_autocast_enabled((*inputs.begin())->device(loc).type()))
        return f32;
    return dtype;
}

/// The mean, the sum, or all, in this dtype.
Tensor reduced(const Tensor &losses, Reduction reduction, DType dtype, const char *function, Location loc) {
    switch (reduction) {
    case Reduction::None:
        return losses.to(dtype, loc);
    case Reduction::Mean:
        return losses.mean({}, false, std::nullopt, loc).to(dtype, loc);
    case Reduction::Sum:
        return losses.sum({}, false, std::nullopt, loc).to(dtype, loc);
    case Reduction::BatchMean:
        throw StateError(fmt::format("{}: the reduction BatchMean is known to kl_div alone; it is None, "
                                     "Mean or Sum",
                                     function),
                         loc);
    }
    throw StateError(fmt::format("{}: the reduction {} is unknown; it is None, Mean or Sum", function,
                                 static_cast<int>(reduction)),
                     loc);
}

/// x, and 0 below it; at 0 the gradient is 0, and NaN stays.
Tensor above_zero(const Tensor &x, Location loc) {
    return where(le(x, 0, loc), 0, x, loc);
}

void check_same_shape(const Tensor &x, const Tensor &target, const char *function, Location loc) {
    if (x.sizes(loc) != target.sizes(loc))
        throw ShapeError(fmt::format("{}: the input has shape [{}], the target [{}]; they must be equal",
                                     function, fmt::join(x.sizes(loc), ","),
                                     fmt::join(target.sizes(loc), ",")),
                         loc);
}

void check_same_rank(std::initializer_list<const Tensor *> inputs, const char *function, Location loc) {
    const Tensor &first = **inputs.begin();
    for (const Tensor *input : inputs)
        if (input->dim(loc) != first.dim(loc))
            throw ShapeError(fmt::format("{}: inputs have {} and {} axes; they must have as many", function,
                                         first.dim(loc), input->dim(loc)),
                             loc);
}

/// x, whose elements have to be probabilities, as those of `target`: found when it runs.
Tensor checked_probabilities(const Tensor &x, const Tensor &target, Location loc) {
    const auto is_probability = [&](const Tensor &v) {
        return logical_and(ge(v, 0, loc), le(v, 1, loc), loc);
    };
    const Tensor checked = lz::detail::checked(
        x, is_probability(x),
        "binary_cross_entropy: an element of the input is not in [0, 1]; the loss of logits is "
        "binary_cross_entropy_with_logits",
        loc);
    return lz::detail::checked(checked, is_probability(target),
                               "binary_cross_entropy: an element of the target is not in [0, 1]", loc);
}

/// Of x in (0, 1). The gradient is that of the formula without its bounds, which would be infinite times 0.
struct BinaryCrossEntropy : autograd::Function<BinaryCrossEntropy> {
    static Tensor forward(autograd::AutogradContext *context, const Tensor &input, const Tensor &target,
                          Location loc) {
        const Tensor x = checked_probabilities(input, target, loc); // backward fails as the loss does
        context->save_for_backward({x, target});
        const Tensor log_x = logarithm(x, loc), log_rest = logarithm(sub(1, x, loc), loc);
        return neg(add(mul(target, log_x, loc), mul(sub(1, target, loc), log_rest, loc), loc), loc);
    }
    static autograd::variable_list backward(autograd::AutogradContext *context,
                                            autograd::variable_list grads) {
        const autograd::variable_list saved = context->get_saved_variables();
        const Tensor &x = saved[0], &target = saved[1];
        Tensor of_x, of_target;
        if (context->needs_input_grad(0))
            of_x = grads[0] * ((x - target) / maximum(x * (1 - x), kTiny));
        if (context->needs_input_grad(1))
            of_target = grads[0] * (logarithm(1 - x, {}) - logarithm(x, {}));
        return {of_x, of_target, Tensor()};
    }

private:
    static Tensor logarithm(const Tensor &x, Location loc) {
        return clamp(log(x, loc), Scalar(-100.0), std::nullopt, loc);
    }
};

} // namespace

Tensor cosine_similarity(const Tensor &a, const Tensor &b, int64_t dim, double eps, Location loc) {
    loc = lz::detail::in_function("cosine_similarity", loc);
    const DType dtype = result_dtype({&a, &b}, "cosine_similarity", loc);
    const std::vector<Tensor> both = broadcast_tensors({widened(a, loc), widened(b, loc)}, loc);
    const Tensor &x = both[0], &y = both[1];
    const auto length = [&](const Tensor &v) {
        const Tensor squares = sum(square(v, loc), {dim}, true, std::nullopt, loc);
        return sqrt(maximum(squares, eps * eps, loc), loc);
    };
    return sum(mul(div(x, length(x), loc), div(y, length(y), loc), loc), {dim}, false, std::nullopt, loc)
        .to(dtype, loc);
}

Tensor pairwise_distance(const Tensor &a, const Tensor &b, double p, double eps, bool keepdim, Location loc) {
    loc = lz::detail::in_function("pairwise_distance", loc);
    const DType dtype = result_dtype({&a, &b}, "pairwise_distance", loc);
    const Tensor off = add(sub(widened(a, loc), widened(b, loc), loc), eps, loc);
    return norm(off, p, {-1}, keepdim, loc).to(dtype, loc);
}

Tensor l1_loss(const Tensor &x, const Tensor &target, Reduction reduction, Location loc) {
    loc = lz::detail::in_function("l1_loss", loc);
    const DType dtype = result_dtype({&x, &target}, "l1_loss", loc);
    const Tensor off = sub(widened(x, loc), widened(target, loc), loc);
    return reduced(abs(off, loc), reduction, dtype, "l1_loss", loc);
}

namespace {

/// What of a size is up to the limit, and what is beyond. A square is taken of the former alone, and no
/// branch is chosen: else the gradient of an infinite size would be NaN.
std::pair<Tensor, Tensor> up_to(const Tensor &size, double limit, Location loc) {
    const Tensor near = minimum(size, limit, loc);
    return {near, sub(size, near, loc)};
}

} // namespace

Tensor smooth_l1_loss(const Tensor &x, const Tensor &target, Reduction reduction, double beta, Location loc) {
    loc = lz::detail::in_function("smooth_l1_loss", loc);
    if (!(beta >= 0))
        throw StateError(fmt::format("smooth_l1_loss: beta is {}; it is 0 or more", beta), loc);
    if (beta == 0)
        return l1_loss(x, target, reduction, loc);
    const DType dtype = result_dtype({&x, &target}, "smooth_l1_loss", loc);
    const Tensor off = sub(widened(x, loc), widened(target, loc), loc), size = abs(off, loc);
    const auto [near, rest] = up_to(size, beta, loc);
    return reduced(add(mul(square(near, loc), 0.5 / beta, loc), rest, loc), reduction, dtype,
                   "smooth_l1_loss", loc);
}

Tensor huber_loss(const Tensor &x, const Tensor &target, Reduction reduction, double delta, Location loc) {
    loc = lz::detail::in_function("huber_loss", loc);
    if (!(delta > 0))
        throw StateError(fmt::format("huber_loss: delta is {}; it is above 0", delta), loc);
    const DType dtype = result_dtype({&x, &target}, "huber_loss", loc);
    const Tensor off = sub(widened(x, loc), widened(target, loc), loc), size = abs(off, loc);
    const auto [near, rest] = up_to(size, delta, loc);
    const Tensor squares = mul(square(near, loc), 0.5, loc);
    const Tensor losses = std::isinf(delta) ? squares : add(squares, mul(rest, delta, loc), loc);
    return reduced(losses, reduction, dtype, "huber_loss", loc);
}

Tensor binary_cross_entropy(const Tensor &x, const Tensor &target, const Tensor &weight, Reduction reduction,
                            Location loc) {
    loc = lz::detail::in_function("binary_cross_entropy", loc);
    check_same_shape(x, target, "binary_cross_entropy", loc);
    const DType dtype = result_dtype({&x, &target, &weight}, "binary_cross_entropy", loc);
    Tensor losses = BinaryCrossEntropy::apply_at(loc, widened(x, loc), widened(target, loc), loc);
    if (weight.defined())
        losses = mul(losses, widened(weight, loc), loc);
    return reduced(losses, reduction, dtype, "binary_cross_entropy", loc);
}

Tensor binary_cross_entropy_with_logits(const Tensor &x, const Tensor &target, const Tensor &weight,
                                        Reduction reduction, const Tensor &pos_weight, Location loc) {
    loc = lz::detail::in_function("binary_cross_entropy_with_logits", loc);
    constexpr const char *name = "binary_cross_entropy_with_logits";
    check_same_shape(x, target, name, loc);
    const DType dtype = result_dtype({&x, &target, &weight, &pos_weight}, name, loc);
    const Tensor v = widened(x, loc), goal = widened(target, loc);
    // -log(sigmoid(x)), and -log(1 - sigmoid(x)) is x more.
    Tensor positive = softplus(neg(v, loc), 1, kStraight, loc);
    if (pos_weight.defined()) {
        const Tensor more = sub(widened(pos_weight, loc), 1, loc);
        positive = mul(positive, add(mul(more, goal, loc), 1, loc), loc);
    }
    Tensor losses = add(mul(sub(1, goal, loc), v, loc), positive, loc);
    if (weight.defined())
        losses = mul(losses, widened(weight, loc), loc);
    return reduced(losses, reduction, dtype, name, loc);
}

Tensor kl_div(const Tensor &x, const Tensor &target, Reduction reduction, bool log_target, Location loc) {
    loc = lz::detail::in_function("kl_div", loc);
    const DType dtype = result_dtype({&x, &target}, "kl_div", loc);
    const Tensor v = widened(x, loc), goal = widened(target, loc);
    Tensor losses;
    if (log_target) {
        losses = mul(exp(goal, loc), sub(goal, v, loc), loc);
    } else {
        const Tensor safe = where(eq(goal, 0, loc), 1, goal, loc);
        losses = mul(goal, sub(log(safe, loc), v, loc), loc);
    }
    if (reduction != Reduction::BatchMean)
        return reduced(losses, reduction, dtype, "kl_div", loc);
    if (x.dim(loc) == 0)
        throw ShapeError("kl_div: the input has no axis of samples, which the reduction BatchMean divides by",
                         loc);
    return div(losses.sum({}, false, std::nullopt, loc), static_cast<double>(x.size(0, loc)), loc)
        .to(dtype, loc);
}

Tensor cosine_embedding_loss(const Tensor &x1, const Tensor &x2, const Tensor &target, double margin,
                             Reduction reduction, Location loc) {
    loc = lz::detail::in_function("cosine_embedding_loss", loc);
    constexpr const char *name = "cosine_embedding_loss";
    const int64_t rank = x1.dim(loc);
    if (rank != x2.dim(loc) || rank != target.dim(loc) + 1 || rank > 2)
        throw ShapeError(
            fmt::format("{}: the inputs have {} and {} axes, the target {}; it takes 2, 2 and 1, "
                        "or 1, 1 and 0",
                        name, rank, x2.dim(loc), target.dim(loc)),
            loc);
    const DType dtype = result_dtype({&x1, &x2}, name, loc);
    const Tensor a = widened(x1, loc), b = widened(x2, loc);
    const auto along = [&](const Tensor &products) { return sum(products, {-1}, false, std::nullopt, loc); };
    const auto length = [&](const Tensor &v) { return add(along(square(v, loc)), kTiny, loc); };
    const Tensor cosine = div(along(mul(a, b, loc)), sqrt(mul(length(a), length(b), loc), loc), loc);
    const Tensor apart = where(eq(target, -1, loc), above_zero(sub(cosine, margin, loc), loc), 0, loc);
    return reduced(where(eq(target, 1, loc), sub(1, cosine, loc), apart, loc), reduction, dtype, name, loc);
}

Tensor triplet_margin_loss(const Tensor &anchor, const Tensor &positive, const Tensor &negative,
                           double margin, double p, double eps, bool swap, Reduction reduction,
                           Location loc) {
    loc = lz::detail::in_function("triplet_margin_loss", loc);
    constexpr const char *name = "triplet_margin_loss";
    if (!(margin >= 0))
        throw StateError(fmt::format("{}: the margin is {}; it is 0 or more", name, margin), loc);
    check_same_rank({&anchor, &positive, &negative}, name, loc);
    const DType dtype = result_dtype({&anchor, &positive, &negative}, name, loc);
    const Tensor a = widened(anchor, loc), near = widened(positive, loc), far = widened(negative, loc);
    const Tensor to_near = pairwise_distance(a, near, p, eps, false, loc);
    Tensor to_far = pairwise_distance(a, far, p, eps, false, loc);
    if (swap)
        to_far = minimum(to_far, pairwise_distance(near, far, p, eps, false, loc), loc);
    return reduced(above_zero(add(sub(to_near, to_far, loc), margin, loc), loc), reduction, dtype, name, loc);
}

Tensor margin_ranking_loss(const Tensor &x1, const Tensor &x2, const Tensor &target, double margin,
                           Reduction reduction, Location loc) {
    loc = lz::detail::in_function("margin_ranking_loss", loc);
    constexpr const char *name = "margin_ranking_loss";
    check_same_rank({&x1, &x2, &target}, name, loc);
    const DType dtype = result_dtype({&x1, &x2}, name, loc);
    const Tensor off = sub(widened(x2, loc), widened(x1, loc), loc);
    return reduced(above_zero(add(mul(widened(target, loc), off, loc), margin, loc), loc), reduction, dtype,
                   name, loc);
}

Tensor hinge_embedding_loss(const Tensor &x, const Tensor &target, double margin, Reduction reduction,
                            Location loc) {
    loc = lz::detail::in_function("hinge_embedding_loss", loc);
    const DType dtype = result_dtype({&x}, "hinge_embedding_loss", loc);
    const Tensor v = widened(x, loc);
    const Tensor apart = where(ne(target, 1, loc), above_zero(sub(margin, v, loc), loc), 0, loc);
    const Tensor together = where(ne(target, -1, loc), v, 0, loc);
    return reduced(add(apart, together, loc), reduction, dtype, "hinge_embedding_loss", loc);
}

Tensor soft_margin_loss(const Tensor &x, const Tensor &target, Reduction reduction, Location loc) {
    loc = lz::detail::in_function("soft_margin_loss", loc);
    const DType dtype = result_dtype({&x}, "soft_margin_loss", loc);
    const Tensor against = neg(mul(widened(target, loc), widened(x, loc), loc), loc);
    return reduced(softplus(against, 1, kStraight, loc), reduction, dtype, "soft_margin_loss", loc);
}

Tensor poisson_nll_loss(const Tensor &x, const Tensor &target, bool log_input, bool full, double eps,
                        Reduction reduction, Location loc) {
    loc = lz::detail::in_function("poisson_nll_loss", loc);
    const DType dtype = result_dtype({&x, &target}, "poisson_nll_loss", loc);
    const Tensor v = widened(x, loc), goal = widened(target, loc);
    Tensor losses = log_input ? sub(exp(v, loc), mul(goal, v, loc), loc)
                              : sub(v, mul(goal, log(add(v, eps, loc), loc), loc), loc);
    if (full) {
        const Tensor above = gt(goal, 1, loc);
        const Tensor safe = where(above, goal, 1, loc);
        const Tensor logarithm = log(safe, loc);
        const Tensor stirling =
            add(sub(mul(safe, logarithm, loc), safe, loc),
                add(mul(logarithm, 0.5, loc), 0.5 * std::log(2 * std::numbers::pi), loc), loc);
        losses = add(losses, where(above, stirling, 0, loc), loc);
    }
    return reduced(losses, reduction, dtype, "poisson_nll_loss", loc);
}

Tensor gaussian_nll_loss(const Tensor &x, const Tensor &target, const Tensor &variance, bool full, double eps,
                         Reduction reduction, Location loc) {
    loc = lz::detail::in_function("gaussian_nll_loss", loc);
    constexpr const char *name = "gaussian_nll_loss";
    if (!(eps > 0))
        throw StateError(fmt::format("{}: eps is {}; it is above 0", name, eps), loc);
    const DType dtype = result_dtype({&x, &target, &variance}, name, loc);
    const Tensor v = widened(x, loc), goal = widened(target, loc);
    Tensor given = widened(variance, loc);
    Sizes without_last = x.sizes(loc), with_one = without_last;
    if (!without_last.empty()) {
        without_last.pop_back();
        with_one.back() = 1;
    }
    const Sizes own = variance.sizes(loc);
    if (own != x.sizes() && own != with_one) {
        if (own != without_last)
            throw ShapeError(
                fmt::format("{}: the input has shape [{}], the variance [{}]; it must be the same, "
                            "or without the last axis, or with 1 there",
                            name, fmt::join(x.sizes(), ","), fmt::join(own, ",")),
                loc);
        given = given.unsqueeze(-1, loc);
    }
    // The bound moves the value and not the gradient.
    const Tensor value = given.detach(loc);
    const Tensor bounded = add(sub(given, value, loc), maximum(value, eps, loc), loc);
    Tensor losses =
        mul(add(log(bounded, loc), div(square(sub(v, goal, loc), loc), bounded, loc), loc), 0.5, loc);
    if (full)
        losses = add(losses, 0.5 * std::log(2 * std::numbers::pi), loc);
    return reduced(losses, reduction, dtype, name, loc);
}

} // namespace lz::nn::functional
