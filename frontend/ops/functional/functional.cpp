#include "lazuli/ops/functional.h"

#include "frontend/autograd/composites.h"
#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/views.h"

#include <array>
#include <limits>
#include <numbers>

namespace lz {

using detail::Axes;
using detail::Op;
using detail::Shape;

namespace {

Tensor with_number(Op op, const Tensor &a, double number, Location loc) {
    return detail::binary(op, a, detail::literal(a, number, loc), loc);
}
Tensor plus(const Tensor &a, double number, Location loc) {
    return with_number(Op::Add, a, number, loc);
}
Tensor times(const Tensor &a, double number, Location loc) {
    return with_number(Op::Mul, a, number, loc);
}

} // namespace

Tensor gelu(const Tensor &x, Gelu approximation, Location loc) {
    loc = detail::in<"gelu">(loc);
    const detail::CompositeRule &rule =
        approximation == Gelu::Erf ? detail::kGeluErfRule : detail::kGeluTanhRule;
    return detail::composite(rule, {&x}, {}, loc, [&] {
        return detail::in_working_dtype(x, "gelu", loc, [&](const Tensor &v) {
            Tensor inner;
            if (approximation == Gelu::Erf) {
                inner = detail::unary(Op::Erf, times(v, std::numbers::sqrt2 / 2, loc), loc);
            } else {
                const Tensor cube = detail::binary(Op::Mul, detail::binary(Op::Mul, v, v, loc), v, loc);
                const Tensor sum = detail::binary(Op::Add, v, times(cube, 0.044715, loc), loc);
                inner = detail::unary(Op::Tanh,
                                      times(sum, std::numbers::sqrt2 * std::numbers::inv_sqrtpi, loc), loc);
            }
            return detail::binary(Op::Mul, times(v, 0.5, loc), plus(inner, 1, loc), loc);
        });
    });
}

Tensor softplus(const Tensor &x, const Scalar &beta, const Scalar &threshold, Location loc) {
    loc = detail::in<"softplus">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"softplus">(
            loc, [&](const Tensor &v) { return softplus(v, beta, threshold, loc); }, x);
    const int64_t numbers[] = {ir::scalar_word(beta.to_double()), ir::scalar_word(threshold.to_double())};
    return detail::composite(detail::kSoftplusRule, {&x}, numbers, loc, [&] {
        return detail::in_working_dtype(x, "softplus", loc, [&](const Tensor &v) {
            const Tensor b = detail::constant(v, beta.to_double(), loc);
            const Tensor scaled = detail::binary(Op::Mul, v, b, loc);
            const Tensor soft = detail::binary(
                Op::Div, detail::unary(Op::Log1p, detail::unary(Op::Exp, scaled, loc), loc), b, loc);
            const Tensor straight =
                detail::binary(Op::Gt, scaled, detail::constant(v, threshold.to_double(), loc), loc);
            return detail::select(straight, v, soft, loc);
        });
    });
}

Tensor leaky_relu(const Tensor &x, const Scalar &slope, Location loc) {
    loc = detail::in<"leaky_relu">(loc);
    return detail::composite(detail::kLeakyReluRule, {&x}, {ir::scalar_word(slope.to_double())}, loc, [&] {
        return detail::in_working_dtype(x, "leaky_relu", loc, [&](const Tensor &v) {
            const Tensor scaled =
                detail::binary(Op::Mul, v, detail::constant(v, slope.to_double(), loc), loc);
            return detail::select(with_number(Op::Gt, v, 0, loc), v, scaled, loc);
        });
    });
}

namespace {

/// x less its maximum over the axis. Over an empty axis there is none, and nothing to shift.
Tensor shifted(const Tensor &x, std::span<const int64_t> axis, Location loc) {
    if (detail::type(x).shape[static_cast<int>(axis[0])] == 0)
        return x;
    return detail::binary(Op::Sub, x, detail::reduce(Op::ReduceMax, x, axis, true, loc), loc);
}

template <class F>
Tensor over_axis(const Tensor &x, int64_t axis, std::optional<DType> dtype, const detail::CompositeRule &rule,
                 const char *function, Location loc, F &&f) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    const Tensor input = dtype ? detail::cast(x, detail::to_ir(*dtype), loc) : x;
    if (!ir::is_float(detail::type(input).dtype))
        throw DTypeError(std::string(function) + ": takes floats, not " + detail::text(type) +
                             "; name a floating dtype",
                         loc);
    const bool number = type.shape.rank() == 0;
    const int64_t at[] = {detail::is_axis_of_number(axis, type.shape.rank())
                              ? 0
                              : detail::normal_axis(axis, type.shape.rank(), function, type, loc)};
    if (number)
        return detail::in_working_dtype(input, function, loc, [&](const Tensor &v) {
            return detail::reshape_to(f(detail::reshape_to(v, {1}, loc), at), {}, loc);
        });
    return detail::composite(rule, {&input}, at, loc, [&] {
        return detail::in_working_dtype(input, function, loc, [&](const Tensor &v) { return f(v, at); });
    });
}

} // namespace

