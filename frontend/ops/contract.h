#pragma once
/// The general contraction, for matmul and einsum.

#include "ir/types/dtype.h"
#include "lazuli/tensor.h"

#include <optional>

namespace lz::detail {

/// Result axes are the batch axes, then the free axes of a, then those of b. Sums are of `dtype`
/// (ir::can_hold_products), or that of both.
Tensor contract(const Tensor &a, const Tensor &b, std::span<const int64_t> a_batch,
                std::span<const int64_t> b_batch, std::span<const int64_t> a_sum,
                std::span<const int64_t> b_sum, Location loc, std::optional<ir::DType> dtype = {});

} // namespace lz::detail
