#!/usr/bin/env python3
"""Makes the polynomial coefficients of ir/math/*.cpp.

Each row asks for P with f(x) ~ a(x) + b(x) P(u(x)) on an interval, where the largest error relative to w(x) is as
small as possible: Remez exchange on a dense Chebyshev grid (Remez 1934; linear weighted form as in Muller,
"Elementary Functions", ch. 3), in 60 digits. Coefficients are then rounded to the format one at a time, lowest degree first,
and the others fitted again, so that they make up for each other's rounding.

    python3 fit.py            writes coefficients.h
    python3 fit.py exp log    shows the rows whose name starts so
"""
import sys
import mpmath as mp

mp.mp.dps = 60


def chebyshev(lo, hi, n):
    return [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * i / (n - 1)) for i in range(n - 1, -1, -1)]


def remez(rows, target):
    """rows: basis values by point (already divided by the weight), target likewise. Minimax coefficients."""
    n, m = len(rows[0]), len(rows)
    index = [round((m - 1) * (1 - mp.cos(mp.pi * i / n)) / 2) for i in range(n + 1)]
    index = sorted(set(int(i) for i in index))
    while len(index) < n + 1:  # collided on a small grid
        index = sorted(set(index) | {next(i for i in range(m) if i not in index)})
    for _ in range(30):
        A = mp.matrix(n + 1, n + 1)
        y = mp.matrix(n + 1, 1)
        for r, i in enumerate(index):
            for c in range(n):
                A[r, c] = rows[i][c]
            A[r, n] = (-1) ** r
            y[r] = target[i]
        sol = mp.lu_solve(A, y)
        coef = [sol[c] for c in range(n)]
        err = [target[i] - mp.fsum(rows[i][c] * coef[c] for c in range(n)) for i in range(m)]
        # one extremum in each run of equal sign
        new, start = [], 0
        for i in range(1, m + 1):
            if i == m or (err[i] > 0) != (err[start] > 0):
                new.append(max(range(start, i), key=lambda k: abs(err[k])))
                start = i
        while len(new) > n + 1:
            if len(new) == n + 2:
                new = new[1:] if abs(err[new[0]]) < abs(err[new[-1]]) else new[:-1]
            else:
                k = min(range(len(new) - 1), key=lambda k: max(abs(err[new[k]]), abs(err[new[k + 1]])))
                new = new[:k] + new[k + 2:]
        worst = max(abs(e) for e in err)
        if len(new) < n + 1 or new == index or worst < abs(sol[n]) * mp.mpf('1.001'):
            break
        index = new
    return coef, worst


def round_to(value, bits):
    if value == 0:
        return value
    m, e = mp.frexp(value)
    return mp.ldexp(mp.nint(mp.ldexp(m, bits)), int(e) - bits)


def fit(f, degree, lo, hi, bits, a=lambda x: 0, b=lambda x: 1, u=lambda x: x, w=None, points=None):
    """Coefficients c0..c_degree in the format of `bits`, and the largest error with them in it."""
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    w = w or f
    xs = [x for x in chebyshev(lo, hi, points or 24 * (degree + 2)) if w(x) != 0 and b(x) != 0]
    fs = [f(x) for x in xs]
    scale = [b(x) / w(x) for x in xs]
    target = [(fs[i] - a(x)) / w(x) for i, x in enumerate(xs)]
    powers = [[scale[i] * u(x) ** k for k in range(degree + 1)] for i, x in enumerate(xs)]
    done, coef, first, best = [], None, None, None
    while len(done) <= degree:
        k = len(done)
        left = [t - mp.fsum(row[j] * done[j] for j in range(k)) for t, row in zip(target, powers)]
        try:
            again, worst = remez([row[k:] for row in powers], left)
        except ZeroDivisionError:
            worst = mp.inf
        first = first or worst
        if best is None or worst < 2 * best:  # else the exchange got lost: keep the fit before
            coef, best = again, worst
        done.append(round_to(coef.pop(0), bits))
    left = [t - mp.fsum(c * v for c, v in zip(done, row)) for t, row in zip(target, powers)]
    return done, first, max(abs(e) for e in left)


LN2, LN10 = mp.log(2), mp.log(10)
sqrt = mp.sqrt


def safe(f, series, small='1e-12'):
    """f with its series near 0, where the closed form cancels."""
    return lambda x: f(x) if abs(x) > mp.mpf(small) else series(x)


ROWS = {}


def row(name, bits, **kw):
    ROWS[name] = (bits, kw)


