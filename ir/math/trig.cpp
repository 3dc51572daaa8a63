/// sin, cos and tan. Arguments are reduced by pi in units of half turns: x / pi = n + u with |u| <= 1/2,
/// where u is as right for huge x as for small ones (Payne and Hanek 1983): only those bits of 1 / pi are
/// multiplied that make neither a multiple of 2 nor something below the last place. That is done
/// beyond kNear only; nearer, n times pi is taken away in three parts (Cody and Waite 1980).

#include "ir/math/coefficients.h"
#include "ir/math/functions.h"
#include "ir/math/parts.h"

#include <numbers>

namespace lz::ir::math {

namespace {

constexpr double kMagic = 0x1.8p52;

/// u in [-1/2, 1/2] as high + low, and n's lowest bit as the sign bit of an i64. `low` is unused in f32.
struct Turns {
    Expr u, low, odd;
};

// --- f32: in double, where 24 bits of x times 106 bits of 1 / pi leave enough.

/// 1 / pi without the bits that make multiples of 2 of an x >= from, in two doubles.
struct Window {
    double from, high, low;
};
constexpr Window kWindows[] = {
    {0, 0x1.45f306dc9c883p-2, -0x1.6b01ec5417056p-56},
    {0x1p51, 0x1.727220a94fe14p-28, -0x1.505c1596447e5p-82},
    {0x1p77, 0x1.4a7f09d5f47d5p-55, -0x1.6447e493ad4cep-110},
    {0x1p103, 0x1.abe8fa9a6ee07p-80, -0x1.275a99b0ef1bfp-135},
};

/// x / pi + shift, for an f32 x; shift is 0 or 1/2.
Turns turns_f32(Expr x, double shift) {
    const Expr a = abs(x);
    const Expr v = x.cast(DType::F64);
    Expr high = v.constant(kWindows[0].high), low = v.constant(kWindows[0].low);
    for (const Window &w : std::span(kWindows).subspan(1)) {
        const Expr beyond = a >= w.from;
        high = select(beyond, v.constant(w.high), high);
        low = select(beyond, v.constant(w.low), low);
    }
    const Expr t = shift == 0 ? fma(v, high, kMagic) : fma(v, high, shift) + kMagic;
    const Expr u = fma(v, high, shift - (t - kMagic));
    return {fma(v, low, u), v, t.as_int() << 63};
}

// --- f64

/// 1 / pi in pieces of 53 bits, each as a fraction: 1 / pi = sum kPieces[j] 2^(-53 j).
constexpr double kPieces[] = {
    0x1.45f306dc9c882p-2, 0x1.4a7f09d5f47d4p-2, 0x1.a6ee06db14accp-2, 0x1.3c439041fe516p-2,
    0x1.d5ef5de2b0db8p-4, 0x1.2371d2126e970p-3, 0x1.924bba8274600p-9, 0x1.21cfe1deb1cb0p-2,
    0x1.29a73ee88235fp-1, 0x1.4baed1213a670p-2, 0x1.c09ad17df904ep-1, 0x1.91d639835339ep-2,
    0x1.49c845f8bbdf9p-1, 0x1.41d8ffc4bffecp-3, 0x1.816603fbcbc46p-1, 0x1.6b414da3eda6cp-3,
    0x1.fb3c9f2c26dd0p-3, 0x1.e8c7ecd3cbfd4p-1, 0x1.6ba93dd63f5f2p-2, 0x1.f17b3d0739f78p-2,
    0x1.4a525d4d7f6bep-2, 0x1.623f1aba10ac0p-1, 0x1.98237e3db5d5ep-2, 0x1.867de104d7a1bp-1,
};
constexpr int kUsed = 5; // pieces that one argument is multiplied by

Expr modulo_2(Expr v) {
    return fma(rint(v * 0.5), -2.0, v);
}

/// Pieces index - 1 ... index + 3, by the bits of the index: a shifter instead of a table.
std::vector<Expr> pieces_at(Expr x, Expr index) {
    std::vector<Expr> list = {x.constant(0.0)};
    for (const double piece : kPieces)
        list.push_back(x.constant(piece));
    for (int step = 16; step != 0; step /= 2) {
        const Expr up = differ(index & step, 0);
        const size_t wanted = static_cast<size_t>(kUsed + step - 1);
        const size_t by = static_cast<size_t>(step);
        std::vector<Expr> next;
        for (size_t j = 0; j < std::min(wanted, list.size()); ++j)
            next.push_back(j + by < list.size() ? select(up, list[j + by], list[j]) : list[j]);
        list = std::move(next);
    }
    return list;
}

Turns turns_f64(Expr x, double shift) {
    // x = y 2^(53 i), y in [1, 2^53) where i > 0.
    const Expr exponent = (lshr(x.as_int(), 52) & 0x7ff) - 1023;
    const Expr e = select(exponent < 0, 0, exponent);
    const Expr index = lshr(e * 1237, 16); // e / 53
    const Expr y = x * ((index.constant(1023) - index * 53) << 52).as_float();
    const std::vector<Expr> f = pieces_at(x, index);
    const Sum h1 = two_product(y * 0x1p53, f[0]);
    const Sum h2 = two_product(y, f[1]);
    const Sum h3 = two_product(y * 0x1p-53, f[2]);
    const Sum h4 = two_product(y * 0x1p-106, f[3]);
    const Expr h5 = (y * 0x1p-159) * f[4];
    // Both parts of h1 have few enough bits left for an exact sum; the other sums keep their errors.
    Expr whole = modulo_2(h1.value) + modulo_2(h1.error);
    if (shift != 0)
        whole = whole + shift;
    const Sum s1 = two_sum(whole, modulo_2(h2.value));
    const Sum s2 = two_sum(s1.value, h2.error);
    const Sum s3 = two_sum(s2.value, h3.value);
    const Sum l1 = two_sum(s1.error, s2.error);
    const Sum l2 = two_sum(s3.error, h3.error);
    const Sum l3 = two_sum(l1.value, l2.value);
    const Sum l4 = two_sum(l3.value, h4.value);
    const Expr rest = (l1.error + l2.error) + (l3.error + l4.error) + (h4.error + h5);
    const Expr t = s3.value + kMagic;
    const Sum u = two_sum(s3.value - (t - kMagic), l4.value);
    return {u.value, u.error + rest, t.as_int() << 63};
}

Turns turns(Expr x, double shift) {
    return x.wide() ? turns_f64(x, shift) : turns_f32(x, shift);
}

/// An angle of u half turns in radians, as r + low.
struct Angle {
    Expr r, low;
};
Angle angle_f64(Expr u, Expr low) {
    const Sum p = two_product(u, u.constant(std::numbers::pi));
    return {p.value, fma(low, std::numbers::pi, fma(u, 0x1.1a62633145c07p-53, p.error))};
}

/// r + r^3 P(r^2). An f32 function stays in double up to here: near pi/2 three roundings of the small part
/// would show.
Expr odd(Expr r, std::span<const double> coefficients) {
    const Expr s = r * r;
    return fma(poly(s, coefficients), s * r, r);
}

/// Up to here three parts of pi are enough, and n pi's first part leaves an exact difference.
constexpr double kNear = 0x1p17;

/// a - n `whole` as r + low, for an f64 a <= kNear. The first two parts have 33 bits, n has less than 20:
/// their products are exact. Right to the last places where |r| is not so small that `is_lost` holds.
struct Rest {
    Expr r, low, is_lost;
};
Rest reduced_f64(Expr a, Expr n, double scale) {
    constexpr double kParts[] = {0x1.921fb544p+1, 0x1.0b4611a6p-33, 0x1.3198a2e037073p-68}; // of pi
    const Sum first = two_sum(a, n * (-kParts[0] * scale));
    const Sum r = two_sum(first.value, n * (-kParts[1] * scale));
    const Expr low = fma(n, -kParts[2] * scale, r.error + first.error);
    return {r.value, low, abs(r.value) < abs(n) * 0x1p-60};
}

/// As sine_near for f64, whose n pi needs to be known better: also where it has to be taken away otherwise.
struct NearSine {
    Expr value, is_lost;
};
NearSine sine_near_f64(Expr x, Expr a, double shift) {
    const double magic = Format(x).magic();
    const bool cosine = shift != 0;
    const Expr q = cosine ? fma(a, std::numbers::inv_pi, shift) + magic : fma(a, std::numbers::inv_pi, magic);
    const Expr n = cosine ? (q - magic) - shift : q - magic;
    const auto [r, low, is_lost] = reduced_f64(a, n, 1);
    const Expr s = r * r;
    // What low adds, and the rounding of s, by slopes that are right where these count: from an eighth of a
    // turn on.
    const Expr rest = fma(r * -0.135, fma(r, r, -s), low * fma(s, -0.405, 1.0));
    const Expr sine = r + fma(poly(s, kSinNearF64), s * r, rest);
    const Expr odd_half = q.as_int() << 63;
    const Expr flip = cosine ? odd_half : odd_half ^ sign_of(x);
    return {(sine.as_int() ^ flip).as_float(), is_lost};
}

/// sin(x + shift pi), shift 0 or 1/2, for |x| <= kNear, at most 1.82 ULP (every x was tried): |x| = n pi + r
/// with n + shift an integer, odd where the last bit of q is set.
Expr sine_near(Expr x, Expr a, double shift) {
    const double magic = Format(x).magic();
    const bool cosine = shift != 0;
    const Expr q = cosine ? fma(a, std::numbers::inv_pi, shift) + magic : fma(a, std::numbers::inv_pi, magic);
    const Expr n = cosine ? (q - magic) - shift : q - magic;
    const Expr r = fma(n, -0x1.846988p-47, fma(n, -0x1.4442dp-23, fma(n, -0x1.921fb4p+1, a)));
    const Expr odd_half = q.as_int() << 31;
    const Expr flip = cosine ? odd_half : odd_half ^ sign_of(x);
    return (odd(r, kSinNearF32).as_int() ^ flip).as_float();
}

/// sin(pi (u + low)), its sign flipped by the sign bit of `odd`.
Expr sine(Expr x, const Turns &t) {
    const auto flipped = [&](Expr v) { return (v.as_int() ^ t.odd).as_float(); };
    if (!x.wide())
        return odd(flipped(t.u) * std::numbers::pi, kSinF32).cast(DType::F32);
    // Beyond a quarter turn as the cosine of what is left to a half: there the sine's series rounds too much.
    const Expr u = flipped(t.u), rest = flipped(t.low);
    const Expr steep = abs(u) > 0.25;
    const auto [r, low] =
        angle_f64(select(steep, copy_sign(u.constant(0.5), u) - u, u), select(steep, -rest, rest));
    const Expr s = r * r;
    const Expr sin = r + fma(poly(s, kSinqF64), s * r, low * fma(s, -0.5, 1.0));
    const Expr half = s * 0.5;
    const Expr first = 1.0 - half;
    const Expr cos = first + (((1.0 - first) - half) + fma(poly(s, kCosqF64), s * s, -(r * low)));
    return select(steep, copy_sign(cos, u), sin);
}

} // namespace

namespace {

/// Whether x was an f16, none of which but infinity is beyond kNear.
bool was_f16(Expr x) {
    const Instr &made = x.b->kernel().instrs[x.id];
    return made.op == KOp::Cast && x.b->dtype(made.operands[0]) == DType::F16;
}

/// Infinite x make NaN by themselves: inf * 0 or inf - inf occurs in every reduction.
Expr sine_f32(Expr x, double shift) {
    const bool is_near = was_f16(x);
    const Expr a = abs(x);
    const Expr near = sine_near(x, a, shift);
    return is_near ? near : rarely(a > kNear, sine(x, turns(x, shift)), near);
}

Expr sine_f64(Expr x, double shift) {
    const Expr a = abs(x);
    const auto [near, is_lost] = sine_near_f64(x, a, shift);
    return rarely((a > kNear) | is_lost, sine(x, turns(x, shift)), near);
}

} // namespace

Expr sin(Expr x) {
    return x.wide() ? sine_f64(x, 0) : sine_f32(x, 0);
}

Expr cos(Expr x) {
    return x.wide() ? sine_f64(x, 0.5) : sine_f32(x, 0.5);
}

namespace {

/// y + rest = tan(r + low) for |r| <= pi / 4, with y rounded.
Sum tangent(Expr r, Expr low, std::span<const double> coefficients) {
    const Expr s = r * r;
    const Expr tail = poly(s, coefficients) * (s * r);
    const Expr first = r + tail;
    const Expr small = fma(fma(first, first, 1.0), low, tail);
    const Expr y = r + small;
    return {y, (r - y) + small};
}
Expr inverse(const Sum &y) {
    const Expr q = 1.0 / y.value;
    return fma(-q, fma(q, y.value, -1.0) + q * y.error, q);
}

/// |x| = n pi/2 + r + low: the tangent of r, or where n is odd minus what is one over it.
Expr tan_near(Expr x, Expr a) {
    const double magic = Format(x).magic();
    const Expr q = fma(a, 2 * std::numbers::inv_pi, magic);
    const Expr n = q - magic;
    const Sum second = two_product(n, n.constant(0x1.4442dp-24));
    const Sum r = two_sum(fma(n, -0x1.921fb4p+0, a), -second.value);
    const Sum y = tangent(r.value, fma(n, -0x1.846988p-48, r.error - second.error), kTanF32);
    const Expr odd_quarter = q.as_int() << 31;
    const Expr chosen = select(differ(odd_quarter, 0), inverse(y), y.value);
    return (chosen.as_int() ^ odd_quarter ^ sign_of(x)).as_float();
}

/// The same for f64; also where it is not right.
NearSine tan_near_f64(Expr x, Expr a) {
    const double magic = Format(x).magic();
    const Expr q = fma(a, 2 * std::numbers::inv_pi, magic);
    const auto [r, low, is_lost] = reduced_f64(a, q - magic, 0.5);
    const Sum y = tangent(r, low, kTanF64);
    const Expr odd_quarter = q.as_int() << 63;
    const Expr chosen = select(differ(odd_quarter, 0), inverse(y), y.value);
    return {(chosen.as_int() ^ odd_quarter ^ sign_of(x)).as_float(), is_lost};
}

/// tan(pi u) for |u| <= 1/4, else 1 / tan(pi (1/2 - u)). In f64 the tangent is kept as y + rest until it is
/// inverted.
Expr tan_far(Expr x) {
    const Turns t = turns(x, 0);
    const Expr steep = abs(t.u) > 0.25;
    const Expr u = select(steep, copy_sign(t.u.constant(0.5), t.u) - t.u, t.u);
    if (!x.wide()) {
        const Expr y = odd(u * std::numbers::pi, kTanF32);
        return select(steep, 1.0 / y, y).cast(DType::F32);
    }
    const auto [r, low] = angle_f64(u, select(steep, -t.low, t.low));
    const Sum y = tangent(r, low, kTanF64);
    return select(abs(x) < 0x1p-27, x, select(steep, inverse(y), y.value));
}

} // namespace

Expr tan(Expr x) {
    const Expr a = abs(x);
    if (x.wide()) {
        const auto [near, is_lost] = tan_near_f64(x, a);
        return rarely((a > kNear) | is_lost, tan_far(x), near);
    }
    const Expr near = tan_near(x, a);
    return was_f16(x) ? near : rarely(a > kNear, tan_far(x), near);
}

} // namespace lz::ir::math
