#pragma once
/// Arithmetic of PTX on one lane's values.

#include "tests/support/cuda/ptx/floats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace lz::ptx {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class T>
T add(T a, T b) {
    if constexpr (std::integral<T>)
        return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
    else
        return canonical(a + b);
}
template <class T>
T sub(T a, T b) {
    if constexpr (std::integral<T>)
        return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
    else
        return canonical(a - b);
}
template <class T>
T mul_lo(T a, T b) {
    if constexpr (std::integral<T>)
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
        return canonical(a * b);
}
template <class T>
T mul_hi(T a, T b) {
    using Wide = std::conditional_t<std::signed_integral<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (sizeof(T) * 8));
}
/// Division by zero gives what the hardware gives, all ones, and the operand as the remainder.
template <class T>
T div(T a, T b) {
    if constexpr (std::integral<T>) {
        if (b == 0)
            return static_cast<T>(~Unsigned<T>{0});
        if constexpr (std::signed_integral<T>)
            if (b == -1)
                return sub(T{0}, a);
        return static_cast<T>(a / b);
    } else {
        return canonical(a / b);
    }
}
template <class T>
T rem(T a, T b) {
    if (b == 0)
        return a;
    if constexpr (std::signed_integral<T>)
        if (b == -1)
            return 0;
    return static_cast<T>(a % b);
}
/// Of floats: a number before what is none, and -0 below +0.
template <class T>
T min(T a, T b) {
    if constexpr (std::floating_point<T>) {
        if (a != a || b != b)
            return canonical(a != a ? b : a);
        if (a == b)
            return std::signbit(a) ? a : b;
    }
    return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
    if constexpr (std::floating_point<T>) {
        if (a != a || b != b)
            return canonical(a != a ? b : a);
        if (a == b)
            return std::signbit(a) ? b : a;
    }
    return a < b ? b : a;
}
template <class T>
T min_nan(T a, T b) {
    return a != a || b != b ? canonical(a + b) : min(a, b);
}
template <class T>
T max_nan(T a, T b) {
    return a != a || b != b ? canonical(a + b) : max(a, b);
}
template <class T>
T bit_and(T a, T b) {
    return static_cast<T>(a & b);
}
template <class T>
T bit_or(T a, T b) {
    return static_cast<T>(a | b);
}
template <class T>
T bit_xor(T a, T b) {
    return static_cast<T>(a ^ b);
}
template <class T>
T bit_not(T a) {
    return static_cast<T>(~a);
}
template <class T>
T shl(T a, uint32_t n) {
    return n >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << n);
}
template <class T>
T shr(T a, uint32_t n) {
    constexpr uint32_t bits = sizeof(T) * 8;
    if constexpr (std::signed_integral<T>)
        return static_cast<T>(a >> std::min(n, bits - 1));
    else
        return n >= bits ? T{0} : static_cast<T>(a >> n);
}
template <class T>
T abs_of(T a) {
    if constexpr (std::integral<T>)
        return a < 0 ? sub(T{0}, a) : a;
    else
        return std::fabs(a);
}
template <class T>
T neg(T a) {
    if constexpr (std::integral<T>)
        return sub(T{0}, a);
    else
        return -a;
}
template <class T>
T sqrt_of(T a) {
    return canonical(std::sqrt(a));
}
template <class T>
T rcp(T a) {
    return canonical(T{1} / a);
}
template <class T>
uint32_t popc(T a) {
    return static_cast<uint32_t>(std::popcount(a));
}
template <class T>
uint32_t clz(T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
}
template <class T>
T brev(T a) {
    T r = 0;
    for (size_t i = 0; i < sizeof(T) * 8; ++i)
        r = static_cast<T>(r << 1 | (a >> i & 1));
    return r;
}
/// The highest bit that is set (of a negative number: that is not); all ones if there is none.
template <class T>
uint32_t bfind(T a) {
    Unsigned<T> u = static_cast<Unsigned<T>>(a);
    if constexpr (std::signed_integral<T>)
        if (a < 0)
            u = static_cast<Unsigned<T>>(~u);
    return u == 0 ? ~0u
                  : static_cast<uint32_t>(sizeof(T) * 8 - 1) - static_cast<uint32_t>(std::countl_zero(u));
}
template <class T>
T identity(T a) {
    return a;
}
template <class T>
T fma_of(T a, T b, T c) {
    return canonical(std::fma(a, b, c));
}
template <class T>
T mad_lo(T a, T b, T c) {
    return add(mul_lo(a, b), c);
}
template <class T>
T mad_hi(T a, T b, T c) {
    return add(mul_hi(a, b), c);
}
template <class T>
T bfe(T a, uint32_t pos, uint32_t len) {
    constexpr uint32_t bits = sizeof(T) * 8;
    pos &= 255;
    len &= 255;
    if (len == 0)
        return 0;
    const uint64_t u = static_cast<uint64_t>(static_cast<Unsigned<T>>(a));
    const uint64_t fill =
        std::signed_integral<T> && (u >> std::min(pos + len - 1, bits - 1) & 1) ? ~uint64_t{0} : 0;
    const uint64_t field = pos >= bits ? fill : u >> pos;
    const uint64_t mask = len >= 64 ? ~uint64_t{0} : (uint64_t{1} << len) - 1;
    // Bits beyond the operand are its sign, too.
    const uint64_t beyond = pos >= bits || bits - pos >= 64 ? 0 : ~uint64_t{0} << (bits - pos);
    return static_cast<T>((((field & ~beyond) | (fill & beyond)) & mask) | (fill & ~mask));
}
template <class T>
T bfi(T field, T into, uint32_t pos, uint32_t len) {
    pos &= 255;
    len &= 255;
    const uint64_t ones = len >= 64 ? ~uint64_t{0} : (uint64_t{1} << len) - 1;
    const uint64_t mask = pos >= 64 ? 0 : ones << pos;
    const uint64_t shifted = pos >= 64 ? 0 : static_cast<uint64_t>(field) << pos;
    return static_cast<T>((static_cast<uint64_t>(into) & ~mask) | (shifted & mask));
}
inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t r = 0;
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t which = selector >> (4 * i) & 15;
        uint32_t byte = static_cast<uint32_t>(bytes >> ((which & 7) * 8)) & 255;
        if (which & 8)
            byte = byte & 128 ? 255 : 0;
        r |= byte << (8 * i);
    }
    return r;
}
inline uint32_t shf_left(uint32_t a, uint32_t b, uint32_t n) { // n <= 32
    return n == 0 ? b : n == 32 ? a : b << n | a >> (32 - n);
}
inline uint32_t shf_right(uint32_t a, uint32_t b, uint32_t n) {
    return n == 0 ? a : n == 32 ? b : b << (32 - n) | a >> n;
}
inline uint32_t shf_left_wrap(uint32_t a, uint32_t b, uint32_t n) {
    return shf_left(a, b, n & 31);
}
inline uint32_t shf_right_wrap(uint32_t a, uint32_t b, uint32_t n) {
    return shf_right(a, b, n & 31);
}
inline uint32_t shf_left_clamp(uint32_t a, uint32_t b, uint32_t n) {
    return shf_left(a, b, std::min(n, 32u));
}
inline uint32_t shf_right_clamp(uint32_t a, uint32_t b, uint32_t n) {
    return shf_right(a, b, std::min(n, 32u));
}
/// PTX gives the sign of the first operand to the second.
template <class T>
T copy_sign(T sign, T magnitude) {
    return std::copysign(magnitude, sign);
}

} // namespace lz::ptx
