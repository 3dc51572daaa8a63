/// pow, as 2^(y log2 |x|). The product needs the logarithm to its absolute precision: f32 takes it in pairs
/// of floats where the result is neither tiny nor huge, else in double; f64 in pairs of doubles.

#include "ir/math/coefficients.h"
#include "ir/math/functions.h"
#include "ir/math/parts.h"

#include <bit>
#include <limits>
#include <numbers>

namespace lz::ir::math {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMagic = 0x1.8p52;

/// log2 at 0, infinity and NaN, where the arithmetic does not give it.
Expr at_edges(Expr a, Expr log) {
    return select(equal(a, 0.0), log.constant(-kInf), select(a < kInf, log, a));
}

/// 2^n p for the integer n that the low bits of t hold; both factors of the scale are normal for |n| < 2000.
Expr scale(Expr p, Expr t) {
    const Expr n = t.as_int() - std::bit_cast<int64_t>(kMagic);
    const Expr half = n >> 1;
    const auto power = [](Expr e) { return ((e + 1023) << 52).as_float(); };
    return p * power(half) * power(n - half);
}

/// |x|^y for f32 operands, given as doubles.
Expr magnitude_in_double(Expr a, Expr y) {
    const Expr bits = a.as_int(); // normal: a double has room for f32's subnormals
    const Expr exponent = (bits - int64_t{0x3fe5555555555555}) & ~((int64_t{1} << 52) - 1);
    const Expr f = (bits - exponent).as_float() - 1.0;
    const Expr e = exponent.cast(DType::F64) * 0x1p-52;
    const Expr log = at_edges(a, fma(poly(f, kPowLogF32), f, e));
    const Expr product = select(equal(log, 0.0) | equal(y, 0.0), 0.0, y * log);
    const Expr x = at_least(at_most(product, 200.0), -200.0);
    const Expr t = x + kMagic;
    const Expr r = x - (t - kMagic);
    const Expr p = fma(poly(r, kExp2F32), r, 1.0);
    return p * (((t.as_int() - std::bit_cast<int64_t>(kMagic)) + 1023) << 52).as_float();
}

/// Results up to 2^kModerate, and down to its inverse, are at most 1.83 ULP off (20 million random pairs of
/// each kind). Beyond, the logarithm's error, times y, would be more.
constexpr double kModerate = 14;

/// a^y for a normal a, where |y log2(a)| < kModerate; and that product, roughly.
struct Moderate {
    Expr power, product;
};
Moderate magnitude_moderate(Expr a, Expr y) {
    const Format form(a);
    const Expr exponent = (a.as_int() - 0x3f2aaaab) & ~int64_t{0x7fffff}; // from 2/3 on
    const Expr e = exponent.cast(DType::F32) * 0x1p-23;
    const Expr f = (a.as_int() - exponent).as_float() - 1.0;
    // ln(1 + f) = f - f^2 / 2 + f^3 P(f) as natural.value + natural.error.
    const Sum square = two_product(f, f);
    const Expr first = fma(square.value, -0.5, f);
    const Expr first_rest = fma(square.value, -0.5, f - first);
    const Sum natural =
        fast_two_sum(first, poly_in_pairs(f, square.value, kPowLogPairF32) * (square.value * f));
    const Expr natural_rest = natural.error + fma(square.error, -0.5, first_rest);
    const double log2e = 0x1.715476p+0, log2e_rest = 0x1.4ae0cp-26;
    const Sum binary = two_product(natural.value, natural.value.constant(log2e));
    const Sum log = fast_two_sum(e, binary.value);
    const Expr log_rest = log.error + fma(natural.value, log2e_rest, fma(natural_rest, log2e, binary.error));
    const Expr t = fma(y, log.value, form.magic());
    const Expr r = fma(y, log_rest, fma(y, log.value, -(t - form.magic())));
    const Expr p = fma(poly(r, kExp2F32), r, 1.0);
    return {(p.as_int() + (t.as_int() << form.mantissa())).as_float(), y * log.value};
}

/// |x|^y for f32 operands.
Expr magnitude_f32(Expr a, Expr y) {
    const Moderate m = magnitude_moderate(a, y);
    const Expr usual = (abs(m.product) < kModerate) & (a >= 0x1p-126) & (a < kInf);
    const Expr exact = magnitude_in_double(a.cast(DType::F64), y.cast(DType::F64)).cast(DType::F32);
    return rarely(!usual, exact, m.power);
}

/// log2(a) of a split positive finite a, to about 2^-68 of itself: atanh's series in s = f / (2 + f), whose
/// first three terms and their sums are pairs.
Sum log2_pair(const Split &a) {
    const auto &[e, f, rare] = a;
    const Expr d = f + 2.0;
    const Expr d_rest = f - (d - 2.0);
    const Expr inverse = 1.0 / d; // one division for both
    const Expr s = f * inverse;
    const Expr s_rest = (fma(-s, d, f) - s * d_rest) * inverse;
    const Sum z = two_product(s, s);
    const Expr z_rest = fma(s * 2.0, s_rest, z.error);
    const auto next = [&](double high, double low, const Sum &inner) { // high + low + z * inner
        const Sum p = two_product(z.value, inner.value);
        const Expr rest = p.error + fma(z.value, inner.error, z_rest * inner.value);
        const Sum sum = fast_two_sum(z.value.constant(high), p.value);
        return Sum{sum.value, sum.error + (rest + low)};
    };
    const Expr q = z.value * poly(z.value, kPowLogF64);
    const Sum first = fast_two_sum(q.constant(0x1.2776c50ef9bfep-1), q);
    const Sum c2{first.value, first.error + 0x1.e4b29ccc535d4p-55};
    const Sum c1 = next(0x1.ec709dc3a03fdp-1, 0x1.d27f05548af0cp-55, c2);
    const Sum c0 = next(0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55, c1);
    const Sum l = two_product(s, c0.value);
    const Expr l_rest = l.error + fma(s, c0.error, s_rest * c0.value);
    const Sum sum = fast_two_sum(e, l.value);
    return {sum.value, sum.error + l_rest};
}

/// a^y of the pair log2(a), whatever the two are.
Expr power_of_any(Expr a, Expr y, const Sum &log) {
    const Expr high = at_edges(a, log.value);
    const Expr c = at_least(at_most(y, 0x1p80), -0x1p80); // so that no product overflows
    const Expr product = select(equal(high, 0.0) | equal(y, 0.0), 0.0, c * high);
    const Expr rest = fma(c, high, -product) + c * log.error;
    const Expr x = at_least(at_most(product, 1100.0), -1100.0); // beyond, `rest` is large or NaN and left out
    const Expr t = x + kMagic;
    const Expr r = (x - (t - kMagic)) + select(abs(rest) < 1.0, rest, 0.0);
    return scale(fma(poly(r, kExp2F64), r, 1.0), t);
}

Expr magnitude_f64(Expr a, Expr y) {
    const Split parts = split(a);
    const Sum log = log2_pair(parts);
    const Expr product = y * log.value;
    const Expr rest = fma(y, log.value, -product) + y * log.error;
    const Expr t = product + kMagic;
    const Expr r = (product - (t - kMagic)) + rest;
    const Expr p = fma(poly(r, kExp2F64), r, 1.0);
    const Expr power = (p.as_int() + (t.as_int() << 52)).as_float();
    // Then the power is a normal number.
    const Expr rare = parts.rare | !(abs(product) < 1020.0);
    return rarely(rare, power_of_any(a, y, log), power);
}

} // namespace