Tensor softmax(const Tensor &x, int64_t axis, std::optional<DType> dtype, Location loc) {
    loc = detail::in<"softmax">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"softmax">(
            loc, [&](const Tensor &v) { return softmax(v, axis, dtype, loc); }, x);
    return over_axis(x, axis, dtype, detail::kSoftmaxRule, "softmax", loc,
                     [&](const Tensor &v, std::span<const int64_t> at) {
                         // One division a row instead of one an element.
                         const Tensor powers = detail::unary(Op::Exp, shifted(v, at, loc), loc);
                         const Tensor total = detail::reduce(Op::ReduceSum, powers, at, true, loc);
                         const Tensor part =
                             detail::binary(Op::Div, detail::constant(total, 1.0, loc), total, loc);
                         return detail::binary(Op::Mul, powers, part, loc);
                     });
}

Tensor log_softmax(const Tensor &x, int64_t axis, std::optional<DType> dtype, Location loc) {
    loc = detail::in<"log_softmax">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"log_softmax">(
            loc, [&](const Tensor &v) { return log_softmax(v, axis, dtype, loc); }, x);
    return over_axis(x, axis, dtype, detail::kLogSoftmaxRule, "log_softmax", loc,
                     [&](const Tensor &v, std::span<const int64_t> at) {
                         const Tensor low = shifted(v, at, loc);
                         const Tensor total =
                             detail::reduce(Op::ReduceSum, detail::unary(Op::Exp, low, loc), at, true, loc);
                         return detail::binary(Op::Sub, low, detail::unary(Op::Log, total, loc), loc);
                     });
}

namespace {

/// The last axes of x, whose extents must be `shape`; the parameters must have it.
Axes normalized_axes(const Tensor &x, const Sizes &shape, std::initializer_list<const Tensor *> parameters,
                     const char *function, Location loc) {
    const ir::TensorType &type = detail::checked_type(x, function, loc);
    const auto rank = static_cast<size_t>(type.shape.rank());
    const Shape wanted = detail::checked_shape(shape, type.dtype, function, loc);
    const auto last = type.shape.extents().subspan(rank - std::min(rank, shape.size()));
    if (shape.empty() || !(Shape(last) == wanted))
        throw ShapeError(std::string(function) + ": the last axes of " + detail::text(type) +
                             " do not have the extents " + ir::to_string(wanted),
                         loc);
    if (!ir::is_float(type.dtype))
        throw DTypeError(std::string(function) + ": takes floats, not " + detail::text(type), loc);
    for (const Tensor *p : parameters)
        if (detail::Access::given(*p) && !(detail::checked_type(*p, function, loc).shape == wanted))
            throw ShapeError(std::string(function) + ": a parameter has shape " +
                                 ir::to_string(detail::type(*p).shape) + "; it must be " +
                                 ir::to_string(wanted),
                             loc);
    Axes axes;
    for (size_t a = rank - shape.size(); a < rank; ++a)
        axes.axis[axes.count++] = static_cast<int64_t>(a);
    return axes;
}

Tensor mean_over(const Tensor &x, const Axes &axes, Location loc) {
    const auto n = static_cast<double>(detail::count_of(detail::type(x).shape, axes));
    return detail::binary(Op::Div, detail::reduce(Op::ReduceSum, x, axes.span(), true, loc),
                          detail::constant(x, n, loc), loc);
}

Tensor with_parameter(Op op, const Tensor &x, const Tensor &parameter, Location loc) {
    return parameter.defined()
               ? detail::binary(op, x, detail::cast(parameter, detail::type(x).dtype, loc), loc)
               : x;
}

} // namespace

