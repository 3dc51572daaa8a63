#pragma once
/// What an index reads, and a tensor with that replaced.

#include "frontend/ops/indexing/plan.h"
#include "lazuli/tensor.h"

namespace lz::indexing {

/// The part of x.
Tensor read(const Tensor &x, const Plan &plan, Location loc);

/// The pending slice that a part shows, flipped and reshaped as it may be, if it is the cut of the plan.
detail::Node *slice_of(const Tensor &part, const Plan &plan);

/// x with the part replaced by `value`, which has the part's shape. `read`: the slice of the same part that
/// the value is computed from, if it is.
Tensor written(const Tensor &x, const Plan &plan, const Tensor &value, Location loc,
               detail::Node *read = nullptr);

/// x with `value`, which has the part's shape, added to the part; of places that are named twice both count.
Tensor added(const Tensor &x, const Plan &plan, const Tensor &value, Location loc);

} // namespace lz::indexing
