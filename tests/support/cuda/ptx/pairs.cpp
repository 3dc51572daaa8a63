// Instructions that do two halves at a time.
#include "tests/support/cuda/ptx/arithmetic.h"
#include "tests/support/cuda/ptx/floats.h"
#include "tests/support/cuda/ptx/warp.h"

#include <bit>
#include <cmath>
#include <utility>

namespace lz::ptx {
namespace {

template <Type T>
float widened(uint32_t half) {
    return T == Type::BF16x2 ? std::bit_cast<float>(half << 16)
                             : static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(half)));
}
/// Of a number that is exact, or that was rounded to odd.
template <Type T>
uint32_t narrowed(double x) {
    if (x != x)
        return 0x7fff;
    return T == Type::BF16x2 ? to_bf16(to_odd(static_cast<long double>(x))) : to_f16(x);
}

/// a * b + c, rounded to odd: the product is exact.
double fma_to_odd(float a, float b, float c) {
    const double p = static_cast<double>(a) * static_cast<double>(b), s = p + static_cast<double>(c);
    if (!std::isfinite(s))
        return s;
    const double back = s - p, left = (p - (s - back)) + (static_cast<double>(c) - back);
    if (left == 0)
        return s;
    const double toward_zero = (left > 0) == (s > 0) ? s : std::nextafter(s, 0.0);
    return std::bit_cast<double>(std::bit_cast<uint64_t>(toward_zero) | 1);
}
/// NaN if either is; -0 below +0.
float extreme(float a, float b, bool largest) {
    if (a != a || b != b)
        return std::bit_cast<float>(0x7fffffffu);
    if (a == b)
        return std::signbit(a) == largest ? b : a;
    return (a < b) == largest ? b : a;
}

template <Type T, Arith op>
void pairs(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    uint32_t *const d = w.lanes<uint32_t>(x.dst[0]);
    const auto source = [&](size_t s, uint32_t lane) { return w.lanes<uint32_t>(x.src[s])[lane]; };
    for_lanes(mask, [&](uint32_t i) {
        uint32_t both = 0;
        for (const uint32_t shift : {0u, 16u}) {
            const auto half = [&](size_t s) { return widened<T>(source(s, i) >> shift & 0xffff); };
            uint32_t result = 0;
            if constexpr (op == Arith::Fma)
                result = narrowed<T>(fma_to_odd(half(0), half(1), half(2)));
            else if constexpr (op == Arith::SetEq)
                result = half(0) == half(1) ? 0xffff : 0;
            else
                result = narrowed<T>(static_cast<double>(extreme(half(0), half(1), op == Arith::MaxNan)));
            both |= result << shift;
        }
        d[i] = both;
    });
}

template <Type T>
Handler of_type(Arith op) {
    switch (op) {
    case Arith::Fma:
        return pairs<T, Arith::Fma>;
    case Arith::MinNan:
        return pairs<T, Arith::MinNan>;
    case Arith::MaxNan:
        return pairs<T, Arith::MaxNan>;
    case Arith::SetEq:
        return pairs<T, Arith::SetEq>;
    default:
        return nullptr;
    }
}

} // namespace

Handler find_pair_arithmetic(Arith op, Type type) {
    return type == Type::F16x2 ? of_type<Type::F16x2>(op) : of_type<Type::BF16x2>(op);
}

} // namespace lz::ptx
