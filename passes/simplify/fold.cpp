// Only ops whose result is exact by definition (IEEE arithmetic, integer arithmetic, comparisons): what
// `expand_math` approximates is left to it.
#include "passes/simplify/fold.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lz::passes {

using namespace ir;

namespace {

int64_t wrap_to(DType dtype, int64_t v) {
    switch (dtype) {
    case DType::Bool:
        return v != 0;
    case DType::U8:
        return static_cast<uint8_t>(v);
    case DType::I8:
        return static_cast<int8_t>(v);
    case DType::I16:
        return static_cast<int16_t>(v);
    case DType::I32:
        return static_cast<int32_t>(v);
    default:
        return v;
    }
}

struct IntRange {
    int64_t lowest, highest;
};
IntRange range_of(DType dtype) {
    if (dtype == DType::U8)
        return {0, 255};
    const int bits = size_of(dtype) * 8;
    const int64_t highest = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
    return {-highest - 1, highest};
}

/// S66: floats convert to integers by saturation, NaN to 0.
int64_t saturate_to(DType dtype, double v) {
    if (std::isnan(v))
        return 0;
    const IntRange range = range_of(dtype);
    if (v <= static_cast<double>(range.lowest))
        return range.lowest;
    if (v >= static_cast<double>(range.highest))
        return range.highest;
    return static_cast<int64_t>(v);
}

uint64_t bits(int64_t v) {
    return static_cast<uint64_t>(v);
}

std::optional<double> fold_real(Op op, std::span<const LiteralValue> x) {
    const double a = x[0].real, b = x.size() > 1 ? x[1].real : 0;
    switch (op) {
    case Op::Add:
        return a + b;
    case Op::Sub:
        return a - b;
    case Op::Mul:
        return a * b;
    case Op::Div:
        return a / b;
    case Op::Neg:
        return -a;
    case Op::Abs:
        return std::fabs(a);
    case Op::Sqrt:
        return std::sqrt(a);
    case Op::Floor:
        return std::floor(a);
    case Op::Ceil:
        return std::ceil(a);
    case Op::Round:
        return std::nearbyint(a);
    case Op::Trunc:
        return std::trunc(a);
    default:
        return std::nullopt;
    }
}

std::optional<int64_t> fold_integer(Op op, std::span<const LiteralValue> x) {
    const int64_t a = x[0].integer, b = x.size() > 1 ? x[1].integer : 0;
    switch (op) {
    case Op::Add:
        return static_cast<int64_t>(bits(a) + bits(b));
    case Op::Sub:
        return static_cast<int64_t>(bits(a) - bits(b));
    case Op::Mul:
        return static_cast<int64_t>(bits(a) * bits(b));
    case Op::Neg:
        return static_cast<int64_t>(0 - bits(a));
    case Op::Abs:
        return a < 0 ? static_cast<int64_t>(0 - bits(a)) : a;
    case Op::Minimum:
        return std::min(a, b);
    case Op::Maximum:
        return std::max(a, b);
    case Op::And:
        return a & b;
    case Op::Or:
        return a | b;
    case Op::Xor:
        return a ^ b;
    case Op::Not:
        return x[0].dtype == DType::Bool ? a == 0 : ~a;
    default:
        return std::nullopt;
    }
}

template <class T>
std::optional<bool> compare(Op op, T a, T b) {
    switch (op) {
    case Op::Eq:
        return a == b;
    case Op::Ne:
        return a != b;
    case Op::Lt:
        return a < b;
    case Op::Le:
        return a <= b;
    case Op::Gt:
        return a > b;
    case Op::Ge:
        return a >= b;
    default:
        return std::nullopt;
    }
}

int64_t cast(DType to, const LiteralValue &x) {
    if (is_float(to))
        // Integers of 64 bits round once, to f32 or f64; half types go through f32 as in kernels.
        return scalar_word(is_float(x.dtype) ? round_to(to, x.real)
                           : to == DType::F64
                               ? static_cast<double>(x.integer)
                               : round_to(to, static_cast<double>(static_cast<float>(x.integer))));
    if (to == DType::Bool)
        return is_float(x.dtype) ? x.real != 0 : x.integer != 0;
    return is_float(x.dtype) ? saturate_to(to, x.real) : wrap_to(to, x.integer);
}

} // namespace

double round_to(DType dtype, double v) {
    switch (dtype) {
    case DType::F16:
        return half_to_float(float_to_half(static_cast<float>(v)));
    case DType::BF16:
        return bfloat_to_float(float_to_bfloat(static_cast<float>(v)));
    case DType::F32:
        return static_cast<float>(v);
    default:
        return v;
    }
}

std::optional<int64_t> fold_literals(Op op, DType result, std::span<const LiteralValue> operands) {
    if (op == Op::Cast)
        return cast(result, operands[0]);
    const bool real = is_float(operands[0].dtype);
    if (operands.size() == 2)
        if (const auto truth = real ? compare(op, operands[0].real, operands[1].real)
                                    : compare(op, operands[0].integer, operands[1].integer))
            return *truth;
    if (real) {
        const auto v = fold_real(op, operands);
        return v ? std::optional(scalar_word(round_to(result, *v))) : std::nullopt;
    }
    const auto v = fold_integer(op, operands);
    return v ? std::optional(wrap_to(result, *v)) : std::nullopt;
}

} // namespace lz::passes
