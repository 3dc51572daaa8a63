/// exp and what is made of it.

#include "ir/math/coefficients.h"
#include "ir/math/functions.h"

#include <cmath>
#include <numbers>

namespace lz::ir::math {

namespace {

/// ln 2 in two parts of the format; the first has so few bits that its product with an exponent is exact.
struct Ln2 {
    double high, low;
};
Ln2 ln2(const Format &f) {
    return f.wide ? Ln2{0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45} : Ln2{0x1.62e4p-1, 0x1.7f7d1cp-20};
}

/// What a number is added to so that the low bits of the sum are its integer k as the exponent of 2^(k +
/// plus).
double exponent_magic(const Format &f, int plus = 0) {
    return f.magic() + static_cast<double>(plus + (f.wide ? 1023 : 127));
}
/// 2^(k + plus) of such a sum; k + plus is an exponent of the format.
Expr power_of_two(Expr sum) {
    return (sum.as_int() << Format(sum).mantissa()).as_float();
}

/// exp(x) * 2^plus: x = r + k ln 2 with |r| <= ln(2) / 2, then e^r scaled by 2^k.
Expr exp_scaled(Expr x, int plus) {
    const Format f(x);
    const Ln2 c = ln2(f);
    // Below it the result is 0, of a power that is no subnormal: processors take a hundred times as long for
    // a scale that ends in one, and masked attention has such an x for every second element.
    const Expr none = x < f.pick(-104.0, -746.0);
    const Expr v = select(none, 0.0, at_most(x, f.pick(90.0, 711.0)));
    // Twice the bias: a target that scales by two powers has both of them in the sum.
    const double magic = f.magic() + f.pick(254.0, 2046.0);
    const Expr k = fma(v, std::numbers::log2e, magic) - magic;
    const Expr r = fma(k, -c.low, fma(k, -c.high, v));
    const Expr tail = poly(r, f.wide ? std::span<const double>(kExpF64) : kExpF32);
    return select(none, 0.0, scalb(fma(fma(tail, r, 1.0), r, 1.0), plus == 0 ? k : k + plus));
}

// A division is ten instructions of a GPU, with a branch. Where the range is known and the last bit need not
// be right, seven or eight products do.

/// r (1 + e + e^2) with e = 1 - w r: an error of e becomes one of e^3.
Expr closer_inverse(Expr w, Expr r) {
    const Expr e = fma(-w, r, 1.0);
    return fma(r, fma(e, e, e), r);
}
/// 1 / w for an f32 w in [1, 2^125], at most 0.62 ULP: the difference of the bits is within 1/8.
Expr inverse(Expr w) {
    const Expr rough = (w.as_int().constant(0x7ef311c7) - w.as_int()).as_float();
    return closer_inverse(w, closer_inverse(w, rough));
}

/// n / w for f32 and w in [1/2, 1], at most 0.51 ULP.
Expr quotient(Expr n, Expr w) {
    const Expr r = closer_inverse(w, poly(w, kInverseF32));
    const Expr q = n * r;
    return fma(fma(-w, q, n), r, q);
}

/// x = r + k ln 2 with |r| <= ln(2) / 2; `t` holds k in its low bits.
struct Reduced {
    Expr t, r;
};
Reduced reduced(Expr x, double magic) {
    const Ln2 c = ln2(Format(x));
    const Expr t = fma(x, std::numbers::log2e, magic);
    const Expr k = t - magic;
    return {t, fma(k, -c.low, fma(k, -c.high, x))};
}

/// Adds k to the exponent where the result is a normal number. Elsewhere 2^64 of the power, or 2^-64, comes
/// last: the product rounds a subnormal once, and overflows. Beyond 104 nothing is scaled: processors take a
/// hundred times as long for what ends in a subnormal, and masked attention has such an x for every second
/// element.
Expr exp_f32(Expr x) {
    const Format f(x);
    const auto [t, r] = reduced(x, f.magic());
    const Expr p = fma(fma(poly(r, kExpF32), r, 1.0), r, 1.0);
    const Expr bits = p.as_int() + (t.as_int() << f.mantissa());
    const Expr usual = bits.as_float();

    const int64_t by_64 = int64_t{64} << f.mantissa(); // of the exponent
    const Expr a = abs(x);
    const Expr grows = x > 0.0;
    const Expr beyond = a > 104.0; // no NaN is
    const Expr near = (bits + select(grows, bits.constant(-by_64), bits.constant(by_64))).as_float();
    const Expr last = select(grows, x.constant(0x1p64), x.constant(0x1p-64));
    const Expr scaled = fma(select(beyond, x.constant(1.0), near), last, x - x); // x - x is 0, or NaN for NaN
    const Expr done = select(grows, x.constant(HUGE_VAL), x.constant(0.0));
    return rarely(!(a <= 87.0), select(beyond, done, scaled), usual);
}

/// x = r + k ln 2 with |r| <= ln(2) / 2: e^r - 1, and 2^(k + plus). No clamps.
struct Expm1Parts {
    Expr m, power;
};
Expm1Parts expm1_parts(Expr x, int plus) {
    const Format f(x);
    const auto [t, r] = reduced(x, exponent_magic(f, plus));
    const Expr tail = poly(r, f.wide ? std::span<const double>(kExpm1F64) : kExpm1F32);
    return {fma(tail, r * r, r), power_of_two(t)};
}

} // namespace

Expr exp(Expr x) {
    return x.wide() ? exp_scaled(x, 0) : exp_f32(x);
}

Expr expm1(Expr x) {
    const Format f(x);
    // 2^(k-1), so that it is finite where the result is; below the lower clamp the result is -1.
    const auto [m, half] = expm1_parts(at_least(at_most(x, f.pick(89.0, 710.0)), f.pick(-18.0, -40.0)), -1);
    const Expr y = fma(m, half, half - 0.5);
    // Keeps -0, and subnormals whole.
    return select(abs(x) < f.pick(0x1p-25, 0x1p-54), x, y + y);
}

Expr cosh(Expr x) {
    const Expr h = exp_scaled(abs(x), -1);
    return h + 0.25 / h;
}

Expr sinh(Expr x) {
    const Format f(x);
    const Expr a = abs(x);
    // A quarter of e^a, whose scale is finite where the result is.
    const auto [m, quarter] = expm1_parts(at_most(a, f.pick(90.0, 711.0)), -2);
    const Expr h = (m + 1.0) * quarter;
    const Expr large = h - 0.0625 / h;
    const Expr s = a * a;
    const Expr small = fma(poly(s, f.wide ? std::span<const double>(kSinhF64) : kSinhF32), s * a, a);
    return copy_sign(select(a < 1.0, small, large + large), x);
}

namespace {

// Two ranges: x + x^3 P(x^2), and 1 - 2 / (e^2x + 1), where the exponential may be rough because it is
// divided by.
Expr tanh_f64(Expr x) {
    const Format f(x);
    const Expr a = abs(x);
    const Expr s = a * a;
    const Expr small = fma(poly(s, kTanhF64), s * a, a);

    const Expr c = at_most(a, 19.1);
    const double magic = exponent_magic(f, -1);
    const Expr t = fma(c, 2 * std::numbers::log2e, magic);
    const Expr r = fma(c, 2 * std::numbers::log2e, magic - t);
    const Expr p = fma(poly(r, kExp2F64), r, 1.0);
    const Expr large = 1.0 - 1.0 / fma(p, power_of_two(t), 0.5);
    return copy_sign(select(a >= 0.55, large, small), x);
}

// (1 - e) / (1 + e) with e = e^-2|x|, which is 2s (1 + m): one range. Both halves are rounded once, from m,
// and 1/2 - s is exact where it is small. Where k is large e is small, so that ln 2 need not have two parts.
Expr tanh_f32(Expr x) {
    const Format f(x);
    const Expr a = abs(x);
    const Expr twice = at_most(a + a, 18.2);
    const double magic = exponent_magic(f, -1);
    const Expr t = fma(twice, -std::numbers::log2e, magic);
    const Expr r = fma(magic - t, std::numbers::ln2, -twice); // e^-2|x| = 2^k e^r
    const Expr m = fma(poly(r, kExpm1F32), r * r, r);
    const Expr s = power_of_two(t);
    return copy_sign(quotient(fma(-m, s, 0.5 - s), fma(m, s, s + 0.5)), x);
}

} // namespace

Expr tanh(Expr x) {
    return x.wide() ? tanh_f64(x) : tanh_f32(x);
}

namespace {

/// 1 / (1 + e^-x) for e^-x = (1 + m) power: both sides are scaled down, so that e^-x cannot overflow where
/// the result is subnormal.
constexpr int kSigmoidDownF32 = -64, kSigmoidDownF64 = -512;
Expr sigmoid_scaled(Expr m, Expr power) {
    const double scale = std::ldexp(1.0, Format(m).pick(kSigmoidDownF32, kSigmoidDownF64));
    // e^-x as power (p + rest): p's own rounding would be a whole unit of the result where p is little more
    // than 1.
    const Expr p = m + 1.0;
    const Expr rest = (1.0 - p) + m;
    return 1.0 / fma(p, power, fma(rest, power, scale)) * scale;
}

Expr sigmoid_f64(Expr x) {
    const auto [m, power] = expm1_parts(at_least(at_most(-x, 747.0), -40.0), kSigmoidDownF64);
    return sigmoid_scaled(m, power);
}

/// Whether x is between the limits, or NaN.
Expr within(Expr x, double low, double high) {
    return !(abs(x - (low + high) / 2) > (high - low) / 2);
}

/// e^-x is s + m s, where 1 + s is exact for moderate x.
Expr sigmoid_f32(Expr x) {
    const Format f(x);
    const Expr v = -x;
    const auto [t, r] = reduced(v, exponent_magic(f));
    const Expr m = fma(poly(r, kExpF32), r * r, r);
    const Expr s = power_of_two(t);
    const Expr usual = inverse(fma(m, s, s + 1.0));

    const Expr scaled = sigmoid_scaled(m, power_of_two(t + static_cast<double>(kSigmoidDownF32)));
    const Expr a = abs(x);
    const Expr one = x.constant(1.0);
    const Expr done = select(x > 0.0, one, 0.0);
    return rarely(!(a <= 16.0), rarely(within(a, 16, 105), select(x > 20.0, one, scaled), done), usual);
}

} // namespace

Expr sigmoid(Expr x) {
    return x.wide() ? sigmoid_f64(x) : sigmoid_f32(x);
}

namespace {

// Two ranges: x + x P(x^2), and 1 - 2^-Q(|x|), where the exponential may be rough because it is small.
Expr erf_f64(Expr x) {
    const Format f(x);
    const Expr a = abs(x);
    const Expr small = fma(poly(a * a, kErfSmallF64), a, a);

    const Expr q = poly(at_most(a, 5.95), kErfLargeF64);
    const Expr t = f.magic() - q;
    const Expr r = (f.magic() - t) - q;
    const Expr p = fma(poly(r, kExp2ShortF64), r, 1.0);
    const Expr e = (p.as_int() + (t.as_int() << f.mantissa())).as_float();
    return copy_sign(select(a >= 0.995, 1.0 - e, small), x);
}

// 1 - e^-q with q = -ln(erfc(|x|)), which is small where |x| is: one range, because e^r - 1 is not rounded as
// e^r would be.
Expr erf_f32(Expr x) {
    const Format f(x);
    const Expr a = at_most(abs(x), 3.92);
    const Expr q = fma(horner(a, kErfLogF32), a, a);
    const double magic = exponent_magic(f);
    const Expr t = fma(q, -std::numbers::log2e, magic);
    const Expr r = fma(t - magic, -std::numbers::ln2, -q);
    const Expr m = fma(poly(r, kExpm1DownF32), r * r, r);
    const Expr s = power_of_two(t);
    return copy_sign(fma(-m, s, 1.0 - s), x);
}

} // namespace

Expr erf(Expr x) {
    return x.wide() ? erf_f64(x) : erf_f32(x);
}

} // namespace lz::ir::math
