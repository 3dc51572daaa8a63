/// exp, sigmoid, tanh and erf whose results are rounded to f16 or bf16. A polynomial of few terms and no
/// second path: where a result rounds to 0, 1 or infinity the argument is limited to a number of the half
/// type whose result does so, too. All 65,536 arguments of each are tried in math_halves_test.cpp.

#include "ir/math/coefficients.h"
#include "ir/math/functions.h"

#include <numbers>

namespace lz::ir::math {

namespace {

/// 2^(v scale): the power of two by the exponent, the rest, at most 1/2 of an exponent, by the polynomial.
/// For |v scale| <= 127; of the least of it the result is 0 itself.
Expr power(Expr v, double scale, std::span<const double> coefficients) {
    const double magic = Format(v).magic() + 127;
    const Expr t = fma(v, scale, magic);
    const Expr r = fma(v, scale, magic - t);
    return horner(r, coefficients) * (t.as_int() << 23).as_float();
}

// What is limited from below becomes 0 in one step: processors take a hundred times as long for what ends in
// a subnormal, and masked attention has such an x for every second element.
constexpr double kLowestF16 = -88, kLowestBF16 = -176;

/// e^v for kLowestF16 <= v <= 12.
Expr exp_limited_f16(Expr v) {
    return power(v, std::numbers::log2e, kExp2F16);
}

/// e^v for kLowestBF16 <= v <= 90, as a square: e^(v/2) is a normal number where the result is a subnormal
/// one of bf16, or more than f32 holds.
Expr exp_limited_bf16(Expr v) {
    const Expr root = power(v, std::numbers::log2e / 2, kExp2Bf16);
    return root * root;
}

/// sigmoid(x) of e = exp(-|x|): 1 / (1 + e) for x >= 0, else e / (1 + e).
Expr sigmoid_of(Expr x, Expr e, std::span<const double> coefficients) {
    const Expr part = horner(e, coefficients);
    return select(x < 0.0, e * part, part);
}

/// x c0 + x^3 P(x^2), with x limited to where the result rounds to 1. The first coefficient is the exact one:
/// most arguments are so small that it alone counts.
Expr erf_limited(Expr x, double limit, std::span<const double> coefficients) {
    const Expr v = at_least(at_most(x, limit), -limit);
    const Expr s = v * v;
    return fma(horner(s, coefficients), s, 2 * std::numbers::inv_sqrtpi) * v;
}

/// a P(a - center) with a = |x|, limited to where the result rounds to 1. In |x|, because the poles of tanh
/// are farther from an interval of it than from one of x^2, relative to its length.
Expr tanh_limited(Expr x, double limit, double center, std::span<const double> coefficients) {
    const Expr a = at_most(abs(x), limit);
    return copy_sign(horner(center == 0 ? a : a - center, coefficients) * a, x);
}

} // namespace

Expr exp_f16(Expr x) {
    return exp_limited_f16(at_least(at_most(x, 12), kLowestF16));
}
Expr exp_bf16(Expr x) {
    return exp_limited_bf16(at_least(at_most(x, 90), kLowestBF16));
}

Expr sigmoid_f16(Expr x) {
    return sigmoid_of(x, exp_limited_f16(at_least(-abs(x), kLowestF16)), kLogisticF16);
}
Expr sigmoid_bf16(Expr x) {
    return sigmoid_of(x, exp_limited_bf16(at_least(-abs(x), kLowestBF16)), kLogisticBf16);
}

Expr tanh_f16(Expr x) {
    return tanh_limited(x, 4.53125, 2.265625, kTanhF16);
}
Expr tanh_bf16(Expr x) {
    return tanh_limited(x, 3.5, 0, kTanhBf16);
}

Expr erf_f16(Expr x) {
    return erf_limited(x, 2.625, kErfF16);
}
Expr erf_bf16(Expr x) {
    return erf_limited(x, 2.21875, kErfBf16);
}

} // namespace lz::ir::math
