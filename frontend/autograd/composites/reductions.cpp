#include "frontend/autograd/composites.h"

#include <cmath>

namespace lz::detail {
namespace {

constexpr uint32_t X = 1, PLACE = 2, OUT = Step::saved_result(0);

/// The axes that the words from `first` on name, after whether the result keeps them.
std::span<const int64_t> axes_of(const RuleCall &call, size_t first) {
    return call.words().subspan(first + 1);
}

/// A result's value, or its gradient, in the working dtype and the rank of x.
Value in_rank(const RuleCall &call, const Value &reduced, const Value &x, size_t first) {
    return with_axes(cast(reduced, x.type().dtype), x.shape(), axes_of(call, first));
}

Value working(const Value &x) {
    return cast(x, working_dtype(x.type().dtype));
}

double count(const Value &x, std::span<const int64_t> axes) {
    int64_t n = 1;
    for (const int64_t axis : axes)
        n *= x.shape()[static_cast<int>(axis)];
    return static_cast<double>(n);
}

Value mean(const Value &x, std::span<const int64_t> axes) {
    const Value total = sum(x, axes, true);
    return total / total.constant(count(x, axes));
}

void log_sum_exp(RuleCall &call) {
    const Value x = working(call.operand(0)), out = in_rank(call, call.result(), x, 0);
    call.give(0, in_rank(call, call.g(), x, 0) * exp(x - out));
}

Value variance_slope(const RuleCall &call, const Value &g, const Value &x) {
    const auto axes = axes_of(call, 1);
    const double n = std::max(count(x, axes) - static_cast<double>(call.words()[0]), 0.0);
    return g * (2 / g.constant(n)) * (x - mean(x, axes));
}

void var(RuleCall &call) {
    const Value x = working(call.operand(0));
    call.give(0, variance_slope(call, in_rank(call, call.g(), x, 1), x));
}

void deviation(RuleCall &call) {
    const Value x = working(call.operand(0));
    const Value out = in_rank(call, call.result(), x, 1), g = in_rank(call, call.g(), x, 1);
    call.give(0, variance_slope(call, where(out == 0, 0, g / (2 * out)), x));
}

void norm(RuleCall &call) {
    const Value x = working(call.operand(0)), g = in_rank(call, call.g(), x, 1);
    const double p = call.number(0);
    const auto out = [&] { return in_rank(call, call.result(), x, 1); };
    if (p == 0)
        return;
    if (p == 1) {
        call.give(0, g * sign(x));
    } else if (p == 2) {
        call.give(0, x * where(out() == 0, 0, g / out()));
    } else if (std::isinf(p)) {
        const Value extreme = cast(abs(x) == out(), x.type().dtype);
        call.give(0, sign(x) * extreme * (g / sum(extreme, axes_of(call, 1), true)));
    } else {
        // x |x|^(p-2) / out^(p-1): 0 where the norm is, and where p < 2 makes it infinite.
        const Value scaled = p < 2 ? where(x == 0, 0, sign(x) * pow(abs(x), p - 1)) : x * pow(abs(x), p - 2);
        call.give(0, scaled * where(out() == 0, 0, g / pow(out(), p - 1)));
    }
}

void softmax(RuleCall &call) {
    const Value out = working(call.result()), g = cast(call.g(), out.type().dtype);
    call.give(0, (g - sum(g * out, call.words().first(1), true)) * out);
}

void log_softmax(RuleCall &call) {
    const Value out = working(call.result()), g = cast(call.g(), out.type().dtype);
    call.give(0, g - exp(out) * sum(g, call.words().first(1), true));
}

/// All of it to the place that was found.
void extreme(RuleCall &call) {
    const Value place = call.operand(1);
    const ir::TensorType &x = call.type(0);
    const int axis = static_cast<int>(call.words()[0]);
    Shape along;
    for (int a = 0; a < x.shape.rank(); ++a)
        along.push_back(a == axis ? x.shape[a] : 1);
    const Value position(iota({ir::DType::I64, along, x.device}, axis, 0, 1, call.loc()), call.loc());
    const Value g = reshape(call.g(), place.shape());
    call.give(0, where(position == place, g, 0));
}

/// All elements that are the median have a part of it; NaN is one where the median is.
void median(RuleCall &call) {
    const Value x = call.operand(0), out = call.result();
    const Value is_median = x == out || (x.apply(Op::Ne, x) && out.apply(Op::Ne, out));
    const Value same = cast(is_median, working_dtype(x.type().dtype));
    const int64_t axis = 0;
    call.give(0, same * (cast(call.g(), same.type().dtype) / sum(same, {&axis, 1}, true)));
}

} // namespace

const CompositeRule kLogSumExpRule{{log_sum_exp}, {X | OUT}};
const CompositeRule kVarRule{{var}, {X}};
const CompositeRule kStdRule{{deviation}, {X | OUT}};
const CompositeRule kNormRule{{norm}, {X | OUT}};
const CompositeRule kSoftmaxRule{{softmax}, {OUT}};
const CompositeRule kLogSoftmaxRule{{log_softmax}, {OUT}};
const CompositeRule kExtremeRule{{extreme}, {PLACE}};
const CompositeRule kMedianRule{{median}, {X | OUT}};

} // namespace lz::detail
