#pragma once
/// An index of `at` against a shape.

#include "frontend/ops/compose.h"
#include "lazuli/ops/indexing.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lz::indexing {

using detail::Shape;

/// One tensor of positions and the axis of x that it picks from.
struct Positions {
    const Tensor *tensor;
    int axis;
};

/// An index against a shape. The part is x cut to starts/sizes/steps, flipped along `flipped`, and reshaped
/// from `sizes` to `result`: integers go away and None comes in. Axes with tensors of positions are whole in
/// `sizes` and not in `result`, where the shape of all positions together comes in at `picked_at`.
struct Plan {
    int64_t starts[ir::kMaxRank] = {}, sizes[ir::kMaxRank] = {}, steps[ir::kMaxRank] = {};
    std::vector<int64_t> flipped;
    std::vector<int64_t> result;
    size_t rank = 0;
    bool whole = true; ///< the cut is all of x
    std::vector<Positions> positions;
    Shape picked;         ///< the positions broadcast
    size_t picked_at = 0; ///< in `result`
    int first_picked = 0; ///< axes of x before it stay before the picked ones
};

/// Throws IndexError and ShapeError for an index that does not fit.
Plan make_plan(const ir::TensorType &type, std::span<const Index> index, Location loc);

/// The result's shape with the positions' own where they are picked.
std::vector<int64_t> picked_shape(const Plan &plan);

} // namespace lz::indexing
