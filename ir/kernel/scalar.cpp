#include "ir/kernel/scalar.h"

#include "ir/diagnostic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

namespace lz::ir {

namespace {

template <class T>
using BitsOf = std::conditional_t<
    sizeof(T) == 8, uint64_t,
    std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;

template <class T>
T from_bits(uint64_t bits) {
    if constexpr (std::is_same_v<T, bool>)
        return bits != 0;
    else
        return std::bit_cast<T>(static_cast<BitsOf<T>>(bits));
}
template <class T>
uint64_t to_bits(T value) {
    if constexpr (std::is_same_v<T, bool>)
        return value;
    else
        return std::bit_cast<BitsOf<T>>(value);
}

/// Half types in memory; distinct types so that conversions can be told apart.
struct Half {
    uint16_t bits;
};
struct BFloat {
    uint16_t bits;
};

/// Calls f with a value of the C++ type of a dtype.
template <class F>
void dispatch(DType dtype, F f) {
    switch (dtype) {
    case DType::Bool:
        f(bool{});
        break;
    case DType::U8:
        f(uint8_t{});
        break;
    case DType::I8:
        f(int8_t{});
        break;
    case DType::I16:
        f(int16_t{});
        break;
    case DType::I32:
        f(int32_t{});
        break;
    case DType::I64:
        f(int64_t{});
        break;
    case DType::F16:
        f(Half{});
        break;
    case DType::BF16:
        f(BFloat{});
        break;
    case DType::F32:
        f(float{});
        break;
    case DType::F64:
        f(double{});
        break;
    }
}

struct Lanes {
    const uint64_t *x, *y, *z;
    uint64_t *out;
    int count;

