#pragma once
/// Element types.

#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

#include "lazuli/core/export.h"

namespace lz {

/// The order is that of promotion within a category. f16 and bf16 are stored as such and computed in f32.
enum class DType : uint8_t { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64 };

inline constexpr DType boolean = DType::Bool; ///< true or false, a byte each
inline constexpr DType u8 = DType::U8;        ///< unsigned, 8 bits
inline constexpr DType i8 = DType::I8;        ///< signed, 8 bits
inline constexpr DType i16 = DType::I16;      ///< signed, 16 bits
inline constexpr DType i32 = DType::I32;      ///< signed, 32 bits
inline constexpr DType i64 = DType::I64;      ///< signed, 64 bits
inline constexpr DType f16 = DType::F16;      ///< IEEE binary16: 11 bits of precision, up to 65504
inline constexpr DType bf16 = DType::BF16;    ///< 8 bits of precision, the range of f32
inline constexpr DType f32 = DType::F32;      ///< IEEE binary32
inline constexpr DType f64 = DType::F64;      ///< IEEE binary64

// LibTorch's names of the same.
#define LZ_ALIAS(name, dtype) inline constexpr DType name = DType::dtype /**< LibTorch's name. */
LZ_ALIAS(kBool, Bool);
LZ_ALIAS(kUInt8, U8);
LZ_ALIAS(kByte, U8);
LZ_ALIAS(kInt8, I8);
LZ_ALIAS(kChar, I8);
LZ_ALIAS(kInt16, I16);
LZ_ALIAS(kShort, I16);
LZ_ALIAS(kInt32, I32);
LZ_ALIAS(kInt, I32);
LZ_ALIAS(kInt64, I64);
LZ_ALIAS(kLong, I64);
LZ_ALIAS(kFloat16, F16);
LZ_ALIAS(kHalf, F16);
LZ_ALIAS(kBFloat16, BF16);
LZ_ALIAS(kFloat32, F32);
LZ_ALIAS(kFloat, F32);
LZ_ALIAS(kFloat64, F64);
LZ_ALIAS(kDouble, F64);
#undef LZ_ALIAS

using ScalarType = DType; ///< LibTorch's name.
using Dtype = DType;      ///< LibTorch's name.

/// `f32`, `bool`, ...
LZ_API std::string_view name(DType dtype);
/// Bytes of one element.
LZ_API int size_of(DType dtype);
/// f16, bf16, f32 or f64.
constexpr bool is_floating_point(DType t) {
    return t >= DType::F16;
}
/// An integer; not bool.
constexpr bool is_integral(DType t) {
    return t != DType::Bool && t < DType::F16;
}
/// PyTorch's promote_types.
LZ_API DType promote_types(DType a, DType b);
/// Prints `name(dtype)`.
LZ_API std::ostream &operator<<(std::ostream &out, DType dtype);

/// The dtype of a C++ element type; not defined for others. The half types travel as `Half` and `BFloat`.
struct Half {
    uint16_t bits; ///< IEEE binary16
    Half() = default;
    /// Rounds to the nearest.
    LZ_API explicit Half(float value);
    /// Exact.
    LZ_API operator float() const; // NOLINT: as the built-in types convert
};
/// The type of a bf16 element.
struct BFloat {
    uint16_t bits; ///< the upper half of an f32
    BFloat() = default;
    /// Rounds to the nearest.
    LZ_API explicit BFloat(float value);
    /// Exact.
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
/// The dtype of a C++ type.
template <Element T>
inline constexpr DType dtype_of = DTypeOf<std::remove_cv_t<T>>::value;

} // namespace lz
