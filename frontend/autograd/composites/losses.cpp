#include "frontend/autograd/composites.h"

#include "lazuli/core/options.h"

namespace lz::detail {
namespace {

constexpr uint32_t X = 1, Y = 2;

Value working(const Value &x) {
    return cast(x, working_dtype(x.type().dtype));
}

/// The last axes of x.
Axes last_axes(const Value &x, int64_t count) {
    Axes axes;
    for (int64_t a = x.shape().rank() - count; a < x.shape().rank(); ++a)
        axes.axis[axes.count++] = a;
    return axes;
}

Value mean(const Value &x, const Axes &axes) {
    const Value total = sum(x, axes.span(), true);
    return total / total.constant(static_cast<double>(count_of(x.shape(), axes)));
}

/// Of both norms: x, `weight` or none, `bias` or none.
template <bool centered>
void normalization(RuleCall &call) {
    const bool has_weight = call.has(Y);
    if (!call.has(X)) { // the bias alone
        call.give(2, call.g());
        return;
    }
    const Value x = working(call.operand(0)), g = cast(call.g(), x.type().dtype);
    const Axes axes = last_axes(x, call.words()[1]);
    const Value off = centered ? x - mean(x, axes) : x;
    const Value scale = rsqrt(mean(off * off, axes) + x.constant(call.number(0)));
    const Value normal = off * scale;
    if (call.wanted(0)) {
        const Value inner = has_weight ? g * cast(call.operand(1), x.type().dtype) : g;
        const Value along = inner - normal * mean(inner * normal, axes);
        call.give(0, scale * (centered ? along - mean(inner, axes) : along));
    }
    if (call.num_inputs() > 1 && call.wanted(1))
        call.give(1, g * normal);
    if (call.num_inputs() > 2 && call.wanted(2))
        call.give(2, g);
}

Reduction reduction_of(const RuleCall &call, size_t word) {
    return static_cast<Reduction>(call.words()[word]);
}

void mse_loss(RuleCall &call) {
    const Value x = call.operand(0), target = call.operand(1);
    const ir::DType dtype = working_dtype(ir::promote(x.type().dtype, target.type().dtype));
    const Value off = cast(x, dtype) - cast(target, dtype);
    // The number is the elements' and not g's, which is one number mostly: it would be a kernel of its own.
    const double count =
        reduction_of(call, 0) == Reduction::Mean ? static_cast<double>(off.type().numel()) : 1;
    const Value slope = off * off.constant(2 / count) * cast(call.g(), dtype);
    if (call.wanted(0))
        call.give(0, slope);
    if (call.wanted(1))
        call.give(1, -slope);
}

/// A gradient of losses with the class axis, of extent 1.
Value beside_classes(const Value &g, const Value &scores, int axis) {
    if (g.shape().rank() == 0)
        return g;
    Shape shape = scores.shape();
    shape[axis] = 1;
    return reshape(g, shape);
}

/// A loss of classes: where each sample has its class, and the gradient of each sample, 0 where the class
/// does not count.
struct Labels {
    Value is_class, g;