Tensor layer_norm(const Tensor &x, const Sizes &shape, const Tensor &weight, const Tensor &bias, double eps,
                  Location loc) {
    loc = detail::in<"layer_norm">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"layer_norm">(
            loc,
            [&](const Tensor &v, const Tensor &w, const Tensor &b) {
                return layer_norm(v, shape, w, b, eps, loc);
            },
            x, weight, bias);
    const Axes axes = normalized_axes(x, shape, {&weight, &bias}, "layer_norm", loc);
    const auto all = detail::together(loc, x, weight, bias);
    const int64_t numbers[] = {ir::scalar_word(eps), static_cast<int64_t>(axes.count)};
    return detail::composite(detail::kLayerNormRule, {&all[0], &all[1], &all[2]}, numbers, loc, [&] {
        return detail::in_working_dtype(all[0], "layer_norm", loc, [&](const Tensor &v) {
            const Tensor off = detail::binary(Op::Sub, v, mean_over(v, axes, loc), loc);
            const Tensor variance = mean_over(detail::binary(Op::Mul, off, off, loc), axes, loc);
            const Tensor scale = detail::unary(
                Op::Rsqrt, detail::binary(Op::Add, variance, detail::constant(v, eps, loc), loc), loc);
            const Tensor normal = detail::binary(Op::Mul, off, scale, loc);
            return with_parameter(Op::Add, with_parameter(Op::Mul, normal, all[1], loc), all[2], loc);
        });
    });
}

Tensor rms_norm(const Tensor &x, const Sizes &shape, const Tensor &weight, std::optional<double> eps,
                Location loc) {
    loc = detail::in<"rms_norm">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"rms_norm">(
            loc, [&](const Tensor &v, const Tensor &w) { return rms_norm(v, shape, w, eps, loc); }, x,
            weight);
    const Axes axes = normalized_axes(x, shape, {&weight}, "rms_norm", loc);
    const bool is_f64 = detail::type(x).dtype == ir::DType::F64;
    const double small = eps      ? *eps
                         : is_f64 ? std::numeric_limits<double>::epsilon()
                                  : static_cast<double>(std::numeric_limits<float>::epsilon());
    const auto all = detail::together(loc, x, weight);
    const int64_t numbers[] = {ir::scalar_word(small), static_cast<int64_t>(axes.count)};
    return detail::composite(detail::kRmsNormRule, {&all[0], &all[1]}, numbers, loc, [&] {
        return detail::in_working_dtype(all[0], "rms_norm", loc, [&](const Tensor &v) {
            const Tensor squares = mean_over(detail::binary(Op::Mul, v, v, loc), axes, loc);
            const Tensor scale = detail::unary(
                Op::Rsqrt, detail::binary(Op::Add, squares, detail::constant(v, small, loc), loc), loc);
            return with_parameter(Op::Mul, detail::binary(Op::Mul, v, scale, loc), all[1], loc);
        });
    });
}

