#pragma once
/// Arithmetic of single numbers: integers wrap, and quotients round as PyTorch's.

#include <cmath>
#include <cstdint>

namespace lz::test::calls {

inline int64_t plus(int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
}
inline int64_t minus(int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
}
inline int64_t times(int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
}
/// Rounds down, as Python's //.
inline int64_t quotient(int64_t x, int64_t y) {
    if (y == -1)
        return minus(0, x);
    return x / y - (x % y != 0 && (x % y < 0) != (y < 0));
}
inline int64_t modulo(int64_t x, int64_t y) {
    if (y == -1)
        return 0;
    const int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
inline int64_t left(int64_t x, int64_t y, int bits) {
    return y < 0 || y >= bits ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) << y);
}
inline int64_t right(int64_t x, int64_t y, int bits) {
    return x >> (y < 0 || y >= bits ? 63 : y);
}
inline int64_t power(int64_t x, int64_t y) {
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
    int64_t r = 1;
    for (; y > 0; y >>= 1, x = times(x, x))
        if (y & 1)
            r = times(r, x);
    return r;
}
template <class T>
T modulo(T x, T y) {
    const T r = std::fmod(x, y);
    return r != 0 && (y < 0) != (r < 0) ? r + y : r;
}
/// torch.floor_divide (c10/util/generic_math.h).
template <class T>
T quotient(T x, T y) {
    if (y == 0)
        return x / y;
    const T r = std::fmod(x, y);
    T q = (x - r) / y;
    if (r != 0 && (y < 0) != (r < 0))
        q -= 1;
    if (q == 0)
        return std::copysign(T(0), x / y);
    const T down = std::floor(q);
    return q - down > T(0.5) ? down + 1 : down;
}
/// Of two zeros the second, as torch.minimum on the CPU.
template <class T>
T least(T x, T y) {
    return std::isnan(x) || std::isnan(y) ? NAN : x < y ? x : y;
}
template <class T>
T greatest(T x, T y) {
    return std::isnan(x) || std::isnan(y) ? NAN : x > y ? x : y;
}

} // namespace lz::test::calls
