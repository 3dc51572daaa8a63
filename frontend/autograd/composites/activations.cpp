#include "frontend/autograd/composites.h"

#include "frontend/ops/random.h"
#include "lazuli/ops/elementwise.h"

#include <numbers>
#include <optional>

namespace lz::detail {
namespace {

constexpr uint32_t X = 1, Y = 2, LOWER = 2, UPPER = 4, OUT = Step::saved_result(0);

/// One formula of g and x, or of g and the result, in f32 for half types.
template <Value (*formula)(const RuleCall &call, const Value &g, const Value &x), uint32_t kept>
void elementwise(RuleCall &call) {
    call.compute_in_f32();
    call.give(0, formula(call, call.g(), call.saved(kept)));
}

Value square_slope(const RuleCall &, const Value &g, const Value &x) {
    return g * (2 * x);
}
/// Of the powers that the frontend writes as a few operations.
Value power_slope(const RuleCall &call, const Value &g, const Value &x) {
    const double power = call.number(0);
    if (power == 3 || power == 4)
        return g * (power * (power == 3 ? x * x : x * x * x));
    if (power == 0.5)
        return g * (0.5 * rsqrt(x));
    if (power == -0.5)
        return g * (-0.5 * rsqrt(x) / x);
    const Value r = 1 / x;
    return g * (power * (power == -1 ? r * r : r * r * r));
}
// 0 at 0, and NaN goes through.
Value relu_slope(const RuleCall &, const Value &g, const Value &out) {
    return where(out <= 0, 0, g);
}
Value silu_slope(const RuleCall &, const Value &g, const Value &x) {
    const Value s = sigmoid(x);
    return g * (s * (1 + x * (1 - s)));
}
// In none of gelu's slopes is a step one of its forward's: what both had in common would be stored for
// backward, three times as much as x, and is cheap to compute from x again.
Value gelu_erf_slope(const RuleCall &, const Value &g, const Value &x) {
    const Value above = 0.5 * erf(x * -(std::numbers::sqrt2 / 2));
    const Value scaled = x * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return g * (0.5 - above + scaled * exp(-0.5 * (x * x)));
}
Value gelu_tanh_slope(const RuleCall &, const Value &g, const Value &x) {
    constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    const Value root = x * 0.21145921592590374; // the root of 0.044715
    const Value cubic = root * root, scaled = x * kScale;
    const Value t = tanh(scaled * (1 + cubic));
    // 1 - t^2 = (1 - t) (1 + t)
    return g * ((0.5 + 0.5 * t) * (1 + (1 - t) * (scaled * (1 + 3 * cubic))));
}
Value erfc_slope(const RuleCall &, const Value &g, const Value &x) {
    return g * (-2 * std::numbers::inv_sqrtpi * exp(-(x * x)));
}
Value log_gamma_slope(const RuleCall &, const Value &g, const Value &x) {
    return g * Value(digamma(x.tensor(), x.loc()), x.loc());
}
Value softplus_slope(const RuleCall &call, const Value &g, const Value &x) {
    const Value scaled = x * x.constant(call.number(0));
    return where(scaled > x.constant(call.number(1)), g, g * sigmoid(scaled));
}
Value leaky_relu_slope(const RuleCall &call, const Value &g, const Value &x) {
    return where(x > 0, g, g * g.constant(call.number(0)));
}

/// Where x meets a bound both share, and where the bounds cross the upper one wins.
void clamp(RuleCall &call) {
    const Value g = call.g(), x = call.operand(0);
    const auto bound = [&](size_t i) { return cast(call.operand(i), x.type().dtype); };
    std::optional<Value> low, high;
    if (call.has(LOWER))
        low = bound(1);
    if (call.has(UPPER))
        high = bound(2);
    if (call.words()[0] != 0) { // numbers are outside
        Value inside = low ? x > *low : x < *high;
        if (low && high)
            inside = inside && x < *high;
        call.give(0, where(inside, g, 0));
        return;
    }
    const Value half = g * 0.5;
    const auto within = [&](const Value &slope) {
        return low && high ? where(*low > *high, 0, slope) : slope;
    };
    if (call.wanted(0)) {
        Value slope = g;
        if (low)
            slope = where(x < *low, 0, where(x == *low, half, slope));
        if (high)
            slope = where(x > *high, 0, where(x == *high, half, slope));
        call.give(0, within(slope));
    }
    if (call.wanted(1))
        call.give(1, within(where(x < *low, g, where(x == *low, half, 0))));
    if (call.wanted(2)) {
        const Value slope = where(x > *high, g, where(x == *high, half, 0));
        call.give(2, low ? where(*low > *high, g, slope) : slope);
    }
}

/// The numbers that decided are drawn again, and fused into what reads them.
void dropout(RuleCall &call) {
    const Generator::State at{static_cast<uint64_t>(call.words()[0]), static_cast<uint64_t>(call.words()[1])};
    call.compute_in_f32();
    const Value g = call.g();
    call.give(0, Value(dropped(g.tensor(), call.number(2), at, call.loc()), call.loc()));
}

/// The parts of the sum: smooth where both are the same, too, which the larger one and a difference are not.
void log_add_exp(RuleCall &call) {
    const Value g = call.g(), x = call.operand(0), y = call.operand(1);
    // Two equal infinities have no difference.
    const Value above = where(x == y && is_infinite(x), 0, x - y);
    if (call.wanted(0))
        call.give(0, g * sigmoid(above));
    if (call.wanted(1))
        call.give(1, g * sigmoid(-above));
}

} // namespace

const CompositeRule kSquareRule{{elementwise<square_slope, X>}, {X}};
const CompositeRule kPowerRule{{elementwise<power_slope, X>}, {X}};
const CompositeRule kReluRule{{elementwise<relu_slope, OUT>}, {OUT}};
const CompositeRule kSiluRule{{elementwise<silu_slope, X>}, {X}};
const CompositeRule kGeluErfRule{{elementwise<gelu_erf_slope, X>}, {X}};
const CompositeRule kGeluTanhRule{{elementwise<gelu_tanh_slope, X>}, {X}};
const CompositeRule kErfcRule{{elementwise<erfc_slope, X>}, {X}};
const CompositeRule kLogGammaRule{{elementwise<log_gamma_slope, X>}, {X}};
const CompositeRule kSoftplusRule{{elementwise<softplus_slope, X>}, {X}};
const CompositeRule kLeakyReluRule{{elementwise<leaky_relu_slope, X>}, {X}};
const CompositeRule kClampRule{{clamp}, {X | LOWER | UPPER, X | LOWER | UPPER, X | LOWER | UPPER}};
const CompositeRule kDropoutRule{{dropout}, {0}};
const CompositeRule kLogAddExpRule{{log_add_exp}, {X | Y, X | Y}};

} // namespace lz::detail