namespace {

/// 2^c for fast::pow, where c is a number, NaN, or beyond `limit`: then the power is 0 or infinite but for
/// the last binades.
Expr scale_far(Expr c, double limit) {
    const Format f(c);
    const Expr half = c * 0.5;
    const Expr t = half + f.magic();
    const Expr r = half - (t - f.magic());
    const Expr p = fma(poly(r, f.wide ? std::span<const double>(kExp2F64) : kExp2F32), r, 1.0);
    const Expr root = (p.as_int() + (t.as_int() << f.mantissa())).as_float();
    return select(c < -limit, c.constant(0.0), root * root);
}

/// The power of |x| with what a negative x makes of it.
Expr with_signs(Expr x, Expr y, Expr magnitude) {
    const Expr a = abs(x);
    const Expr integral = equal(trunc(y), y); // infinities too
    const Expr half = y * 0.5;
    const Expr odd = integral & differ(trunc(half), half);
    const Expr signed_ = (magnitude.as_int() ^ select(odd, sign_of(x), 0)).as_float();
    const Expr undefined = (x < 0.0) & (a < kInf) & !integral;
    const Expr of_negative = select(undefined, x.constant(std::numeric_limits<double>::quiet_NaN()), signed_);
    return rarely(x.as_int() < int64_t{0}, of_negative, magnitude);
}

} // namespace

Expr rsqrt(Expr x) {
    return 1.0 / sqrt(x);
}

Expr pow(Expr x, Expr y) {
    const Expr a = abs(x);
    // A square is rounded once, as the product that `simplify` makes of it where it knows the exponent (S29).
    // To the power of 1 it is the number itself, as there; of f32 the arithmetic gives that.
    const Expr other = x.wide() ? select(equal(y, 1.0), a, magnitude_f64(a, y)) : magnitude_f32(a, y);
    return with_signs(x, y, select(equal(y, 2.0), a * a, other));
}

Expr fast::pow(Expr x, Expr y) {
    const Format f(x);
    const Expr a = abs(x);
    const auto [e, m, rare] = split(a);
    const Expr tail = poly(m, f.wide ? std::span<const double>(kLog2F64) : kLog2F32);
    const Expr log = fma(m, std::numbers::log2e, fma(tail, m * m, e));
    const Expr product = y * log;
    const Expr t = product + f.magic();
    const Expr r = product - (t - f.magic());
    const Expr p = fma(poly(r, f.wide ? std::span<const double>(kExp2F64) : kExp2F32), r, 1.0);
    const Expr power = (p.as_int() + (t.as_int() << f.mantissa())).as_float();
    // Zero, infinity and NaN, and results that are none of the normal numbers' inside.
    const double limit = f.pick(126.0, 1022.0);
    const Expr high = at_edges(a, log);
    const Expr exponent = select(equal(high, 0.0) | equal(y, 0.0), 0.0, y * high);
    const Expr far = scale_far(at_least(at_most(exponent, 2 * limit), -2 * limit), limit);
    const Expr beyond = rare | !(abs(product) < limit);
    return with_signs(x, y, select(equal(y, 2.0), a * a, rarely(beyond, far, power)));
}

} // namespace lz::ir::math
