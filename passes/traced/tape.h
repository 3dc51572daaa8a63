#pragma once
/// A tape of integer expressions: how the numbers of a Program are computed from the extents of its graph,
/// and on which comparisons between them the rest of it depends.
///
/// Whoever computes with `Int` (traced/int.h) writes one. Played back with other extents it says whether
/// every comparison comes out as it did, and what every number is then.

#include <bit>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace lz::traced {

/// Index of an expression on a tape. Equal ones have equal values for all extents.
using Expression = uint32_t;
/// No expression: the number is the same for all extents.
inline constexpr Expression kConstant = 0;

enum class Operation : uint8_t {
    Constant,  ///< `value`
    Parameter, ///< number `value` of the parameters
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
    Minimum,
    Maximum,
    Gcd,
    // Of doubles, as their bits
    ToReal,
    ToInt, ///< towards 0
    RealAdd,
    RealSubtract,
    RealMultiply,
    RealDivide,
    RealMinimum,
    RealMaximum,
    Call,   ///< of function `a`, which gives `value` numbers: this one, and those of the Results behind it
    Result, ///< of the call at `a`
    // Conditions: what is asked of two expressions, whose answer has to be `value`
    Equal,
    Less,
    RealEqual,
    RealLess,
    RealLessEqual,
};

/// What an operation gives for two numbers, as the processor does it: sums and products wrap. Division by 0
/// gives 0: a Program divides by what it has compared with 0 before. Inline, so that of a known operation
/// nothing is left but it.
[[gnu::always_inline]] constexpr int64_t apply(Operation operation, int64_t a, int64_t b) {
    constexpr auto real = [](int64_t bits) { return std::bit_cast<double>(bits); };
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    switch (operation) {
    case Operation::Add:
        return static_cast<int64_t>(x + y);
    case Operation::Subtract:
        return static_cast<int64_t>(x - y);
    case Operation::Multiply:
        return static_cast<int64_t>(x * y);
    case Operation::Divide:
        return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(0 - x) : a / b;
    case Operation::Remainder:
        return b == 0 || b == -1 ? 0 : a % b;
    case Operation::ShiftLeft:
        return static_cast<int64_t>(x << (y & 63));
    case Operation::ShiftRight:
        return a >> (y & 63);
    case Operation::And:
        return a & b;
    case Operation::Or:
        return a | b;
    case Operation::Xor:
        return a ^ b;
    case Operation::Minimum:
        return a < b ? a : b;
    case Operation::Maximum:
        return a < b ? b : a;
    case Operation::Gcd:
        return std::gcd(a, b);
    case Operation::ToReal:
        return std::bit_cast<int64_t>(static_cast<double>(a));
    case Operation::ToInt:
        return static_cast<int64_t>(real(a));
    case Operation::RealAdd:
        return std::bit_cast<int64_t>(real(a) + real(b));
    case Operation::RealSubtract:
        return std::bit_cast<int64_t>(real(a) - real(b));
    case Operation::RealMultiply:
        return std::bit_cast<int64_t>(real(a) * real(b));
    case Operation::RealDivide:
        return std::bit_cast<int64_t>(real(a) / real(b));
    case Operation::RealMinimum:
        return real(b) < real(a) ? b : a;
    case Operation::RealMaximum:
        return real(a) < real(b) ? b : a;
    case Operation::RealEqual:
        return real(a) == real(b);
    case Operation::RealLess:
        return real(a) < real(b);
    case Operation::RealLessEqual:
        return real(a) <= real(b);
    case Operation::Equal:
        return a == b;
    case Operation::Less:
        return a < b;
    case Operation::Constant:
    case Operation::Parameter:
    case Operation::Call:
    case Operation::Result:
        break;
    }
    return a;
}

class Tape {
public:
    /// Where each condition came from is kept as addresses of code: `origins`.
    explicit Tape(bool with_origins = false);

    Expression parameter(uint32_t number);
    /// Of two operands of which at least one is no constant; an operand that is one has its value alone.
    Expression add(Operation operation, Expression a, int64_t a_value, Expression b, int64_t b_value);
    /// A function of numbers that nothing but the tape calls again: equal numbers give equal results.
    using Function = std::function<void(std::span<const int64_t> arguments, std::span<int64_t> results)>;
    struct Argument {
        Expression expression;
        int64_t value;
    };
    /// The first of its `results` expressions, which follow one another.
    Expression call(Function function, std::span<const Argument> arguments, uint32_t results = 1);
    /// Notes that the answer to Equal or Less is this one.
    void note(Operation question, Expression a, int64_t a_value, Expression b, int64_t b_value, bool answer);

    /// Nothing more will be written: forgets all that neither a condition nor one of `kept` is made of, and
    /// gives those their new names.
    void finish(std::span<Expression *const> kept);

    size_t size() const { return entries_.size(); }
    size_t conditions() const { return conditions_; }
    /// The values of all expressions for these parameters, in `values`, if every condition holds; else false,
    /// and nothing is to be made of `values`.
    bool play(std::span<const int64_t> parameters, std::vector<int64_t> &values) const;
    /// The condition that does not hold, for people: with the addresses of the code that noted it.
    std::string first_broken(std::span<const int64_t> parameters) const;

private:
    struct Entry {
        Operation operation;
        Expression a = 0, b = 0;
        int64_t value = 0;
    };
    struct Key {
        Operation operation;
        Expression a, b;
        int64_t value;
        friend bool operator==(const Key &, const Key &) = default;
    };
    struct Hash {
        size_t operator()(const Key &key) const;
    };

    struct Called {
        Function function;
        std::vector<Expression> arguments;
    };

    Expression place(const Key &key);
    Expression of(Expression e, int64_t value);
    std::string text(Expression e, std::span<const int64_t> values, int depth) const;

    std::vector<Entry> entries_;
    std::vector<Called> calls_;
    std::unordered_map<Key, Expression, Hash> known_;
    size_t conditions_ = 0;
    bool with_origins_;
    std::unordered_map<Expression, std::vector<void *>> origins_; ///< by condition
};

/// The tape that this thread's numbers are written on; null: numbers are only numbers.
extern thread_local Tape *current_tape;

} // namespace lz::traced