    Labels(const RuleCall &call, const Value &scores, int axis)
        : is_class(scores), g(cast(call.g(), scores.type().dtype)) {
        const Value given = call.operand(1);
        const Value target = beside_labels(given, scores, axis);
        const Value counts = {
            binary(Op::Ne, target.tensor(),
                   constant(Scalar(call.words()[2]), target.type().dtype, target.type().device, call.loc()),
                   call.loc()),
            call.loc()};
        Shape along;
        for (int a = 0; a < scores.shape().rank(); ++a)
            along.push_back(a == axis ? scores.shape()[a] : 1);
        const Value position(iota({target.type().dtype, along, target.type().device}, axis, 0, 1, call.loc()),
                             call.loc());
        // Looked up, so that a class that is not there fails here, too, and nothing is made of its gradient.
        const Value known(gather(broadcast_to(position.tensor(), scores.shape(), call.loc()), axis,
                                 where(counts, target, 0).tensor(), call.loc()),
                          call.loc());
        is_class = position == known;
        const ir::DType dtype = scores.type().dtype;
        if (reduction_of(call, 1) == Reduction::Mean) {
            Axes all;
            for (int a = 0; a < target.shape().rank(); ++a)
                all.axis[all.count++] = a;
            g = g / sum(cast(counts, dtype), all.span(), false);
        }
        g = where(counts, beside_classes(g, scores, axis), 0);
    }

private:
    static Value beside_labels(const Value &target, const Value &scores, int axis) {
        Shape shape = scores.shape();
        shape[axis] = 1;
        return reshape(target, shape);
    }
};

/// The scores less their maximum. Whatever is taken off them changes no softmax: it has no gradient.
Value shifted(const Value &scores, std::span<const int64_t> axis) {
    const auto largest = [&] {
        const GradModeScope off(false);
        return Value(reduce(Op::ReduceMax, scores.tensor(), axis, true, scores.loc()), scores.loc());
    };
    return scores - largest();
}
Value softmax(const Value &scores, std::span<const int64_t> axis) {
    const Value powers = exp(shifted(scores, axis));
    return powers / sum(powers, axis, true);
}

void cross_entropy(RuleCall &call) {
    const Value scores = working(call.operand(0));
    const int64_t axis[] = {call.words()[0]};
    const Labels labels(call, scores, static_cast<int>(axis[0]));
    const double smooth = call.number(3);
    const Value one = scores.number(1), none = scores.number(0);
    const Value part =
        smooth > 0 ? scores.constant(smooth / static_cast<double>(scores.shape()[static_cast<int>(axis[0])]))
                   : none;
    const Value wanted = where(labels.is_class, smooth > 0 ? part + scores.constant(1 - smooth) : one, part);
    call.give(0, (softmax(scores, axis) - wanted) * labels.g);
}

void nll_loss(RuleCall &call) {
    // The scores are not needed, but for their type.
    const ir::TensorType &type = call.type(0);
    const Value like(
        record_literal(from_ir(working_dtype(type.dtype)), 0, type.shape, type.device, call.loc()),
        call.loc());
    const Labels labels(call, like, static_cast<int>(call.words()[0]));
    call.give(0, where(labels.is_class, -labels.g, 0));
}

void soft_cross_entropy(RuleCall &call) {
    const Value scores = working(call.operand(0));
    const int64_t axis[] = {call.words()[0]};
    const auto classes = static_cast<double>(scores.shape()[static_cast<int>(axis[0])]);
    Value g = cast(call.g(), scores.type().dtype);
    if (reduction_of(call, 1) == Reduction::Mean)
        g = g / g.constant(static_cast<double>(scores.type().numel()) / classes);
    g = beside_classes(g, scores, static_cast<int>(axis[0]));
    const double smooth = call.number(3);
    if (call.wanted(0)) {
        Value p = cast(call.operand(1), scores.type().dtype);
        if (smooth > 0)
            p = p * p.constant(1 - smooth) + p.constant(smooth / classes);
        call.give(0, (softmax(scores, axis) * sum(p, axis, true) - p) * g);
    }
    if (call.wanted(1)) {
        const Value low = shifted(scores, axis);
        const Value logarithm = low - log(sum(exp(low), axis, true));
        call.give(1, -logarithm * (g * g.constant(1 - smooth)));
    }
}

} // namespace

const CompositeRule kLayerNormRule{{normalization<true>}, {X | Y, X, 0}};
const CompositeRule kRmsNormRule{{normalization<false>}, {X | Y, X}};
const CompositeRule kMseLossRule{{mse_loss}, {X | Y, X | Y}};
const CompositeRule kCrossEntropyRule{{cross_entropy}, {X | Y}};
const CompositeRule kNllLossRule{{nll_loss}, {Y}};
const CompositeRule kSoftCrossEntropyRule{{soft_cross_entropy}, {X | Y, X | Y}};

} // namespace lz::detail
