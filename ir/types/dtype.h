#pragma once
/// Element types: the table of `dtypes.def` as an enum, its facts, PyTorch's promotion rules, and the
/// conversions of the two half types.

#include <cstdint>
#include <optional>
#include <string_view>

namespace lz::ir {

enum class DType : uint8_t {
#define LZ_DTYPE(E, text, storage, bytes, kind, compute, acc) E,
#include "ir/types/dtypes.def"
};

enum class DTypeKind : uint8_t { Bool, Unsigned, Signed, Float };

struct DTypeInfo {
    std::string_view name;
    int bytes;
    DTypeKind kind;
    DType compute;    ///< type of one elementwise operation before rounding
    DType accumulate; ///< type of partial results of reductions and products
};

inline constexpr DTypeInfo kDTypes[] = {
#define LZ_DTYPE(E, text, storage, bytes, kind, compute, acc)                                                \
    {text, bytes, DTypeKind::kind, DType::compute, DType::acc},
#include "ir/types/dtypes.def"
};
inline constexpr int kNumDTypes = sizeof(kDTypes) / sizeof(kDTypes[0]);

constexpr const DTypeInfo &info(DType t) {
    return kDTypes[static_cast<int>(t)];
}
constexpr std::string_view name(DType t) {
    return info(t).name;
}
constexpr int size_of(DType t) {
    return info(t).bytes;
}
constexpr bool is_float(DType t) {
    return info(t).kind == DTypeKind::Float;
}
constexpr bool is_half(DType t) {
    return t == DType::F16 || t == DType::BF16;
}
/// Integers proper: bool is not one.
constexpr bool is_integer(DType t) {
    return info(t).kind == DTypeKind::Signed || info(t).kind == DTypeKind::Unsigned;
}
constexpr bool is_signed(DType t) {
    return info(t).kind == DTypeKind::Signed || is_float(t);
}

/// Whether a product of matrices of `operand` may be summed into `result`: its own dtype, a wider integer of
/// integers, f32 of f16 and bf16.
constexpr bool can_hold_products(DType result, DType operand) {
    return result == operand || (is_half(operand) && result == DType::F32) ||
           (is_integer(operand) && is_integer(result) && size_of(result) > size_of(operand));
}
/// What such a product is summed in. Integers wrap, so that 32 bits are enough for a result that has no more.
constexpr DType product_accumulation(DType operand, DType result) {
    return is_integer(result) ? size_of(result) <= 4 ? DType::I32 : DType::I64 : info(operand).accumulate;
}

/// The dtype with this text name ("f32"), or nothing.
std::optional<DType> dtype_from_name(std::string_view text);

/// PyTorch's `torch.promote_types` for two tensors of the same category level (S62). Symmetric, associative
/// but for u8 with i8 (which gives i16, as in PyTorch).
DType promote(DType a, DType b);

/// IEEE conversions, round to nearest even; NaN stays NaN, overflow becomes infinity.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat_to_float(uint16_t bits);
uint16_t float_to_bfloat(float value);

} // namespace lz::ir