namespace {

void check_reduction(Reduction reduction, const char *function, Location loc) {
    if (reduction != Reduction::None && reduction != Reduction::Mean && reduction != Reduction::Sum)
        throw StateError(std::string(function) + ": the reduction " +
                             (reduction == Reduction::BatchMean
                                  ? "BatchMean is known to kl_div alone"
                                  : std::to_string(static_cast<int>(reduction)) + " is unknown") +
                             "; it is None, Mean or Sum",
                         loc);
}

/// A loss of one value a sample as the reduction wants it; `count` divides the mean.
Tensor reduced(const Tensor &losses, Reduction reduction, const Tensor &count, Location loc) {
    if (reduction == Reduction::None)
        return losses;
    const Tensor total = sum(losses, {}, false, std::nullopt, loc);
    return reduction == Reduction::Sum ? total : detail::binary(Op::Div, total, count, loc);
}

/// Scores of samples by class with the class axis last: [n.., classes]; a single sample has no n.
struct Samples {
    Tensor scores; ///< in the working dtype
    Tensor target; ///< beside them
    int axis;
    ir::DType dtype;
};

Samples samples_of(const Tensor &scores, const Tensor &target, bool classes, const char *function,
                   Location loc) {
    const ir::TensorType type = detail::checked_type(scores, function, loc);
    const ir::TensorType goal = detail::checked_type(target, function, loc);
    const int rank = type.shape.rank();
    if (rank == 0)
        throw ShapeError(std::string(function) + ": the scores have no class axis", loc);
    if (!ir::is_float(type.dtype))
        throw DTypeError(std::string(function) + ": the scores must be floats, not " + detail::text(type),
                         loc);
    const int axis = rank == 1 ? 0 : 1;
    Shape wanted;
    for (int a = 0; a < rank; ++a)
        if (!classes || a != axis)
            wanted.push_back(type.shape[a]);
    if (!(goal.shape == wanted))
        throw ShapeError(std::string(function) + ": the target has shape " + ir::to_string(goal.shape) +
                             "; for scores " + ir::to_string(type.shape) + " it must be " +
                             ir::to_string(wanted),
                         loc);
    const auto [x, there] = detail::together(loc, scores, target);
    return {detail::cast(x, detail::working_dtype(type.dtype), loc), there, axis, type.dtype};
}

/// The number of samples whose class counts; classes that do not are replaced by 0, so that they can be
/// looked up.
struct Classes {
    Tensor index, counts; ///< i64 or i32; bool
};

Classes classes_of(const Tensor &target, int64_t ignore_index, const char *function, Location loc) {
    const ir::TensorType &type = detail::type(target);
    if (type.dtype != ir::DType::I64 && type.dtype != ir::DType::I32)
        throw DTypeError(std::string(function) + ": classes must be i64 or i32, not " +
                             std::string(ir::name(type.dtype)),
                         loc);
    const Tensor ignored = detail::constant(Scalar(ignore_index), type.dtype, type.device, loc);
    const Tensor counts = detail::binary(Op::Ne, target, ignored, loc);
    return {detail::select(counts, target, detail::literal(target, 0, loc), loc), counts};
}

Tensor picked(const Tensor &scores, const Tensor &index, int axis, Location loc) {
    const Tensor row = unsqueeze(index, axis, loc);
    return detail::reshape_to(gather(scores, axis, row, loc), detail::type(index).shape, loc);
}

Tensor loss_of(const Tensor &losses, const Classes &classes, const CrossEntropyOptions &options,
               Location loc) {
    const Tensor kept = detail::select(classes.counts, losses, detail::literal(losses, 0, loc), loc);
    const ir::DType dtype = detail::type(losses).dtype;
    const Tensor count = options.reduction == Reduction::Mean
                             ? sum(detail::cast(classes.counts, dtype, loc), {}, false, std::nullopt, loc)
                             : Tensor();
    return reduced(kept, options.reduction, count, loc);
}

/// What the rules of these losses have to know.
std::array<int64_t, 4> numbers_of(const Samples &samples, const CrossEntropyOptions &options) {
    return {samples.axis, static_cast<int64_t>(options.reduction), options.ignore_index,
            ir::scalar_word(options.label_smoothing)};
}

/// The weights of classes, beside the scores and in their dtype.
Tensor class_weight(const Samples &samples, const Tensor &weight, const char *function, Location loc) {
    const ir::TensorType given = detail::checked_type(weight, function, loc);
    const ir::TensorType &scores = detail::type(samples.scores);
    const Shape wanted{scores.shape[samples.axis]};
    if (!(given.shape == wanted))
        throw ShapeError(std::string(function) + ": the weight has shape " + ir::to_string(given.shape) +
                             "; for scores " + ir::to_string(scores.shape) + " it must be " +
                             ir::to_string(wanted),
                         loc);
    if (!ir::is_float(given.dtype))
        throw DTypeError(std::string(function) + ": the weight must be of floats, not " + detail::text(given),
                         loc);
    return detail::cast(detail::together(loc, samples.scores, weight)[1], scores.dtype, loc);
}

/// Losses of samples, 0 where the class does not count, times the weights of their classes.
Tensor weighted_loss(const Tensor &losses, const Samples &samples, const Tensor &weight,
                     const CrossEntropyOptions &options, const char *function, Location loc) {
    const Classes classes = classes_of(samples.target, options.ignore_index, function, loc);
    const Tensor none = detail::literal(weight, 0, loc);
    const Tensor each = detail::select(classes.counts, take(weight, classes.index, loc), none, loc);
    const Tensor count =
        options.reduction == Reduction::Mean ? sum(each, {}, false, std::nullopt, loc) : Tensor();
    return reduced(detail::binary(Op::Mul, losses, each, loc), options.reduction, count, loc);
}

void check_options(const CrossEntropyOptions &options, const char *function, Location loc) {
    check_reduction(options.reduction, function, loc);
    if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
        throw StateError(std::string(function) + ": the label smoothing is " +
                             std::to_string(options.label_smoothing) + "; it must be from 0 to 1",
                         loc);
    detail::note_limits(options.label_smoothing, 0, 1);
}

} // namespace

