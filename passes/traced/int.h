#pragma once
/// A whole number that remembers how it was computed from the extents of a graph.
///
/// It stands for `int64_t` in the passes when they are compiled a second time (traced/prelude.h). Arithmetic
/// makes expressions on the thread's tape. A comparison gives the answer for the values at hand and notes on
/// the tape that this was the answer; a conversion to any other type notes that the number is this one. So a
/// Program that was made with such numbers holds for all extents for which everything noted holds.

#include "passes/traced/tape.h"

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numeric>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lz::traced {

template <class T>
concept Convertible =
    (std::integral<T> || std::floating_point<T> || std::is_enum_v<T>) && !std::same_as<T, bool>;

class Int {
public:
    constexpr Int() = default;
    template <std::integral T>
    constexpr Int(T value) : value_(static_cast<int64_t>(value)) {}
    template <class T>
        requires(std::floating_point<T> || std::is_enum_v<T>)
    explicit(!std::is_enum_v<T> || !std::is_convertible_v<T, int>) constexpr Int(T value)
        : value_(static_cast<int64_t>(value)) {}
    constexpr Int(int64_t value, Expression expression) : value_(value), expression_(expression) {}

    /// As it is now, and nothing is noted: for printing and for who looks at the expression as well.
    constexpr int64_t value() const { return value_; }
    constexpr Expression expression() const { return expression_; }
    constexpr bool is_constant() const { return expression_ == kConstant; }
    /// The same word for equal expressions; no number that occurs for a constant.
    constexpr uint64_t identity() const {
        return expression_ == kConstant ? static_cast<uint64_t>(value_)
                                        : 0xa5c3'96e1'0000'0000u | expression_;
    }
    /// Notes that the number is this one.
    constexpr int64_t pinned() const {
        if (expression_ != kConstant)
            ask(Operation::Equal, *this, Int(value_));
        return value_;
    }

    template <Convertible T>
    explicit constexpr operator T() const {
        return static_cast<T>(pinned());
    }
    explicit constexpr operator bool() const { return *this != Int(0); }

    friend constexpr Int operator+(Int a, Int b) { return make(Operation::Add, a, b); }
    friend constexpr Int operator-(Int a, Int b) { return make(Operation::Subtract, a, b); }
    friend constexpr Int operator*(Int a, Int b) { return make(Operation::Multiply, a, b); }
    friend constexpr Int operator/(Int a, Int b) { return make(Operation::Divide, a, b); }
    friend constexpr Int operator%(Int a, Int b) { return make(Operation::Remainder, a, b); }
    friend constexpr Int operator<<(Int a, Int b) { return make(Operation::ShiftLeft, a, b); }
    friend constexpr Int operator>>(Int a, Int b) { return make(Operation::ShiftRight, a, b); }
    friend constexpr Int operator&(Int a, Int b) { return make(Operation::And, a, b); }
    friend constexpr Int operator|(Int a, Int b) { return make(Operation::Or, a, b); }
    friend constexpr Int operator^(Int a, Int b) { return make(Operation::Xor, a, b); }
    friend constexpr Int minimum(Int a, Int b) { return make(Operation::Minimum, a, b); }
    friend constexpr Int maximum(Int a, Int b) { return make(Operation::Maximum, a, b); }
    friend constexpr Int greatest_divisor(Int a, Int b) { return make(Operation::Gcd, a, b); }
    constexpr Int operator-() const { return make(Operation::Subtract, Int(0), *this); }
    constexpr Int operator+() const { return *this; }
    constexpr Int operator~() const { return make(Operation::Xor, *this, Int(-1)); }
    constexpr Int &operator+=(Int b) { return *this = *this + b; }
    constexpr Int &operator-=(Int b) { return *this = *this - b; }
    constexpr Int &operator*=(Int b) { return *this = *this * b; }
    constexpr Int &operator/=(Int b) { return *this = *this / b; }
    constexpr Int &operator%=(Int b) { return *this = *this % b; }
    constexpr Int &operator<<=(Int b) { return *this = *this << b; }
    constexpr Int &operator>>=(Int b) { return *this = *this >> b; }
    constexpr Int &operator&=(Int b) { return *this = *this & b; }
    constexpr Int &operator|=(Int b) { return *this = *this | b; }
    constexpr Int &operator^=(Int b) { return *this = *this ^ b; }
    constexpr Int &operator++() { return *this += Int(1); }
    constexpr Int &operator--() { return *this -= Int(1); }
    constexpr Int operator++(int) {
        const Int old = *this;
        ++*this;
        return old;
    }
    constexpr Int operator--(int) {
        const Int old = *this;
        --*this;
        return old;
    }

    friend constexpr bool operator==(Int a, Int b) { return ask(Operation::Equal, a, b); }
    friend constexpr bool operator<(Int a, Int b) { return ask(Operation::Less, a, b); }
    friend constexpr bool operator>(Int a, Int b) { return ask(Operation::Less, b, a); }
    friend constexpr bool operator<=(Int a, Int b) { return !ask(Operation::Less, b, a); }
    friend constexpr bool operator>=(Int a, Int b) { return !ask(Operation::Less, a, b); }
    friend constexpr std::strong_ordering operator<=>(Int a, Int b) {
        if (a.value_ == b.value_) {
            ask(Operation::Equal, a, b);
            return std::strong_ordering::equal;
        }
        if (a.value_ < b.value_) {
            ask(Operation::Less, a, b);
            return std::strong_ordering::less;
        }
        ask(Operation::Less, b, a);
        return std::strong_ordering::greater;
    }

private:
    [[gnu::always_inline]] static constexpr Int make(Operation operation, Int a, Int b) {
        const bool constant = a.expression_ == kConstant && b.expression_ == kConstant;
        if (constant)
            return apply(operation, a.value_, b.value_);
        return written(operation, a, b);
    }
    [[gnu::always_inline]] static constexpr bool ask(Operation question, Int a, Int b) {
        const bool answer = question == Operation::Equal ? a.value_ == b.value_ : a.value_ < b.value_;
        if (a.expression_ != b.expression_)
            noted(question, a, b, answer);
        return answer;
    }
    // Out of line, so that the tape can say who asked.
    static Int written(Operation operation, Int a, Int b);
    static void noted(Operation question, Int a, Int b, bool answer);

    int64_t value_ = 0;
    Expression expression_ = kConstant;
};

/// What f makes of the numbers: a call on the tape, and no condition but that it makes as many.
template <class F>
std::vector<Int> call_again(const std::vector<Int> &numbers, F f) {
    std::vector<Int> plain;
    std::vector<Tape::Argument> arguments;
    bool same = !current_tape; // for all extents
    if (!same)
        same = std::ranges::all_of(numbers, &Int::is_constant);
    for (const Int number : numbers) {
        plain.emplace_back(number.value());
        arguments.push_back({number.expression(), number.value()});
    }
    std::vector<Int> found = f(std::as_const(plain));
    if (same)
        return found;
    const auto count = static_cast<uint32_t>(found.size());
    const auto again = [f = std::move(f)](std::span<const int64_t> given, std::span<int64_t> results) {
        const std::vector<Int> now = f(std::vector<Int>(given.begin(), given.end()));
        results[0] = static_cast<int64_t>(now.size());
        for (size_t k = 1; k < results.size() && k <= now.size(); ++k)
            results[k] = now[k - 1].value();
    };
    const Expression first = current_tape->call(again, arguments, count + 1);
    (void)Int(count, first).pinned();
    for (uint32_t k = 0; k < count; ++k)
        found[k] = Int(found[k].value(), first + 1 + k);
    return found;
}

} // namespace lz::traced
