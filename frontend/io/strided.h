#pragma once
/// Elements that lie apart.

#include "frontend/io/source.h"

namespace lz::io {

/// Whether elements with these strides (in elements) lie one after the other in row-major order.
bool is_row_major(const Sizes &sizes, const Sizes &strides);

/// A copy in row-major order of elements of `width` bytes, of which the first is at `first`.
Buffer in_row_major_order(const std::byte *first, const Sizes &sizes, const Sizes &strides, size_t width);

} // namespace lz::io
