#include "ir/math/coefficients.h"
#include "ir/math/functions.h"
#include "ir/math/parts.h"

#include <limits>
#include <numbers>

namespace lz::ir::math {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Puts right where the argument x is not positive and finite; `edge` is where the logarithm is -inf.
Expr with_edges(Expr x, Expr result, double edge) {
    const Expr finite = select(x < kInf, result, x); // inf and NaN stay
    return select(x > edge, finite, select(equal(x, edge), x.constant(-kInf), select(x < edge, kNan, x)));
}

} // namespace

Split split(Expr x) {
    const Format f(x);
    const Expr rare = !((x >= f.pick(0x1p-126, 0x1p-1022)) & (x < kInf));
    const Expr scaled = rarely(rare, x * f.pick(0x1p23, 0x1p52), x);
    const Expr bits = scaled.as_int();
    const int64_t two_thirds = f.pick<int64_t>(0x3f2aaaab, 0x3fe5555555555555);
    const Expr exponent = (bits - two_thirds) & ~((int64_t{1} << f.mantissa()) - 1);
    const Expr e = exponent.cast(x.dtype()) * f.pick(0x1p-23, 0x1p-52);
    return {rarely(rare, e - static_cast<double>(f.mantissa()), e), (bits - exponent).as_float() - 1.0, rare};
}

Expr log(Expr x) {
    const Format f(x);
    const auto [e, m, rare] = split(x);
    const Expr s = m * m;
    const Expr tail = poly(m, f.wide ? std::span<const double>(kLogF64) : kLogF32);
    const Expr r = fma(fma(tail, m, -0.5), s, m);
    const Expr y = f.wide ? fma(e, 0x1.62e42fefa39efp-1, fma(e, 0x1.abc9e3b39803fp-56, r))
                          : fma(e, std::numbers::ln2, r);
    return rarely(rare, with_edges(x, y, 0.0), y);
}

Expr log2(Expr x) {
    const Format f(x);
    const auto [e, m, rare] = split(x);
    const Expr tail = poly(m, f.wide ? std::span<const double>(kLog2F64) : kLog2F32);
    const double high = f.pick<double>(0x1.715476p+0, 0x1.71547652b82fep+0);
    const double low = f.pick<double>(0x1.4ae0cp-26, 0x1.777d0ffda0d24p-56);
    const Expr y = e + fma(m, high, fma(m, low, tail * (m * m)));
    return rarely(rare, with_edges(x, y, 0.0), y);
}

namespace {

/// log10(1 + m). Of f32 with few constants: with two more it takes a third longer (AVX2).
Expr log10_of_mantissa(Expr m) {
    const Expr s = m * m;
    if (!m.wide())
        return fma(m, 0x1.bcb7b2p-2, fma(poly(m, kLog10F32), m, -0x1.bcb7b2p-3) * s);
    return fma(m, 0x1.bcb7b1526e50ep-2, fma(m, 0x1.95355baaafad3p-57, poly(m, kLog10F64) * s));
}

} // namespace

// e log10(2) in two parts, so that logarithms of powers of ten are whole numbers.
Expr log10(Expr x) {
    const Format f(x);
    const auto [e, m, rare] = split(x);
    const double high = f.pick<double>(0x1.344136p-2, 0x1.34413509f79ffp-2);
    const double low = f.pick<double>(-0x1.ec10cp-27, -0x1.9dc1da994fd21p-59);
    const Expr y = fma(e, high, fma(e, low, log10_of_mantissa(m)));
    return rarely(rare, with_edges(x, y, 0.0), y);
}

// The reduced argument comes from x and not from 1 + x: x 2^-e + (2^-e - 1) is exact where it matters.
Expr log1p(Expr x) {
    const Format f(x);
    const Expr u = x + 1.0;
    const int64_t three_quarters = f.pick<int64_t>(0x3f400000, 0x3fe8000000000000);
    const int64_t four = f.pick<int64_t>(0x40800000, 0x4010000000000000);
    const Expr exponent = (u.as_int() - three_quarters) & ~((int64_t{1} << f.mantissa()) - 1);
    // 4 * 2^-e is normal for every e, 2^-e itself is not.
    const Expr scale = (exponent.constant(four) - exponent).as_float();
    const Expr m = fma(scale * 0.25, x, fma(scale, 0.25, -1.0));
    const Expr e = exponent.cast(x.dtype()) * f.pick(0x1p-23, 0x1p-52);
    const Expr s = m * m;
    const Expr tail = poly(m, f.wide ? std::span<const double>(kLog1pF64) : kLog1pF32);
    const Expr r = fma(fma(tail, m, -0.5), s, m);
    const Expr y = f.wide ? fma(e, 0x1.62e42fefa39efp-1, fma(e, 0x1.abc9e3b39803fp-56, r))
                          : fma(e, std::numbers::ln2, r);
    const Expr usual = (x > -1.0) & (x < kInf);
    const Expr finite = select(equal(x, 0.0), x, y);
    return rarely(!usual, with_edges(x, finite, -1.0), finite);
}

} // namespace lz::ir::math
