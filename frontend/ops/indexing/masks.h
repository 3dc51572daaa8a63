#pragma once
/// Masks in an index: positions in their place, where they have to be read.

#include "frontend/ops/compose.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/tensor.h"

#include <span>
#include <vector>

namespace lz::indexing {

bool has_mask(std::span<const Index> index);
/// A mask that stands alone needs not be read to be written through.
bool is_lone_mask(std::span<const Index> index);

/// Throws IndexError for a mask that does not match the axes that it covers.
void check_masks(const ir::TensorType &type, std::span<const Index> index, Location loc);

/// An index whose masks are replaced by the positions where they are true, and x with one axis for all those
/// of a mask.
struct Unmasked {
    Tensor x;
    std::vector<Index> index;
};
/// Sync point.
Unmasked unmasked(const Tensor &x, std::span<const Index> index, Location loc);

/// The mask with axes of extent 1 for those of x that it does not name.
Tensor mask_over(const Tensor &mask, const Tensor &x, Location loc);
/// x with one axis for all those of the mask.
Tensor rows_under(const Tensor &mask, const Tensor &x, Location loc);

} // namespace lz::indexing
