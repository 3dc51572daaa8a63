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

/// x = r + k ln 2 with |r| <= ln(2) / 2: e^r - 1, and 2^(k + plus). No clamps.
struct Expm1Parts {
    Expr m, power;
};
Expm1Parts expm1_parts(Expr x, int plus) {
    const Format f(x);
    const Ln2 c = ln2(f);
    const double magic = exponent_magic(f, plus);
    const Expr t = fma(x, std::numbers::log2e, magic);
    const Expr k = t - magic;
    const Expr r = fma(k, -c.low, fma(k, -c.high, x));
    const Expr tail = poly(r, f.wide ? std::span<const double>(kExpm1F64) : kExpm1F32);
    return {fma(tail, r * r, r), power_of_two(t)};
}

} // namespace

Expr exp(Expr x) {
    return exp_scaled(x, 0);
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

// Two ranges: x + x^3 P(x^2), and 1 - 2 / (e^2x + 1), where the exponential may be rough because it is
// divided by.
Expr tanh(Expr x) {
    const Format f(x);
    const Expr a = abs(x);
    const Expr s = a * a;
    const Expr small = fma(poly(s, f.wide ? std::span<const double>(kTanhF64) : kTanhF32), s * a, a);

    const Expr c = at_most(a, f.pick(9.1, 19.1));
    const double magic = exponent_magic(f, -1);
    const Expr t = fma(c, 2 * std::numbers::log2e, magic);
    const Expr r = fma(c, 2 * std::numbers::log2e, magic - t);
    const Expr p = fma(poly(r, f.wide ? std::span<const double>(kExp2F64) : kExp2F32), r, 1.0);
    const Expr large = 1.0 - 1.0 / fma(p, power_of_two(t), 0.5);
    return copy_sign(select(a >= 0.55, large, small), x);
}

// 1 / (1 + e^-x), with both sides scaled down so that e^-x cannot overflow where the result is subnormal.
Expr sigmoid(Expr x) {
    const Format f(x);
    const int down = f.pick(-64, -512);
    const auto [m, s] = expm1_parts(at_least(at_most(-x, f.pick(105.0, 747.0)), f.pick(-20.0, -40.0)), down);
    const double scale = std::ldexp(1.0, down);
    // e^-x as s (p + rest): p's own rounding would be a whole unit of the result where p is little more
    // than 1.
    const Expr p = m + 1.0;
    const Expr rest = (1.0 - p) + m;
    return 1.0 / fma(p, s, fma(rest, s, scale)) * scale;
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
    const Expr q = fma(poly(a, kErfLogF32), a, a);
    const double magic = exponent_magic(f);
    const Expr t = fma(q, -std::numbers::log2e, magic);
    const Expr r = fma(t - magic, -std::numbers::ln2, -q);
    const Expr square = r * r;
    const Expr m = fma(poly_in_pairs(r, square, kExpm1DownF32), square, r);
    const Expr s = power_of_two(t);
    return copy_sign(fma(-m, s, 1.0 - s), x);
}

} // namespace

Expr erf(Expr x) {
    return x.wide() ? erf_f64(x) : erf_f32(x);
}

} // namespace lz::ir::math
