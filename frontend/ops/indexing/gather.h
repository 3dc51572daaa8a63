#pragma once
/// Indices as gathers take them.

#include "lazuli/tensor.h"

#include <cstdint>

namespace lz::detail {

/// Indices that count from the end where they are negative, all counted from the front.
Tensor from_front(const Tensor &index, int64_t extent, Location loc);

/// Where a bool tensor is true: positions in row-major order, in a row. Sync point.
Tensor positions_where(const Tensor &mask, Location loc);

} // namespace lz::detail
