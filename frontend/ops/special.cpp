// Special functions, of arithmetic and the functions that are primitives: fusion makes one kernel of each.
#include "frontend/autograd/composites.h"
#include "frontend/ops/compose.h"
#include "lazuli/ops/elementwise.h"

#include <limits>
#include <numbers>
#include <span>

namespace lz {

using detail::Op;

namespace {

/// A tensor of a formula, of f32 or f64, and numbers beside it.
struct Term {
    Tensor tensor;
    Location loc;

    bool wide() const { return detail::type(tensor).dtype == ir::DType::F64; }
    Term number(double value) const { return {detail::literal(tensor, value, loc), loc}; }
    Term apply(Op op) const { return {detail::unary(op, tensor, loc), loc}; }
    Term apply(Op op, const Term &y) const { return {detail::binary(op, tensor, y.tensor, loc), loc}; }
    Term apply(Op op, double y) const { return apply(op, number(y)); }
};
Term operator+(const Term &x, const Term &y) {
    return x.apply(Op::Add, y);
}
Term operator-(const Term &x, const Term &y) {
    return x.apply(Op::Sub, y);
}
Term operator*(const Term &x, const Term &y) {
    return x.apply(Op::Mul, y);
}
Term operator/(const Term &x, const Term &y) {
    return x.apply(Op::Div, y);
}
Term operator+(const Term &x, double y) {
    return x.apply(Op::Add, y);
}
Term operator-(const Term &x, double y) {
    return x.apply(Op::Sub, y);
}
Term operator-(double x, const Term &y) {
    return y.number(x) - y;
}
Term operator*(const Term &x, double y) {
    return x.apply(Op::Mul, y);
}
Term operator/(double x, const Term &y) {
    return y.number(x) / y;
}
Term where(const Term &condition, const Term &x, const Term &y) {
    return {detail::select(condition.tensor, x.tensor, y.tensor, x.loc), x.loc};
}
Term log(const Term &x) {
    return x.apply(Op::Log);
}
Term exp(const Term &x) {
    return x.apply(Op::Exp);
}

/// c[0] + c[1] x + c[2] x^2 ... by Horner's rule.
Term polynomial(const Term &x, std::span<const double> c) {
    Term sum = x.number(c.back());
    for (size_t i = c.size() - 1; i-- > 0;)
        sum = sum * x + c[i];
    return sum;
}

// Coefficients interpolate at Chebyshev nodes, in 50 digits (mpmath). The error is relative.

// (1 + 2a) exp(a^2) erfc(a) over q = (a - 4) / (a + 4), for a from 0.5 to 30.
constexpr double kErfcF32[] = {
    0x1.3ba59162644c1p+0,  -0x1.1df1ac6eee0e1p-3, 0x1.f7f8c3478e6bep-7,   0x1.16ecb5ae46031p-4,
    -0x1.9de23e39cd2b6p-4, 0x1.7ff0d38308dadp-4,  -0x1.0f7d25cc64a5ep-4,  0x1.305c6304b558ap-5,
    -0x1.0c04193b25acbp-6, 0x1.4c18ff7b14f43p-8,  -0x1.0bca38e87b2ecp-11, -0x1.fd52ac9dc9367p-13}; // 2^-28.6
constexpr double kErfcF64[] = {
    0x1.3ba5916e9fd7fp+0,   -0x1.1df1ad154a28fp-3,  0x1.f7f5df66fd484p-7,   0x1.16ecefcfa5408p-4,
    -0x1.9ddb23c3e75a6p-4,  0x1.7fee004e11b24p-4,   -0x1.0fb06dfe761d0p-4,  0x1.3079edf686de5p-5,
    -0x1.0962387b98a0fp-6,  0x1.49c6728b8b87ap-8,   -0x1.8d4aa33d60f9ep-11, -0x1.a1df2f6dfc2a3p-13,
    0x1.3be0f463a19cdp-13,  -0x1.995734e7d1a44p-16, -0x1.78a8a00b49108p-17, 0x1.7f09a6d2fa8d8p-18,
    0x1.429b49e372ae1p-22,  -0x1.b8da76eab3faap-21, 0x1.1c8f61dd1946bp-24,  0x1.c0d85685c8873p-24,
    -0x1.9a5622309eea4p-27, -0x1.599471166ff39p-27}; // 2^-54.4

// log(gamma(2 + z)) / z for |z| <= 1/2.
constexpr double kLogGammaF32[] = {0x1.b0ee60705a30cp-2,   0x1.4a34cc4b2623bp-2,  -0x1.13dffc63bd110p-4,
                                   0x1.51322129f7120p-6,   -0x1.e40f7070e5c3ap-8, 0x1.7ae6febb2693dp-9,
                                   -0x1.36ddb843620cep-10, 0x1.098f9482bf48ap-11, -0x1.0a25820054349p-12,
                                   0x1.dbf0833dddc72p-14}; // 2^-30.8
constexpr double kLogGammaF64[] = {
    0x1.b0ee6072093cep-2,   0x1.4a34cc4a60fa6p-2,  -0x1.13e001a55760ap-4,  0x1.51322ac7d848ap-6,
    -0x1.e404fc218dbaep-8,  0x1.7add6eadb5317p-9,  -0x1.38ac5c2d48207p-10, 0x1.0b36af8779ca0p-11,
    -0x1.d3fd4b679c1c4p-13, 0x1.a127afee53e7dp-14, -0x1.78de9ab752b81p-15, 0x1.580e0afa55850p-16,
    -0x1.3cb3be36ad88bp-17, 0x1.258f3057730fap-18, -0x1.1276ebd557fb0p-19, 0x1.012012be3900ap-20,
    -0x1.ce17528bcf460p-22, 0x1.b40adb09a1e12p-23, -0x1.2009c1a550d0dp-23, 0x1.11fa5e7c86f7bp-24}; // 2^-55.2
// Stirling's series: B(2k) / (2k (2k - 1)).
constexpr double kStirling[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                                1.0 / 1188, -691.0 / 360360, 1.0 / 156,  -3617.0 / 122400};
// Its derivative's: B(2k) / 2k.
constexpr double kDigamma[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                               1.0 / 132, -691.0 / 32760, 1.0 / 12};

Term erfc_of(const Term &x) {
    // exp(-a^2), of a square that is exact and a rest that is small: the rounding of a^2 itself would be
    // hundreds of units of the result.
    const Term a = x.apply(Op::Abs).apply(Op::Minimum, 30);
    const Term near = (a * 16).apply(Op::Floor) * 0.0625;
    const Term rest = (a - near) * (a + near);
    const Term q = (a - 4) / (a + 4);
    const Term p = polynomial(q, x.wide() ? std::span<const double>(kErfcF64) : kErfcF32);
    const Term tail = p / (a * 2 + 1) * exp(0 - rest) * exp(0 - near * near);
    const Term far = where(x.apply(Op::Lt, 0), 2 - tail, tail);
    return where(a.apply(Op::Lt, 0.5), 1 - x.apply(Op::Erf), far);
}

/// Of a >= 0: log(gamma(2 + z)) and as many steps of the recurrence as there are to a, or Stirling's series.
Term log_gamma_of_positive(const Term &a) {
    const Term t = a.apply(Op::Minimum, 8.5);
    const Term n = t.apply(Op::Round), z = t - n;
    Term near = z * polynomial(z, a.wide() ? std::span<const double>(kLogGammaF64) : kLogGammaF32);
    near = where(n.apply(Op::Le, 1), near - z.apply(Op::Log1p), near);
    near = where(n.apply(Op::Eq, 0), near - log(t), near);
    Term product = t.number(1);
    for (int i = 1; i <= 6; ++i)
        product = where(n.apply(Op::Ge, i + 2), product * (t - i), product);
    near = where(n.apply(Op::Ge, 3), near + log(product), near);
    const Term r = 1 / a;
    const Term series = r * polynomial(r * r, kStirling);
    // log(2 pi) / 2 - 1/2
    const Term large = (a - 0.5) * (log(a) - 1) + 0.41893853320467274178 + series;
    return where(a.apply(Op::Lt, 8.5), near, large);
}

Term log_gamma_of(const Term &x) {
    const Term a = x.apply(Op::Abs);
    const Term positive = log_gamma_of_positive(a);
    // gamma(a) gamma(-a) = -pi / (a sin(pi a))
    const Term below = a.apply(Op::Floor), part = a - below;
    const Term sine = (part.apply(Op::Minimum, 1 - part) * std::numbers::pi).apply(Op::Sin);
    constexpr double kLogPi = 1.1447298858494001741;
    const Term reflected = kLogPi - log(a) - log(sine) - positive;
    const Term pole = x.number(std::numeric_limits<double>::infinity());
    const Term negative = where(a.apply(Op::Eq, below), pole, reflected);
    return where(x.apply(Op::Lt, 0), negative, positive);
}

Term digamma_of(const Term &x) {
    const Term is_negative = x.apply(Op::Lt, 0), y = where(is_negative, 1 - x, x);
    const Term is_small = y.apply(Op::Lt, 10);
    Term steps = 1 / y; // from y to y + 10, where the series is exact
    for (int i = 1; i < 10; ++i)
        steps = steps + 1 / (y + i);
    const Term w = where(is_small, y + 10, y), z = 1 / (w * w);
    const Term series = log(w) - 0.5 / w - z * polynomial(z, kDigamma);
    const Term positive = where(is_small, series - steps, series);
    // Where nothing is reflected the tangent is that of a number without a pole: its gradient is dropped,
    // and must be one.
    const Term part = where(is_negative, x - x.apply(Op::Trunc), x.number(0.25));
    const Term reflected = positive - std::numbers::pi / (part * std::numbers::pi).apply(Op::Tan);
    const Term none = x.number(std::numeric_limits<double>::quiet_NaN());
    return where(is_negative, where(x.apply(Op::Eq, x.apply(Op::Trunc)), none, reflected), positive);
}

template <class F>
Tensor computed(const Tensor &x, const char *function, Location loc, F &&f) {
    return detail::in_working_dtype(x, function, loc,
                                    [&](const Tensor &v) { return f(Term{v, loc}).tensor; });
}

} // namespace

Tensor erfc(const Tensor &x, Location loc) {
    loc = detail::in<"erfc">(loc);
    return detail::composite(detail::kErfcRule, {&x}, {}, loc,
                             [&] { return computed(x, "erfc", loc, erfc_of); });
}

Tensor lgamma(const Tensor &x, Location loc) {
    loc = detail::in<"lgamma">(loc);
    return detail::composite(detail::kLogGammaRule, {&x}, {}, loc,
                             [&] { return computed(x, "lgamma", loc, log_gamma_of); });
}

Tensor digamma(const Tensor &x, Location loc) {
    loc = detail::in<"digamma">(loc);
    return computed(x, "digamma", loc, digamma_of);
}

} // namespace lz
