#pragma once
/// Special functions that the standard library does not have, or not everywhere.

#include <cmath>
#include <numbers>

namespace lz::test::calls {

inline long double log_gamma(long double x) {
    return std::isinf(x) ? INFINITY : std::lgamma(x);
}
/// By the recurrence up to 20, and the asymptotic series from there on.
inline long double digamma(long double x) {
    if (x == 0)
        return std::copysign(static_cast<long double>(INFINITY), -x);
    if (x < 0) {
        const long double part = x - std::trunc(x);
        if (part == 0 || std::isinf(x))
            return NAN;
        const long double pi = std::numbers::pi_v<long double>;
        return digamma(1 - x) - pi / std::tan(pi * part);
    }
    long double sum = 0;
    for (; x < 20; x += 1)
        sum -= 1 / x;
    const long double z = 1 / (x * x);
    return sum + std::log(x) - 0.5L / x -
           z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z / 132.0L))));
}
inline double log_gamma(double x) {
    return static_cast<double>(log_gamma(static_cast<long double>(x)));
}
inline double digamma(double x) {
    return static_cast<double>(digamma(static_cast<long double>(x)));
}
/// The sizes of what both are summed up of.
inline double terms_of(double x) {
    const double a = std::fabs(x), part = a - std::floor(a),
                 sine = std::fabs(std::sin(std::numbers::pi * part));
    const double logs = std::fabs(std::log(a)) + std::fabs(log_gamma(a)) + 4;
    return x < 0 ? logs + std::fabs(std::log(sine)) + std::numbers::pi / sine : logs + 1 / a;
}

} // namespace lz::test::calls
