#pragma once
/// Arithmetic on literals while compiling, to the bit what a kernel would compute.

#include "ir/op.h"
#include "ir/types/dtype.h"

#include <cstdint>
#include <optional>
#include <span>

namespace lz::passes {

/// A literal as a rule sees it. Integers are exact in `integer`, floats in `real`.
struct LiteralValue {
    ir::DType dtype = ir::DType::F32;
    double real = 0;
    int64_t integer = 0;

    bool is(double v) const { return ir::is_float(dtype) ? real == v : static_cast<double>(integer) == v; }
};

/// Rounds as storing to `dtype` does. +, -, *, / and sqrt of f32 in double and then rounded equal f32
/// arithmetic (Figueroa 1995, "When is double rounding innocuous?": 53 >= 2 * 24 + 2); half types are
/// computed in f32 first.
double round_to(ir::DType dtype, double v);

/// Evaluates an exact op over literals: the word of the result, or nothing where the op is not one of the
/// exact ones or the result is a fault. Arithmetic rounds to `dtype` as a kernel would.
std::optional<int64_t> fold_literals(ir::Op op, ir::DType result, std::span<const LiteralValue> operands);

} // namespace lz::passes