Tensor nll_loss(const Tensor &log_probabilities, const Tensor &target, const CrossEntropyOptions &options,
                Location loc) {
    loc = detail::in<"nll_loss">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"nll_loss">(
            loc, [&](const Tensor &v, const Tensor &t) { return nll_loss(v, t, options, loc); },
            log_probabilities, target);
    check_options(options, "nll_loss", loc);
    const Samples s = samples_of(log_probabilities, target, true, "nll_loss", loc);
    if (options.weight.defined()) {
        const Tensor weight = class_weight(s, options.weight, "nll_loss", loc);
        const Tensor losses = nll_loss(
            s.scores, s.target, {.reduction = Reduction::None, .ignore_index = options.ignore_index}, loc);
        return detail::cast(weighted_loss(losses, s, weight, options, "nll_loss", loc), s.dtype, loc);
    }
    const Tensor loss =
        detail::composite(detail::kNllLossRule, {&s.scores, &s.target}, numbers_of(s, options), loc, [&] {
            const Classes classes = classes_of(s.target, options.ignore_index, "nll_loss", loc);
            const Tensor losses = detail::unary(Op::Neg, picked(s.scores, classes.index, s.axis, loc), loc);
            return loss_of(losses, classes, options, loc);
        });
    return detail::cast(loss, s.dtype, loc);
}

namespace {

/// With weights of classes. The smoothed part is weighed by each class, and divided as the rest is.
Tensor weighted_cross_entropy(const Samples &s, bool probabilities, const CrossEntropyOptions &options,
                              Location loc) {
    const Tensor weight = class_weight(s, options.weight, "cross_entropy", loc);
    const Shape &shape = detail::type(s.scores).shape;
    Shape along;
    for (int a = 0; a < shape.rank(); ++a)
        along.push_back(a == s.axis ? shape[a] : 1);
    const Tensor each = detail::reshape_to(weight, along, loc);
    const Tensor logs = log_softmax(s.scores, s.axis, std::nullopt, loc);
    const Tensor weighted = detail::unary(Op::Neg, detail::binary(Op::Mul, logs, each, loc), loc);
    const auto classes = static_cast<double>(shape[s.axis]);
    const double smooth = options.label_smoothing;
    const int64_t axis[] = {s.axis};
    if (probabilities) {
        Tensor p = detail::cast(s.target, detail::type(s.scores).dtype, loc);
        if (smooth > 0)
            p = detail::binary(Op::Add, detail::binary(Op::Mul, p, detail::constant(p, 1 - smooth, loc), loc),
                               detail::constant(p, smooth / classes, loc), loc);
        const Tensor losses =
            detail::reduce(Op::ReduceSum, detail::binary(Op::Mul, weighted, p, loc), axis, false, loc);
        const auto samples = static_cast<double>(detail::type(losses).numel());
        return reduced(losses, options.reduction, detail::constant(losses, samples, loc), loc);
    }
    const Tensor own =
        nll_loss(logs, s.target, {.reduction = Reduction::None, .ignore_index = options.ignore_index}, loc);
    const Tensor loss = weighted_loss(own, s, weight, options, "cross_entropy", loc);
    if (smooth == 0)
        return loss;
    const Classes counted = classes_of(s.target, options.ignore_index, "cross_entropy", loc);
    const Tensor all = detail::reduce(Op::ReduceSum, weighted, axis, false, loc);
    const Tensor spread = detail::select(counted.counts, all, detail::literal(all, 0, loc), loc);
    Tensor count;
    if (options.reduction == Reduction::Mean) {
        const Tensor of_sample = detail::select(counted.counts, take(weight, counted.index, loc),
                                                detail::literal(weight, 0, loc), loc);
        count = sum(of_sample, {}, false, std::nullopt, loc);
    }
    const Tensor uniform = reduced(spread, options.reduction, count, loc);
    return detail::binary(
        Op::Add, detail::binary(Op::Mul, loss, detail::constant(loss, 1 - smooth, loc), loc),
        detail::binary(Op::Mul, uniform, detail::constant(loss, smooth / classes, loc), loc), loc);
}

} // namespace

