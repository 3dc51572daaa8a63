#pragma once
/// Roundings to half types, and what results that are no numbers look like.

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>

namespace lz::ptx {

/// The canonical one of f32; f64 keeps what an operand held.
template <class T>
T canonical(T value) {
    if constexpr (std::same_as<T, float>) // f64 keeps what the operand held
        return value != value ? std::bit_cast<float>(0x7fffffffu) : value;
    else
        return value;
}

inline uint16_t to_bf16(float f) {
    const auto bits = std::bit_cast<uint32_t>(f);
    return f != f ? uint16_t{0x7fff} : static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
/// Rounded to odd, so that another rounding, to fewer bits, is as if it were the only one.
inline float to_odd(long double v) {
    const float f = static_cast<float>(v);
    if (!std::isfinite(f) || static_cast<long double>(f) == v)
        return f;
    const float toward_zero =
        std::fabs(static_cast<long double>(f)) > std::fabs(v) ? std::nextafter(f, 0.0f) : f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(toward_zero) | 1u);
}
/// One rounding: from f64 too.
template <class T>
uint16_t to_f16(T value) {
    return value != value ? uint16_t{0x7fff} : std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}
} // namespace lz::ptx
