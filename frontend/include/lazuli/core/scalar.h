#pragma once
/// A number given by the user: bool, integer or floating, as PyTorch's scalar category.

#include "lazuli/core/dtype.h"

#include <cstdint>
#include <type_traits>

namespace lz {

/// Converts from any arithmetic type. Its category, not its width, takes part in type promotion (S62).
class Scalar {
public:
    /// What takes part in promotion.
    enum class Category : uint8_t { Bool, Integer, Float };

    /// The integer 0.
    constexpr Scalar() : Scalar(0) {}
    /// Any number.
    template <class T>
        requires std::is_arithmetic_v<T>
    constexpr Scalar(T value) // NOLINT: converts as numbers do
        : category_(std::is_same_v<T, bool>       ? Category::Bool
                    : std::is_floating_point_v<T> ? Category::Float
                                                  : Category::Integer) {
        if constexpr (std::is_floating_point_v<T>)
            float_ = static_cast<double>(value);
        else
            int_ = static_cast<int64_t>(value);
    }

    /// bool, integer or floating.
    constexpr Category category() const { return category_; }
    /// Whether it is a floating number.
    constexpr bool is_float() const { return category_ == Category::Float; }
    /// As a double.
    constexpr double to_double() const { return is_float() ? float_ : static_cast<double>(int_); }
    /// Truncates a floating value.
    constexpr int64_t to_int() const { return is_float() ? static_cast<int64_t>(float_) : int_; }

    // LibTorch's names.
    /// As a number of type T; an integer loses its fraction.
    template <class T>
        requires std::is_arithmetic_v<T>
    constexpr T to() const {
        if constexpr (std::is_same_v<T, bool>)
            return is_float() ? float_ != 0 : int_ != 0;
        else
            return is_float() ? static_cast<T>(float_) : static_cast<T>(int_);
    }
    /// As a float.
    constexpr float toFloat() const { return to<float>(); }
    /// As a double.
    constexpr double toDouble() const { return to<double>(); }
    /// As an int.
    constexpr int toInt() const { return to<int>(); }
    /// As an int64_t.
    constexpr int64_t toLong() const { return to<int64_t>(); }
    /// Whether it is not 0.
    constexpr bool toBool() const { return to<bool>(); }

private:
    Category category_;
    union {
        double float_;
        int64_t int_;
    };
};

} // namespace lz
