#pragma once
/// As Int, for estimates: a double that remembers how it was computed. Its comparisons are noted.

#include "passes/traced/int.h"

#include <bit>
#include <compare>
#include <concepts>

namespace lz::traced {

class Real {
public:
    constexpr Real() = default;
    template <class T>
        requires(std::integral<T> || std::floating_point<T>)
    constexpr Real(T value) : value_(static_cast<double>(value)) {}
    explicit constexpr Real(Int number) : value_(static_cast<double>(number.value())) {
        if (number.expression() != kConstant)
            *this = converted(number);
    }
    constexpr Real(double value, Expression expression) : value_(value), expression_(expression) {}

    constexpr double value() const { return value_; }
    constexpr Expression expression() const { return expression_; }
    /// Notes that the number is this one.
    constexpr double pinned() const {
        if (expression_ != kConstant)
            noted(Operation::RealEqual, *this, Real(value_), true);
        return value_;
    }
    template <class T>
        requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>)
    explicit constexpr operator T() const {
        return static_cast<T>(pinned());
    }
    explicit constexpr operator bool() const { return *this != Real(0); }
    explicit constexpr operator Int() const {
        return expression_ == kConstant ? Int(value_) : rounded_down();
    }

#define LZ_REAL_BINARY(symbol, operation)                                                                    \
    friend constexpr Real operator symbol(Real a, Real b) { return make(operation, a, b); }                  \
    template <class T>                                                                                       \
        requires std::is_arithmetic_v<T>                                                                     \
    friend constexpr Real operator symbol(Real a, T b) {                                                     \
        return make(operation, a, Real(b));                                                                  \
    }                                                                                                        \
    template <class T>                                                                                       \
        requires std::is_arithmetic_v<T>                                                                     \
    friend constexpr Real operator symbol(T a, Real b) {                                                     \
        return make(operation, Real(a), b);                                                                  \
    }                                                                                                        \
    constexpr Real &operator symbol## = (Real b) { return *this = make(operation, *this, b); }
    LZ_REAL_BINARY(+, Operation::RealAdd)
    LZ_REAL_BINARY(-, Operation::RealSubtract)
    LZ_REAL_BINARY(*, Operation::RealMultiply)
    LZ_REAL_BINARY(/, Operation::RealDivide)
#undef LZ_REAL_BINARY
    constexpr Real operator-() const { return make(Operation::RealSubtract, Real(-0.0), *this); }
    constexpr Real operator+() const { return *this; }

#define LZ_REAL_COMPARE(symbol, question)                                                                    \
    friend constexpr bool operator symbol(Real a, Real b) { return question; }                               \
    template <class T>                                                                                       \
        requires std::is_arithmetic_v<T>                                                                     \
    friend constexpr bool operator symbol(Real a, T number) {                                                \
        const Real b(number);                                                                                \
        return question;                                                                                     \
    }                                                                                                        \
    template <class T>                                                                                       \
        requires std::is_arithmetic_v<T>                                                                     \
    friend constexpr bool operator symbol(T number, Real b) {                                                \
        const Real a(number);                                                                                \
        return question;                                                                                     \
    }
    LZ_REAL_COMPARE(==, ask(Operation::RealEqual, a, b))
    LZ_REAL_COMPARE(!=, !ask(Operation::RealEqual, a, b))
    LZ_REAL_COMPARE(<, ask(Operation::RealLess, a, b))
    LZ_REAL_COMPARE(>, ask(Operation::RealLess, b, a))
    LZ_REAL_COMPARE(<=, ask(Operation::RealLessEqual, a, b))
    LZ_REAL_COMPARE(>=, ask(Operation::RealLessEqual, b, a))
#undef LZ_REAL_COMPARE
    friend constexpr std::partial_ordering operator<=>(Real a, Real b) {
        return a < b    ? std::partial_ordering::less
               : b < a  ? std::partial_ordering::greater
               : a == b ? std::partial_ordering::equivalent
                        : std::partial_ordering::unordered;
    }

    friend constexpr Real minimum(Real a, Real b) { return make(Operation::RealMinimum, a, b); }
    friend constexpr Real maximum(Real a, Real b) { return make(Operation::RealMaximum, a, b); }

private:
    [[gnu::always_inline]] static constexpr Real make(Operation operation, Real a, Real b) {
        if (a.expression_ == kConstant && b.expression_ == kConstant)
            return std::bit_cast<double>(apply(operation, bits(a), bits(b)));
        return written(operation, a, b);
    }
    [[gnu::always_inline]] static constexpr bool ask(Operation question, Real a, Real b) {
        const bool answer = apply(question, bits(a), bits(b)) != 0;
        if (a.expression_ != kConstant || b.expression_ != kConstant)
            noted(question, a, b, answer);
        return answer;
    }
    static constexpr int64_t bits(Real a) { return std::bit_cast<int64_t>(a.value_); }
    static Real converted(Int number);
    Int rounded_down() const;
    static Real written(Operation operation, Real a, Real b);
    static void noted(Operation question, Real a, Real b, bool answer);

    double value_ = 0;
    Expression expression_ = kConstant;
};

} // namespace lz::traced
