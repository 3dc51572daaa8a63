#pragma once
/// Scalar semantics of Kernel IR operations over raw bits, a row of lanes at a time.

#include "ir/kernel/kernel.h"

#include <cstdint>

namespace lz::ir {

/// out[i] = op(x[i], y[i], z[i]) for i < lanes; values in storage format, zero extended. Arith, Compare,
/// Convert and Math. `from` is the dtype of the first operand (the compared dtype, the source of a
/// conversion).
void evaluate_lanes(KOp op, DType dtype, DType from, const uint64_t *x, const uint64_t *y, const uint64_t *z,
                    uint64_t *out, int lanes);

} // namespace lz::ir