for bits, tag in ((24, 'f32'), (53, 'f64')):
    f32 = bits == 24
    # exp(r) = 1 + r + r^2 P(r) and expm1(r) = r + r^2 P(r), |r| <= ln2 / 2
    row(f'exp_{tag}', bits, f=mp.exp, a=lambda x: 1 + x, b=lambda x: x * x, degree=4 if f32 else 9,
        lo=-LN2 / 2 * mp.mpf('1.0005'), hi=LN2 / 2 * mp.mpf('1.0005'))
    row(f'expm1_{tag}', bits, f=mp.expm1, a=lambda x: x, b=lambda x: x * x, degree=5 if f32 else 10,
        lo=-LN2 / 2 * mp.mpf('1.0005'), hi=LN2 / 2 * mp.mpf('1.0005'))
    # 2^f = 1 + f P(f), |f| <= 1/2
    row(f'exp2_{tag}', bits, f=lambda x: mp.mpf(2) ** x, a=lambda x: 1, b=lambda x: x,
        degree=5 if f32 else 11, lo='-0.5', hi='0.5')
    if not f32:
        row('exp2_short_f64', bits, f=lambda x: mp.mpf(2) ** x, a=lambda x: 1, b=lambda x: x, degree=9, lo='-0.5',
            hi='0.5')
    # log(1 + f) = f - f^2/2 + f^3 P(f)
    row(f'log_{tag}', bits, f=mp.log1p, a=lambda x: x - x * x / 2, b=lambda x: x ** 3, degree=7 if f32 else 18,
        lo=mp.mpf(2) / 3 - 1, hi=mp.mpf(1) / 3)
    row(f'log1p_{tag}', bits, f=mp.log1p, a=lambda x: x - x * x / 2, b=lambda x: x ** 3, degree=7 if f32 else 19,
        lo='-0.25', hi='0.5')
    if f32:  # the same for powers, whose exponents an error of the logarithm is multiplied by
        row('pow_log_pair_f32', bits, f=mp.log1p, a=lambda x: x - x * x / 2, b=lambda x: x ** 3, degree=8,
            lo=mp.mpf(2) / 3 - 1, hi=mp.mpf(1) / 3)
    # log2(1 + f) = f log2(e) + f^2 P(f)
    row(f'log2_{tag}', bits, f=lambda x: mp.log1p(x) / LN2, a=lambda x: x / LN2, b=lambda x: x * x,
        degree=9 if f32 else 19, lo=mp.mpf(2) / 3 - 1, hi=mp.mpf(1) / 3)
    # log10(1 + f) = (f - f^2/2) log10(e) + f^3 P(f) of f32, f log10(e) + f^2 P(f) of f64
    if f32:
        row('log10_f32', bits, f=lambda x: mp.log1p(x) / LN10, a=lambda x: (x - x * x / 2) / LN10, b=lambda x: x ** 3,
            degree=7, lo=mp.mpf(2) / 3 - 1, hi=mp.mpf(1) / 3)
    else:
        row('log10_f64', bits, f=lambda x: mp.log1p(x) / LN10, a=lambda x: x / LN10, b=lambda x: x * x, degree=19,
            lo=mp.mpf(2) / 3 - 1, hi=mp.mpf(1) / 3)
    # log2((1 + s) / (1 - s)) = s (c0 + c1 z + c2 z^2 + z^3 P(z)), z = s^2, with the first three known exactly
    if not f32:
        row('pow_log_f64', bits, f=lambda x: 2 * mp.atanh(x) / LN2,
            a=lambda x: 2 * x / LN2 * (1 + x * x / 3 + x ** 4 / 5), b=lambda x: x ** 7, u=lambda x: x * x, degree=7,
            lo='1e-3', hi='0.2001')
        # log2(1 + f) = f P(f) for f32 powers, in double
        row('pow_log_f32', bits, f=lambda x: mp.log1p(x) / LN2, b=lambda x: x, degree=12, lo=mp.mpf(2) / 3 - 1,
            hi=mp.mpf(1) / 3)
    # odd functions: x + x^3 P(x^2)
    odd = dict(a=lambda x: x, b=lambda x: x ** 3, u=lambda x: x * x)
    if f32:  # over half a turn, and a little more for what the reduction leaves
        row('sin_f32', bits, f=mp.sin, degree=4, lo='1e-6', hi='1.75', **odd)
        row('sin_near_f32', bits, f=mp.sin, degree=3, lo='1e-6', hi='1.58', **odd)
    else:
        row('sin_near_f64', bits, f=mp.sin, degree=7, lo='1e-6', hi='1.5709', **odd)
        row('sinq_f64', bits, f=mp.sin, degree=5, lo='1e-6', hi=mp.pi / 4 * mp.mpf('1.0001'), **odd)
        row('cosq_f64', bits, f=mp.cos, a=lambda x: 1 - x * x / 2, b=lambda x: x ** 4, u=lambda x: x * x, degree=5,
            lo='1e-6', hi=mp.pi / 4 * mp.mpf('1.0001'))
    row(f'tan_{tag}', bits, f=mp.tan, degree=6 if f32 else 14, lo='1e-6', hi=mp.pi / 4 * mp.mpf('1.0001'), **odd)
    row(f'asin_{tag}', bits, f=mp.asin, degree=4 if f32 else 12, lo='1e-6', hi='0.5000001', **odd)
    row(f'atan_{tag}', bits, f=mp.atan, degree=7 if f32 else 19, lo='1e-6', hi='1', **odd)
    row(f'sinh_{tag}', bits, f=mp.sinh, degree=3 if f32 else 7, lo='1e-6', hi='1', **odd)
    if not f32:
        row('tanh_f64', bits, f=mp.tanh, degree=10, lo='1e-6', hi='0.56', **odd)
    if f32:
        # 1 / x as a first guess
        row('inverse_f32', bits, f=lambda x: 1 / x, degree=2, lo='0.5', hi='1')
        # -ln(erfc(x)) = x + x P(x), where an error counts by erfc and against erf; expm1 that is small only below 0
        row('erf_log_f32', bits, f=lambda x: -mp.log(mp.erfc(x)), a=lambda x: x, b=lambda x: x,
            w=lambda x: mp.erf(x) / mp.erfc(x), degree=8, lo='1e-6', hi='3.92')
        row('expm1_down_f32', bits, f=mp.expm1, a=lambda x: x, b=lambda x: x * x,
            w=lambda x: mp.expm1(x) if x < 0 else mp.mpf('0.5'), degree=4, lo=-LN2 / 2 * mp.mpf('1.0005'),
            hi=LN2 / 2 * mp.mpf('1.0005'), points=300)
    else:
        # erf near 0 as x + x P(x^2); -log2(erfc) beyond, where an error counts by erfc
        row('erf_small_f64', bits, f=mp.erf, a=lambda x: x, b=lambda x: x, u=lambda x: x * x, degree=14, lo='1e-6',
            hi='1.0')
        row('erf_large_f64', bits, f=lambda x: -mp.log(mp.erfc(x)) / LN2, w=lambda x: 1 / mp.erfc(x), degree=17,
            lo='0.99', hi='5.95')

