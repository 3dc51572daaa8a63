#pragma once
/// Types of results from those of operands.

#include "ir/op.h"

#include <span>

namespace lz::ir {

/// Type rules: what an op gives for operands of these types. Writes one TensorType a result and throws
/// Failure (Shape, DType, Index) with a whole sentence and no location. Recorder, builder and verifier use
/// this one function. Devices of operands are not compared here (that is `check_devices`): the result has the
/// device of the first operand that is not a 0-dim CPU tensor (S05), else of the first operand, else of the
/// `device` attribute.
void infer_types(const AttrView &attrs, std::span<const TensorType *const> operands,
                 std::span<TensorType> results);

} // namespace lz::ir
