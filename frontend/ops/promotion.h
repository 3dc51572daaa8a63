#pragma once
/// The dtypes in which operands meet (S62), and in which halves are computed (S66).

#include "ir/types/dtype.h"
#include "lazuli/tensor.h"

#include <initializer_list>

namespace lz::detail {

/// PyTorch's promotion of an operand list (S62): the dtype in which they meet.
ir::DType result_type(std::initializer_list<const Operand *> operands, const char *function, Location loc);
/// Whether a result of this dtype is computed from more of the operand than the dtype has (S66): f16 and bf16
/// are computed in f32, which numbers and 0-dim tensors of other dtypes enter without being rounded first.
bool enters_wide(const Operand &x, ir::DType result);
/// The operand in the dtype that `result` is computed in. All operands and numbers of a composition enter so
/// before anything is computed; what comes of them is cast to `result` once, at the end.
Tensor entered(const Operand &x, ir::DType result, const Tensor &like, Location loc);

} // namespace lz::detail