    template <class T, class F>
    void unary(F f) const {
        for (int i = 0; i < count; ++i)
            out[i] = to_bits(static_cast<T>(f(from_bits<T>(x[i]))));
    }
    template <class T, class F>
    void binary(F f) const {
        for (int i = 0; i < count; ++i)
            out[i] = to_bits(static_cast<T>(f(from_bits<T>(x[i]), from_bits<T>(y[i]))));
    }
    template <class T, class F>
    void ternary(F f) const {
        for (int i = 0; i < count; ++i)
            out[i] = to_bits(static_cast<T>(f(from_bits<T>(x[i]), from_bits<T>(y[i]), from_bits<T>(z[i]))));
    }
    template <class T, class F>
    void compare(F f) const {
        for (int i = 0; i < count; ++i)
            out[i] = f(from_bits<T>(x[i]), from_bits<T>(y[i]));
    }
};

[[noreturn]] void not_defined(KOp op, DType dtype) {
    internal_failure(__FILE__, __LINE__,
                     std::string(info(op).name) + " is not defined on " + std::string(name(dtype)));
}

/// NaN if either is, and -0 is less than +0 (IEEE 754-2019), so that an order of folding cannot be seen.
template <std::floating_point T>
T minimum(T x, T y) {
    if (std::isnan(x) || std::isnan(y))
        return std::numeric_limits<T>::quiet_NaN();
    return x < y || (x == y && std::signbit(x)) ? x : y;
}
template <std::floating_point T>
T maximum(T x, T y) {
    if (std::isnan(x) || std::isnan(y))
        return std::numeric_limits<T>::quiet_NaN();
    return x > y || (x == y && std::signbit(y)) ? x : y;
}

template <std::floating_point T>
void arith_float(KOp op, const Lanes &l, DType dtype) {
    switch (op) {
    case KOp::Add:
        return l.binary<T>([](T x, T y) { return x + y; });
    case KOp::Sub:
        return l.binary<T>([](T x, T y) { return x - y; });
    case KOp::Mul:
        return l.binary<T>([](T x, T y) { return x * y; });
    case KOp::Div:
        return l.binary<T>([](T x, T y) { return x / y; });
    case KOp::Fma:
        return l.ternary<T>([](T x, T y, T z) { return std::fma(x, y, z); });
    case KOp::Neg:
        return l.unary<T>([](T x) { return -x; });
    case KOp::Abs:
        return l.unary<T>([](T x) { return std::fabs(x); });
    case KOp::Minimum:
        return l.binary<T>([](T x, T y) { return minimum(x, y); });
    case KOp::Maximum:
        return l.binary<T>([](T x, T y) { return maximum(x, y); });
    case KOp::Sqrt:
        return l.unary<T>([](T x) { return std::sqrt(x); });
    case KOp::Floor:
        return l.unary<T>([](T x) { return std::floor(x); });
    case KOp::Ceil:
        return l.unary<T>([](T x) { return std::ceil(x); });
    case KOp::Trunc:
        return l.unary<T>([](T x) { return std::trunc(x); });
    case KOp::Rint:
        return l.unary<T>([](T x) { return std::nearbyint(x); });
    case KOp::Scalb:
        return l.binary<T>([](T x, T y) {
            return std::isnan(x) || std::isnan(y)
                       ? std::numeric_limits<T>::quiet_NaN()
                       : std::ldexp(x, static_cast<int>(std::clamp(y, T(-2000), T(2000))));
        });
    default:
        not_defined(op, dtype);
    }
}

/// Wrapping integer arithmetic; in uint64_t, so that nothing overflows as signed.
template <std::integral T>
void arith_int(KOp op, const Lanes &l, DType dtype) {
    using U = uint64_t;
    constexpr int kBits = static_cast<int>(8 * sizeof(T));
    const auto u = [](T v) { return static_cast<U>(v); };
    const auto logical = [](T v) { return static_cast<U>(static_cast<std::make_unsigned_t<T>>(v)); };
    const auto past = [logical](T amount) { return logical(amount) >= static_cast<U>(kBits); };
    switch (op) {
    case KOp::Add:
        return l.binary<T>([=](T x, T y) { return u(x) + u(y); });
    case KOp::Sub:
        return l.binary<T>([=](T x, T y) { return u(x) - u(y); });
    case KOp::Mul:
        return l.binary<T>([=](T x, T y) { return u(x) * u(y); });
    case KOp::Div:
        return l.binary<T>([=](T x, T y) {
            return y == 0 ? T{} : std::is_signed_v<T> && y == T(-1) ? T(U{0} - u(x)) : T(x / y);
        });
    case KOp::Rem:
        return l.binary<T>(
            [=](T x, T y) { return y == 0 || (std::is_signed_v<T> && y == T(-1)) ? T{} : T(x % y); });
    case KOp::Neg:
        return l.unary<T>([=](T x) { return U{0} - u(x); });
    case KOp::Abs:
        return l.unary<T>([=](T x) { return x < T{} ? U{0} - u(x) : u(x); });
    case KOp::Minimum:
        return l.binary<T>([](T x, T y) { return x < y ? x : y; });
    case KOp::Maximum:
        return l.binary<T>([](T x, T y) { return x > y ? x : y; });
    case KOp::And:
        return l.binary<T>([](T x, T y) { return x & y; });
    case KOp::Or:
        return l.binary<T>([](T x, T y) { return x | y; });
    case KOp::Xor:
        return l.binary<T>([](T x, T y) { return x ^ y; });
    case KOp::Not:
        return l.unary<T>([](T x) { return ~x; });
    case KOp::Shl:
        return l.binary<T>([=](T x, T y) { return past(y) ? U{0} : u(x) << logical(y); });
    case KOp::Shr:
        return l.binary<T>([=](T x, T y) { return past(y) ? T(x < T{} ? -1 : 0) : T(x >> y); });
    case KOp::LShr:
        return l.binary<T>([=](T x, T y) { return past(y) ? U{0} : logical(x) >> logical(y); });
    case KOp::MulHiU:
        if constexpr (sizeof(T) == 4)
            return l.binary<T>([=](T x, T y) { return (logical(x) * logical(y)) >> 32; });
        not_defined(op, dtype);
    case KOp::IntPow:
        return l.binary<T>([=](T x, T y) {
            if (std::is_signed_v<T> && y < T{})
                return x == T(1) ? U{1} : x == T(-1) ? (y & 1 ? ~U{0} : U{1}) : U{0};
            U result = 1, base = u(x);
            for (U n = logical(y); n != 0; n >>= 1, base *= base)
                result *= n & 1 ? base : 1;
            return result;
        });
    default:
        not_defined(op, dtype);
    }
}

void arith_bool(KOp op, const Lanes &l) {
    switch (op) {
    case KOp::And:
        return l.binary<bool>([](bool x, bool y) { return x && y; });
    case KOp::Or:
        return l.binary<bool>([](bool x, bool y) { return x || y; });
    case KOp::Xor:
        return l.binary<bool>([](bool x, bool y) { return x != y; });
    case KOp::Not:
        return l.unary<bool>([](bool x) { return !x; });
    default:
        not_defined(op, DType::Bool);
    }
}

template <class T>
void compare(KOp op, const Lanes &l) {
    switch (op) {
    case KOp::Eq:
        return l.compare<T>([](T x, T y) { return x == y; });
    case KOp::Ne:
        return l.compare<T>([](T x, T y) { return x != y; });
    case KOp::Lt:
        return l.compare<T>([](T x, T y) { return x < y; });
    case KOp::Le:
        return l.compare<T>([](T x, T y) { return x <= y; });
    case KOp::Gt:
        return l.compare<T>([](T x, T y) { return x > y; });
    default:
        return l.compare<T>([](T x, T y) { return x >= y; });
    }
}

/// Saturating, NaN to 0.
template <std::integral To>
To float_to_int(double v) {
    if (std::isnan(v))
        return 0;
    const double t = std::trunc(v);
    // The upper bound is a power of two and exact, max() itself may not be.
    if (t >= std::ldexp(1.0, std::numeric_limits<To>::digits))
        return std::numeric_limits<To>::max();
    if (t <= static_cast<double>(std::numeric_limits<To>::min()))
        return std::numeric_limits<To>::min();
    return static_cast<To>(t);
}

template <class From>
auto widen(From v) {
    if constexpr (std::is_same_v<From, Half>)
        return half_to_float(v.bits);
    else if constexpr (std::is_same_v<From, BFloat>)
        return bfloat_to_float(v.bits);
    else
        return v;
}

template <class To, class From>
To convert(From v) {
    const auto w = widen(v);
    using W = std::remove_const_t<decltype(w)>;
    if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat>) {
        const auto f = static_cast<float>(w);
        return To{std::is_same_v<To, Half> ? float_to_half(f) : float_to_bfloat(f)};
    } else if constexpr (std::is_same_v<To, bool>) {
        return w != W{};
    } else if constexpr (std::floating_point<W> && std::integral<To>) {
        return float_to_int<To>(static_cast<double>(w));
    } else {
        return static_cast<To>(w);
    }
}

void cast(const Lanes &l, DType to, DType from) {
    dispatch(from, [&]<class From>(From) {
        dispatch(to, [&]<class To>(To) {
            for (int i = 0; i < l.count; ++i)
                l.out[i] = to_bits(convert<To>(from_bits<From>(l.x[i])));
        });
    });
}

double libm(KOp op, double x, double y) {
    switch (op) {
#define LZ_MATH1(E, f, cost, reference)                                                                      \
    case KOp::E:                                                                                             \
        return reference;
#define LZ_MATH2(E, f, cost, reference) LZ_MATH1(E, f, cost, reference)
#include "ir/math/math.def"
#define LZ_MATH_HALF(E, f, function, half)                                                                   \
    case KOp::E:                                                                                             \
        return libm(KOp::function, x, y);
#include "ir/math/halves.def"
    case KOp::Pow:
        return std::pow(x, y);
    case KOp::Fmod:
        return std::fmod(x, y);
    default:
        not_defined(op, DType::F64);
    }
}

/// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
uint32_t philox(uint64_t counter, uint32_t word, uint64_t seed) {
    uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
    uint32_t k[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
        const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
                                  static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
        std::copy(next, next + 4, c);
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
    return c[word & 3];
}

} // namespace

void evaluate_lanes(KOp op, DType dtype, DType from, const uint64_t *x, const uint64_t *y, const uint64_t *z,
                    uint64_t *out, int lanes) {
    const Lanes l{x, y, z, out, lanes};
    if (is_choice(op)) {
        for (int i = 0; i < lanes; ++i)
            out[i] = x[i] != 0 ? y[i] : z[i];
    } else if (op == KOp::Bitcast) {
        std::copy(x, x + lanes, out);
    } else if (op == KOp::Cast) {
        cast(l, dtype, from);
    } else if (op == KOp::Philox) {
        for (int i = 0; i < lanes; ++i)
            out[i] = philox(x[i], static_cast<uint32_t>(y[i]), z[i]);
    } else if (info(op).cls == KOpClass::Compare) {
        dispatch(from, [&]<class T>(T) {
            if constexpr (std::is_arithmetic_v<T>)
                compare<T>(op, l);
            else
                not_defined(op, from);
        });
    } else {
        const bool math = info(op).cls == KOpClass::Math;
        dispatch(dtype, [&]<class T>(T) {
            if constexpr (std::is_same_v<T, bool>)
                arith_bool(op, l);
            else if constexpr (std::integral<T>)
                arith_int<T>(op, l, dtype);
            else if constexpr (!std::floating_point<T>)
                not_defined(op, dtype);
            else if (math && info(op).operands == 1)
                l.unary<T>([op](T v) { return libm(op, v, 0); });
            else if (math)
                l.binary<T>([op](T v, T w) { return libm(op, v, w); });
            else
                arith_float<T>(op, l, dtype);
        });
    }
}

} // namespace lz::ir
