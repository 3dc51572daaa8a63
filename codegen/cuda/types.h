#pragma once
/// Dtypes and operations of Kernel IR as CUDA C++.

#include "ir/kernel/kernel.h"

#include <string>
#include <string_view>

namespace lz::codegen::cuda {

/// The C++ type of a value: half types are their bits.
std::string_view c_type(ir::DType dtype);

/// A literal with exactly these bits.
std::string literal(ir::DType dtype, uint64_t bits);

/// Operands of an operation, as expressions that need no parentheses.
struct Operands {
    std::string x, y, z;
    ir::DType from;                ///< dtype of x
    bool y_is_small_const = false; ///< a constant from 0 to the width - 1
};

/// What an arithmetic, comparing or converting operation computes.
std::string expression(ir::KOp op, ir::DType dtype, const Operands &o);
/// The same of indices, which do not overflow: plain operators.
std::string index_expression(ir::KOp op, const Operands &o);
/// What an operation of integers gives that has not to be computed: x of x ^ 0. Else empty.
std::string known_result(ir::KOp op, const Operands &o);

} // namespace lz::codegen::cuda
