#pragma once
/// Element types.

#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

#include "lazuli/export.h"

namespace lz {

/// The order is that of promotion within a category. f16 and bf16 are stored as such and computed in f32.
enum class DType : uint8_t { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64 };

inline constexpr DType boolean = DType::Bool, u8 = DType::U8, i8 = DType::I8, i16 = DType::I16,
                       i32 = DType::I32, i64 = DType::I64, f16 = DType::F16, bf16 = DType::BF16,
                       f32 = DType::F32, f64 = DType::F64;

/// `f32`, `bool`, ...
LZ_API std::string_view name(DType dtype);
/// Bytes of one element.
LZ_API int size_of(DType dtype);
constexpr bool is_floating_point(DType t) {
    return t >= DType::F16;
}
constexpr bool is_integral(DType t) {
    return t != DType::Bool && t < DType::F16;
}
/// PyTorch's promote_types.
LZ_API DType promote_types(DType a, DType b);
LZ_API std::ostream &operator<<(std::ostream &out, DType dtype);

/// The dtype of a C++ element type; not defined for others. The half types travel as `Half` and `BFloat`.
struct Half {
    uint16_t bits;
    Half() = default;
    LZ_API explicit Half(float value);
    LZ_API operator float() const; // NOLINT: as the built-in types convert
};
struct BFloat {
    uint16_t bits;
    BFloat() = default;
    LZ_API explicit BFloat(float value);
    LZ_API operator float() const; // NOLINT: as the built-in types convert
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::Bool> {};
template <>
struct DTypeOf<uint8_t> : std::integral_constant<DType, DType::U8> {};
template <>
struct DTypeOf<int8_t> : std::integral_constant<DType, DType::I8> {};
template <>
struct DTypeOf<int16_t> : std::integral_constant<DType, DType::I16> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<DType, DType::I32> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<DType, DType::I64> {};
template <>
struct DTypeOf<long long> : std::integral_constant<DType, DType::I64> {};
template <>
struct DTypeOf<Half> : std::integral_constant<DType, DType::F16> {};
template <>
struct DTypeOf<BFloat> : std::integral_constant<DType, DType::BF16> {};
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::F32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::F64> {};

template <class T>
concept Element = requires { DTypeOf<std::remove_cv_t<T>>::value; };
template <Element T>
inline constexpr DType dtype_of = DTypeOf<std::remove_cv_t<T>>::value;

} // namespace lz
