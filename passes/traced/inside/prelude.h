#pragma once
/// Included before everything else where the passes are compiled a second time: their whole numbers are
/// `traced::Int` then, and what they declare is in namespace `lz_traced`, beside the plain ones.
///
/// Headers that are not the project's come first: they keep their own whole numbers.

#include "passes/traced/int.h"
#include "passes/traced/portable.h"
#include "passes/traced/real.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cfenv>
#include <charconv>
#include <cmath>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numbers>
#include <numeric>
#include <optional>
#include <queue>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>
#include <xmmintrin.h>

template <>
struct fmt::formatter<lz::traced::Int> : fmt::formatter<int64_t> {
    auto format(lz::traced::Int number, fmt::format_context &context) const {
        return fmt::formatter<int64_t>::format(number.pinned(), context);
    }
};

template <>
struct fmt::formatter<lz::traced::Real> : fmt::formatter<double> {
    auto format(lz::traced::Real number, fmt::format_context &context) const {
        return fmt::formatter<double>::format(number.pinned(), context);
    }
};

// What the passes ask the standard library for with whole numbers.
namespace std {

template <>
struct numeric_limits<lz::traced::Int> : numeric_limits<int64_t> {
    static constexpr lz::traced::Int min() { return numeric_limits<int64_t>::min(); }
    static constexpr lz::traced::Int max() { return numeric_limits<int64_t>::max(); }
    static constexpr lz::traced::Int lowest() { return numeric_limits<int64_t>::min(); }
};
template <>
struct numeric_limits<lz::traced::Real> : numeric_limits<double> {};
/// All alike: which are equal only a comparison may say, because it is noted.
template <>
struct hash<lz::traced::Int> {
    size_t operator()(lz::traced::Int) const { return 0; }
};
inline string to_string(lz::traced::Int number) {
    return to_string(number.pinned());
}
// Expressions and no conditions. Better matches than the standard's own, whose bodies would compare.
template <class T>
    requires same_as<T, lz::traced::Int> || same_as<T, lz::traced::Real>
constexpr T min(const T &a, const T &b) {
    return minimum(a, b);
}
template <class T>
    requires same_as<T, lz::traced::Int> || same_as<T, lz::traced::Real>
constexpr T max(const T &a, const T &b) {
    return maximum(a, b);
}
template <class T>
    requires same_as<T, lz::traced::Int>
constexpr T clamp(const T &x, const T &least, const T &most) {
    return minimum(maximum(x, least), most);
}
constexpr lz::traced::Int gcd(lz::traced::Int a, lz::traced::Int b) {
    return greatest_divisor(a, b);
}
/// The word of a scalar, which is no number.
template <class To>
    requires same_as<To, lz::traced::Int> || same_as<To, uint64_t>
constexpr To bit_cast(lz::traced::Real scalar) {
    return bit_cast<uint64_t>(scalar.pinned());
}
template <class To>
    requires same_as<To, lz::traced::Real>
constexpr To bit_cast(lz::traced::Int word) {
    return bit_cast<double>(word.pinned());
}
template <class To>
    requires same_as<To, lz::traced::Real>
constexpr To bit_cast(uint64_t word) {
    return bit_cast<double>(word);
}
inline from_chars_result from_chars(const char *begin, const char *end, lz::traced::Real &number) {
    double plain = 0;
    const from_chars_result result = from_chars(begin, end, plain);
    number = plain;
    return result;
}
// Of scalars, which are no extents.
#define LZ_OF_SCALAR(function)                                                                               \
    inline auto function(lz::traced::Real a) {                                                               \
        return function(a.pinned());                                                                         \
    }
LZ_OF_SCALAR(isnan)
LZ_OF_SCALAR(isinf)
LZ_OF_SCALAR(isfinite)
LZ_OF_SCALAR(isnormal)
LZ_OF_SCALAR(signbit)
LZ_OF_SCALAR(abs)
LZ_OF_SCALAR(fabs)
LZ_OF_SCALAR(sqrt)
LZ_OF_SCALAR(floor)
LZ_OF_SCALAR(ceil)
LZ_OF_SCALAR(trunc)
LZ_OF_SCALAR(nearbyint)
#undef LZ_OF_SCALAR
inline auto frexp(lz::traced::Real a, int *exponent) {
    return frexp(a.pinned(), exponent);
}
inline to_chars_result to_chars(char *begin, char *end, lz::traced::Real number) {
    return to_chars(begin, end, number.pinned());
}
inline from_chars_result from_chars(const char *begin, const char *end, lz::traced::Int &number) {
    int64_t plain = 0;
    const from_chars_result result = from_chars(begin, end, plain);
    number = plain;
    return result;
}
constexpr lz::traced::Int abs(lz::traced::Int a) {
    return maximum(a, -a);
}

} // namespace std

namespace lz::traced {

// Of extents that the first build's rules have let pass: nothing is to be noted.
constexpr bool add_overflows(Int a, Int b, Int *sum) {
    int64_t plain = 0;
    *sum = a + b;
    return __builtin_add_overflow(a.value(), b.value(), &plain);
}
constexpr bool multiply_overflows(Int a, Int b, Int *product) {
    int64_t plain = 0;
    *product = a * b;
    return __builtin_mul_overflow(a.value(), b.value(), &plain);
}

} // namespace lz::traced

#define __builtin_add_overflow lz_numbers::add_overflows
#define __builtin_mul_overflow lz_numbers::multiply_overflows
#define lz lz_traced
#define int64_t lz_numbers::Int
#define double lz_numbers::Real