Tensor cross_entropy(const Tensor &logits, const Tensor &target, const CrossEntropyOptions &options,
                     Location loc) {
    loc = detail::in<"cross_entropy">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"cross_entropy">(
            loc, [&](const Tensor &v, const Tensor &t) { return cross_entropy(v, t, options, loc); }, logits,
            target);
    check_options(options, "cross_entropy", loc);
    const ir::TensorType &given = detail::checked_type(target, "cross_entropy", loc);
    const bool probabilities = ir::is_float(given.dtype);
    const Shape &scores = detail::checked_type(logits, "cross_entropy", loc).shape;
    if (probabilities && given.shape.rank() + 1 == scores.rank())
        throw DTypeError("cross_entropy: the target is " + detail::text(given) +
                             "; classes must be i64 or i32, and probabilities have the shape " +
                             ir::to_string(scores) + " of the scores",
                         loc);
    const Samples s = samples_of(logits, target, !probabilities, "cross_entropy", loc);
    if (options.weight.defined())
        return detail::cast(weighted_cross_entropy(s, probabilities, options, loc), s.dtype, loc);
    const detail::CompositeRule &rule =
        probabilities ? detail::kSoftCrossEntropyRule : detail::kCrossEntropyRule;
    const Tensor loss = detail::composite(rule, {&s.scores, &s.target}, numbers_of(s, options), loc, [&] {
        const int64_t axis[] = {s.axis};
        const Shape &shape = detail::type(s.scores).shape;
        const Tensor classes_count = detail::constant(s.scores, static_cast<double>(shape[s.axis]), loc);
        const double smooth = options.label_smoothing;

        if (probabilities) {
            Tensor p = detail::cast(s.target, detail::type(s.scores).dtype, loc);
            if (smooth > 0)
                p = detail::binary(
                    Op::Add, detail::binary(Op::Mul, p, detail::constant(p, 1 - smooth, loc), loc),
                    detail::binary(Op::Div, detail::constant(p, smooth, loc), classes_count, loc), loc);
            const Tensor terms =
                detail::binary(Op::Mul, log_softmax(s.scores, s.axis, std::nullopt, loc), p, loc);
            const Tensor losses =
                detail::unary(Op::Neg, detail::reduce(Op::ReduceSum, terms, axis, false, loc), loc);
            const auto samples = static_cast<double>(detail::type(losses).numel());
            return reduced(losses, options.reduction, detail::constant(losses, samples, loc), loc);
        }
        // The score of the class is looked up before the softmax: in memory, not in what is computed from it.
        const Classes classes = classes_of(s.target, options.ignore_index, "cross_entropy", loc);
        const Tensor total = logsumexp(s.scores, s.axis, false, loc);
        Tensor losses = detail::binary(Op::Sub, total, picked(s.scores, classes.index, s.axis, loc), loc);
        if (smooth > 0) {
            const Tensor mean_score = detail::binary(
                Op::Div, detail::reduce(Op::ReduceSum, s.scores, axis, false, loc), classes_count, loc);
            const Tensor uniform = detail::binary(Op::Sub, total, mean_score, loc);
            losses = detail::binary(
                Op::Add, detail::binary(Op::Mul, losses, detail::constant(losses, 1 - smooth, loc), loc),
                detail::binary(Op::Mul, uniform, detail::constant(losses, smooth, loc), loc), loc);
        }
        return loss_of(losses, classes, options, loc);
    });
    return detail::cast(loss, s.dtype, loc);
}

Tensor mse_loss(const Tensor &x, const Tensor &target, Reduction reduction, Location loc) {
    loc = detail::in<"mse_loss">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"mse_loss">(
            loc, [&](const Tensor &v, const Tensor &t) { return mse_loss(v, t, reduction, loc); }, x, target);
    check_reduction(reduction, "mse_loss", loc);
    const Operand a(x, loc), b(target, loc);
    const ir::DType dtype = detail::result_type({&a, &b}, "mse_loss", loc);
    if (!ir::is_float(dtype))
        throw DTypeError("mse_loss: takes floats, not " + detail::text(detail::type(x)) + " and " +
                             detail::text(detail::type(target)),
                         loc);
    const auto both = detail::together(loc, x, target);
    const Tensor &v = both[0], &goal = both[1];
    return detail::composite(detail::kMseLossRule, {&v, &goal}, {static_cast<int64_t>(reduction)}, loc, [&] {
        const Tensor off = detail::binary(Op::Sub, detail::entered({v, loc}, dtype, v, loc),
                                          detail::entered({goal, loc}, dtype, v, loc), loc);
        const Tensor squares = detail::binary(Op::Mul, off, off, loc);
        return detail::cast(reduction == Reduction::None   ? squares
                            : reduction == Reduction::Mean ? mean(squares, {}, false, std::nullopt, loc)
                                                           : sum(squares, {}, false, std::nullopt, loc),
                            dtype, loc);
    });
}

} // namespace lz
