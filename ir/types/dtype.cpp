#include "ir/types/dtype.h"

#include <bit>

namespace lz::ir {

std::optional<DType> dtype_from_name(std::string_view text) {
    for (int i = 0; i < kNumDTypes; ++i)
        if (kDTypes[i].name == text)
            return static_cast<DType>(i);
    return std::nullopt;
}

DType promote(DType a, DType b) {
    if (a == b)
        return a;
    const DTypeKind ka = info(a).kind, kb = info(b).kind;
    if (ka == DTypeKind::Float && kb == DTypeKind::Float) {
        // Neither half type holds the other.
        if (is_half(a) && is_half(b))
            return DType::F32;
        return size_of(a) > size_of(b) ? a : b;
    }
    if (ka == DTypeKind::Float || kb == DTypeKind::Bool)
        return a;
    if (kb == DTypeKind::Float || ka == DTypeKind::Bool)
        return b;
    if (ka != kb && size_of(a) == size_of(b)) // u8 with i8
        return DType::I16;
    return size_of(a) > size_of(b) ? a : b;
}

float half_to_float(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0x1f)
        return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    if (exponent == 0) {
        // Subnormal (or zero): exact in float.
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

uint16_t float_to_half(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) // a NaN stays one even if its low fraction bits are cut off
        return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) // 65520 and above round to infinity
        return static_cast<uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        // Subnormal results: adding 0.5 puts the last bit of half at the last bit of float, rounded to
        // nearest even.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
    }
    const uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

float bfloat_to_float(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bfloat(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

} // namespace lz::ir
