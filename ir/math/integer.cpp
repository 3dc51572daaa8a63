/// Philox, integer powers and the exact remainder.

#include "ir/math/functions.h"

#include <cmath>
#include <limits>

namespace lz::ir::math {

// Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Expr philox(Expr counter, Expr word, Expr seed) {
    const auto low = [](Expr v) { return v.cast(DType::I32); };
    const auto high = [](Expr v) { return lshr(v, 32).cast(DType::I32); };
    const Expr zero = word.constant(0);
    Expr c0 = low(counter), c1 = high(counter), c2 = zero, c3 = zero;
    Expr k0 = low(seed), k1 = high(seed);
    for (int round = 0; round < 10; ++round) {
        const int64_t m0 = 0xD2511F53, m1 = 0xCD9E8D57;
        const Expr h0 = mulhiu(c0, m0), l0 = c0 * m0;
        const Expr h1 = mulhiu(c2, m1), l1 = c2 * m1;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 = k0 + int64_t{0x9E3779B9};
        k1 = k1 + int64_t{0xBB67AE85};
    }
    const Expr w = word & 3;
    return select(equal(w, 0), c0, select(equal(w, 1), c1, select(equal(w, 2), c2, c3)));
}

Expr int_pow(Expr x, Expr y) {
    const int bits = 8 * size_of(x.dtype());
    const Expr one = x.constant(1);
    Expr result = one, power = x;
    for (int i = 0; i < bits; ++i) {
        result = result * select(equal(y & (int64_t{1} << i), 0), one, power);
        if (i + 1 < bits)
            power = power * power;
    }
    if (!is_signed(x.dtype()))
        return result;
    // For a negative exponent only 1 and -1 have an inverse; theirs is their own power with y's lowest bit.
    const Expr parity = select(equal(y & 1, 0), one, x);
    const Expr unit = equal(x, 1) | equal(x, -1);
    return select(y < 0, select(unit, parity, 0), result);
}

namespace {

/// The remainder of a / d for finite a, d > 0, which are doubles of at most 24 bits and less than 2^278
/// apart. With d_k = d 2^(50k), q = rint(a / d_k) is right to a quarter, so that |a - q d_k| < d_k and the
/// difference is exact; six such steps, k = 5 ... 0, leave |a| < d.
Expr reduce_f32(Expr a, Expr d) {
    const Expr inverse = 1.0 / d;
    for (int k = 5; k >= 0; --k) {
        const double scale = std::ldexp(1.0, 50 * k);
        const Expr q = rint(a * (inverse * (1 / scale)));
        a = fma(-q, d * scale, a);
    }
    return a;
}

/// The same in doubles, where exponents have no room for that: a and d as mantissas in [1, 2) and the
/// difference `shift` of their exponents; steps of 50 bits run while there are any left.
Expr reduce_f64(Expr a, Expr d, Expr shift) {
    const Expr inverse = 1.0 / d;
    const auto step = [&](Expr scaled) { return fma(-rint(scaled * inverse), d, scaled); };
    Expr r = a;
    for (int done = 0; done < 2100; done += 50) {
        const Expr left = shift - done;
        const Expr bits = select(left < 0, 0, select(left > 50, left.constant(50), left));
        const Expr scale = ((bits + 1023) << 52).as_float();
        r = step(r * scale);
    }
    return r;
}

struct Normal {
    Expr mantissa, exponent; // [1, 2), unbiased
};
Normal normalise(Expr a) {
    const Expr tiny = a < 0x1p-1022;
    const Expr scaled = select(tiny, a * 0x1p52, a).as_int();
    const Expr exponent = lshr(scaled, 52) - select(tiny, scaled.constant(1023 + 52), 1023);
    const Expr mantissa = ((scaled & ((int64_t{1} << 52) - 1)) | (int64_t{1023} << 52)).as_float();
    return {mantissa, exponent};
}

/// The remainder of a / d, neither of which is negative, whatever they are.
Expr remainder_of_any(Expr a, Expr d) {
    Expr r = a;
    if (a.wide()) {
        const auto [ma, ea] = normalise(a);
        const auto [md, ed] = normalise(d);
        r = reduce_f64(ma, md, ea - ed);
        r = select(r < 0.0, r + md, r);
        // Back to the divisor's scale, in two exact steps: its power of two may be subnormal.
        const Expr half = ed >> 1;
        const auto power = [](Expr e) { return ((e + 1023) << 52).as_float(); };
        r = r * power(half) * power(ed - half);
    } else {
        const Expr wide_d = d.cast(DType::F64);
        const Expr wide = reduce_f32(a.cast(DType::F64), wide_d);
        r = select(wide < 0.0, wide + wide_d, wide).cast(DType::F32);
    }
    r = select(a < d, a, r); // also where d is infinite
    // NaN for NaN operands, infinite a and zero d: all of them make a - a or d / d NaN somewhere.
    const Expr valid = (a < std::numeric_limits<double>::infinity()) & (d > 0.0);
    return select(valid, r, a.constant(std::numeric_limits<double>::quiet_NaN()));
}

} // namespace

Expr fmod(Expr x, Expr y) {
    const Format f(x);
    const Expr a = abs(x), d = abs(y);
    // Where the quotient is less than 2^22, or 2^51, its whole part is a number of the format. Rounded, it
    // may be one more than that; the difference is exact either way: it is less than d, and a multiple of the
    // last place of the smaller of the two.
    const Expr q = trunc(a / d);
    const Expr r = fma(-q, d, a);
    const Expr near = select(r < 0.0, r + d, r);
    const Expr finite = d < std::numeric_limits<double>::infinity();
    const Expr far = !((a < d * f.pick(0x1p22, 0x1p51)) & finite); // NaN and zero d, too
    return copy_sign(rarely(far, remainder_of_any(a, d), near), x);
}

} // namespace lz::ir::math
