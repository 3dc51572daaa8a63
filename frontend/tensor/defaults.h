#pragma once
/// Where tensors are made, and of which dtype, if the user does not say it.

#include "ir/types/type.h"
#include "lazuli/core/options.h"
#include "lazuli/tensor.h"

namespace lz::detail {

/// Where tensors are made: the options, else the defaults; or else those of `like`.
struct ResolvedOptions {
    ir::DType dtype;
    ir::Device device;
    bool pinned = false;
    bool requires_grad = false;
};
ResolvedOptions resolve(const TensorOptions &options, const char *function, Location loc);
ResolvedOptions resolve_like(const Tensor &x, const TensorOptions &options, const char *function,
                             Location loc);
ir::DType default_dtype();
ir::Device default_device(Location loc);

} // namespace lz::detail