# What is rounded to a half: f32 coefficients, few of them.
half_range = mp.mpf('0.5005')
for half, exp_degree, logistic_degree in (('f16', 4, 6), ('bf16', 3, 5)):
    # 2^f, |f| <= 1/2, and 1 / (1 + e)
    row(f'exp2_{half}', 24, f=lambda x: mp.mpf(2) ** x, degree=exp_degree, lo=-half_range, hi=half_range)
    row(f'logistic_{half}', 24, f=lambda x: 1 / (1 + x), degree=logistic_degree, lo='0', hi='1')
    # tanh(x) = x P(x - center); erf(x) = x (2 / sqrt(pi) + x^2 P(x^2))
    center = mp.mpf('2.265625') if half == 'f16' else 0
    row(f'tanh_{half}', 24, f=mp.tanh, b=lambda x: x, u=lambda x, center=center: x - center,
        degree=12 if half == 'f16' else 8, lo='1e-6', hi='4.53125' if half == 'f16' else '3.5', points=800)
    row(f'erf_{half}', 24, f=mp.erf, a=lambda x: 2 / sqrt(mp.pi) * x, b=lambda x: x ** 3, u=lambda x: x * x,
        degree=7 if half == 'f16' else 4, lo='1e-6', hi='2.625' if half == 'f16' else '2.21875')

if __name__ == '__main__':
    out = open('coefficients.h', 'w') if len(sys.argv) == 1 else None
    if out:
        out.write('#pragma once\n/// Made by fit.py: coefficients from the lowest degree on.\n\nnamespace lz::ir::math {\n\n')
    for name, (bits, kw) in ROWS.items():
        if len(sys.argv) > 1 and not any(name.startswith(p) for p in sys.argv[1:]):
            continue
        coef, best, worst = fit(bits=bits, **kw)
        text = ', '.join(float(c).hex() for c in coef)
        print(f'{name}: 2^{float(mp.log(best, 2)):.1f} before rounding, 2^{float(mp.log(worst, 2)):.1f} with it', flush=True)
        if out:
            camel = ''.join(p.capitalize() for p in name.split('_'))
            out.write(f'inline constexpr double k{camel}[] = {{{text}}}; // error 2^{float(mp.log(worst, 2)):.1f}\n')
        else:
            print('    {' + text + '}')
    if out:
        out.write('\n} // namespace lz::ir::math\n')
