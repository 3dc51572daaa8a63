#pragma once
/// A number given by the user: bool, integer or floating, as PyTorch's scalar category.

#include "lazuli/dtype.h"

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

private:
    Category category_;
    union {
        double float_;
        int64_t int_;
    };
};

} // namespace lz
