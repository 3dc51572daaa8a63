#include "ir/math/coefficients.h"
#include "ir/math/functions.h"

namespace lz::ir::math {

namespace {

/// A multiple of pi in two parts of the format.
struct Pair {
    double high, low;
};
Pair half_pi(const Format &f) {
    return f.wide ? Pair{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54} : Pair{0x1.921fb6p+0, -0x1.777a5cp-25};
}
Pair pi(const Format &f) {
    const Pair h = half_pi(f);
    return {2 * h.high, 2 * h.low};
}

/// asin(s) - s for s in [0, 1/2], where z = s^2.
Expr asin_tail(Expr s, Expr z) {
    return poly(z, s.wide() ? std::span<const double>(kAsinF64) : kAsinF32) * (z * s);
}

/// atan(t) - t for t in [0, 1].
Expr atan_tail(Expr t) {
    const Expr s = t * t;
    return poly(s, t.wide() ? std::span<const double>(kAtanF64) : kAtanF32) * (s * t);
}

} // namespace

// asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) beyond 1/2; 1 - a is exact there, and NaN for |x| > 1 comes of
// the root.
Expr asin(Expr x) {
    const Format f(x);
    const Pair c = half_pi(f);
    const Expr a = abs(x);
    const Expr big = a > 0.5;
    const Expr z = select(big, fma(a, -0.5, 0.5), a * a);
    const Expr s = select(big, sqrt(z), a);
    const Expr tail = asin_tail(s, z);
    const Expr high = fma(s, -2.0, c.high);
    const Expr rounding = fma(s, -2.0, c.high - high);
    const Expr large = high + (fma(tail, -2.0, c.low) + rounding);
    return copy_sign(select(big, large, s + tail), x);
}

Expr acos(Expr x) {
    const Format f(x);
    const Pair c = half_pi(f);
    const Expr a = abs(x);
    const Expr big = a > 0.5;
    const Expr z = select(big, fma(a, -0.5, 0.5), a * a);
    const Expr s = select(big, sqrt(z), a);
    const Expr tail = asin_tail(s, z);
    const Expr negative = x < 0.0;
    // pi/2 - asin(x); 2 asin(s) for x > 1/2, and pi minus that for x < -1/2.
    const Expr ss = copy_sign(s, x), st = copy_sign(tail, x);
    const Expr small = (c.high - ss) + (c.low - st);
    const Expr near_one = (s + s) + (tail + tail);
    const Expr near_minus_one = fma(s, -2.0, 2 * c.high) + fma(tail, -2.0, 2 * c.low);
    return select(big, select(negative, near_minus_one, near_one), small);
}

Expr atan(Expr x) {
    const Format f(x);
    const Pair c = half_pi(f);
    const Expr a = abs(x);
    const Expr big = a > 1.0;
    const Expr t = select(big, 1.0 / a, a);
    const Expr tail = atan_tail(t);
    const Expr r = select(big, (c.high - t) + (c.low - tail), t + tail);
    return copy_sign(r, x);
}

Expr atan2(Expr y, Expr x) {
    const Format f(x);
    const Pair half = half_pi(f), whole = pi(f);
    const Expr ax = abs(x), ay = abs(y);
    const Expr swap = ay > ax;
    const Expr n = select(swap, ax, ay), d = select(swap, ay, ax);
    // 0/0 counts as 0 and inf/inf as 1; a NaN in either stays.
    const Expr equal_ones = select(equal(d, 0.0), d, d.constant(1.0));
    const Expr t = select(equal(n, d), equal_ones, n / d);
    const Expr tail = atan_tail(t);
    const Expr left = sign_of(x) < 0;
    // r is base + sign * (t + tail): pi/2 - t, pi - t, pi/2 + t or t.
    const Expr zero = x.constant(0.0);
    const Expr high = select(swap, x.constant(half.high), select(left, x.constant(whole.high), zero));
    const Expr low = select(swap, x.constant(half.low), select(left, x.constant(whole.low), zero));
    const Expr flip = select((swap ^ left), sign_of(x.constant(-0.0)), 0);
    const auto signed_ = [&](Expr v) { return (v.as_int() ^ flip).as_float(); };
    const Expr r = (high + signed_(t)) + (low + signed_(tail));
    return copy_sign(r, y);
}

} // namespace lz::ir::math
