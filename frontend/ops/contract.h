#pragma once
/// The general contraction, for matmul and einsum.

#include "lazuli/tensor.h"

namespace lz::detail {

/// Result axes are the batch axes, then the free axes of a, then those of b.
Tensor contract(const Tensor &a, const Tensor &b, std::span<const int64_t> a_batch,
                std::span<const int64_t> b_batch, std::span<const int64_t> a_sum,
                std::span<const int64_t> b_sum, Location loc);

} // namespace lz::detail
