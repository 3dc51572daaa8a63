#pragma once
/// Tensors in each other's place: what functions of modules without their own parameters are made of.

#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/tensor.h"

namespace lz {

/// Exchanges what two tensors are, for whoever has a handle of them: values, histories, gradients and hooks,
/// as torch.utils.swap_tensors. No copy, nothing is recorded, and leaves that require grad may be swapped.
/// What was recorded from either stays what it is. Throws StateError for an empty tensor.
LZ_API void swap_tensors(Tensor &a, Tensor &b, Location loc = Location::current());

namespace autograd {

/// Another tensor of the same value and the same history: gradients of it go where those of `x` go. In-place
/// changes of one do not show in the other. No copy, and nothing is recorded. Of a leaf it has no `grad()` of
/// its own. Throws StateError for an empty tensor.
LZ_API Tensor alias(const Tensor &x, Location loc = Location::current());

} // namespace autograd
} // namespace lz
