#pragma once
/// What the reference columns of elementwise.def are written with: the corner cases of S66 on doubles and on
/// 64-bit integers, and Philox. Integer results are wrapped to their dtype by the caller.

#include "ir/diagnostic.h"
#include "ir/types/dtype.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lz::ir::ref {

/// The column of a row whose rule admits no such operands.
[[noreturn]] inline int64_t never() {
    internal_failure(__FILE__, __LINE__,
                     "an elementwise row was evaluated for a dtype that its rule excludes");
}

inline int64_t wrap_add(int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
}
inline int64_t wrap_sub(int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
}
inline int64_t wrap_mul(int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
}
inline int64_t wrap_abs(int64_t x) {
    return x < 0 ? wrap_sub(0, x) : x;
}

inline void check_divisor(int64_t y) {
    if (y == 0)
        throw Failure(ErrorKind::State, "an integer was divided by zero");
}
/// Toward zero; the one quotient that overflows wraps.
inline int64_t div_trunc(int64_t x, int64_t y) {
    check_divisor(y);
    return y == -1 ? wrap_sub(0, x) : x / y;
}
/// Of the sign of x.
inline int64_t rem_trunc(int64_t x, int64_t y) {
    check_divisor(y);
    return y == -1 ? 0 : x % y;
}
inline int64_t floor_div(int64_t x, int64_t y) {
    const int64_t q = div_trunc(x, y);
    return rem_trunc(x, y) != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}
/// Of the sign of y.
inline int64_t remainder(int64_t x, int64_t y) {
    const int64_t r = rem_trunc(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

inline double remainder(double x, double y) {
    const double r = std::fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
/// As torch.floor_divide: the quotient of x less its remainder, so that the rounding of x / y crosses no
/// integer.
inline double floor_div(double x, double y) {
    if (y == 0)
        return x / y;
    const double r = std::fmod(x, y);
    double q = (x - r) / y;
    if (r != 0 && (r < 0) != (y < 0))
        q -= 1;
    if (q == 0)
        return std::copysign(0.0, x / y);
    const double down = std::floor(q);
    return q - down > 0.5 ? down + 1 : down;
}

/// Wraps; a negative exponent gives the integer part of the power.
inline int64_t int_pow(int64_t x, int64_t y) {
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
    int64_t power = 1;
    for (; y > 0; y /= 2, x = wrap_mul(x, x))
        if (y % 2 == 1)
            power = wrap_mul(power, x);
    return power;
}

/// Of IEEE 754-2019: NaN if either is, and -0 is less than +0.
inline double minimum(double x, double y) {
    if (std::isnan(x) || std::isnan(y))
        return std::numeric_limits<double>::quiet_NaN();
    return x < y || (x == y && std::signbit(x)) ? x : y;
}
inline double maximum(double x, double y) {
    if (std::isnan(x) || std::isnan(y))
        return std::numeric_limits<double>::quiet_NaN();
    return x > y || (x == y && std::signbit(y)) ? x : y;
}
/// 0 for NaN, as torch.sign.
inline double sign(double x) {
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}
inline int64_t sign(int64_t x) {
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

inline int64_t bit_not(int64_t x, DType dtype) {
    return dtype == DType::Bool ? !x : ~x;
}
/// An amount past the width, which a negative one is as an unsigned number, shifts everything out.
inline int64_t shl(int64_t x, int64_t y, DType dtype) {
    const bool past = y < 0 || y >= 8 * size_of(dtype);
    return past ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) << y);
}
inline int64_t shr(int64_t x, int64_t y, DType dtype) {
    const bool past = y < 0 || y >= 8 * size_of(dtype);
    return x >> (past ? 63 : y); // operands of u8 are never negative, so this is 0 or the sign
}

using PhiloxBlock = std::array<uint32_t, 4>;

/// Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011,
/// section 3.3.
inline PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
        const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
        counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
                   static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
        key[0] += 0x9E3779B9; // the golden ratio
        key[1] += 0xBB67AE85; // sqrt(3) - 1
    }
    return counter;
}

/// Word `index % 4` of the block at counter `offset + index / 4`: element `index` of the op `philox`.
inline uint32_t philox_word(uint64_t seed, uint64_t offset, uint64_t index) {
    const uint64_t counter = offset + index / 4;
    const auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
    return philox4x32_10({low(counter), low(counter >> 32), 0, 0}, {low(seed), low(seed >> 32)})[index % 4];
}

} // namespace lz::ir::ref
