#pragma once
/// What each scalar operation of the Kernel IR is in LLVM. Operands are scalars or vectors alike, and both
/// forms run the same sequence, so a result does not depend on where in a vector it stands.

#include "codegen/llvm/builder.h"
#include "ir/kernel/kernel.h"
#include "ir/target.h"

namespace lz::codegen {

/// Which instructions may be used.
struct OpTarget {
    bool hardware_half = false; ///< conversions between f16 and f32
    bool vector_i64_to_float = false;
    bool scale_512 = false; ///< Builder::scale_512
};
OpTarget op_target(const ir::CpuIsa &isa);

/// Arith, Compare and Convert. `dtype` is the result's, `from` that of the first operand (the second for
/// Select). Throws Failure(Internal) for others.
Value emit_op(Builder &b, const OpTarget &target, ir::KOp op, ir::DType dtype, ir::DType from, Value x,
              Value y, Value z);

Value emit_cast(Builder &b, const OpTarget &target, Value x, ir::DType from, ir::DType to);

/// One step of a reduction that is not an arg reduction: a is the older operand.
Value emit_combine(Builder &b, const OpTarget &target, ir::ReduceOp op, ir::DType dtype, Value a, Value x);

/// i1: whether the candidate (value, index) takes the place of the best so far. NaN is the extreme; of equals
/// the smaller index is.
Value emit_better(Builder &b, ir::ReduceOp op, ir::DType dtype, Value value, Value index, Value best,
                  Value best_index);
/// The same where the value comes after what was best: equals change nothing.
Value emit_better_later(Builder &b, ir::ReduceOp op, ir::DType dtype, Value value, Value best);

/// What a reduction starts from, as a scalar or a splat.
Value emit_identity(Builder &b, ir::ReduceOp op, ir::DType dtype, int lanes);

} // namespace lz::codegen
