#pragma once
/// Page-locked memory of the host.

#include "ir/types/type.h"
#include "lazuli/core/location.h"
#include "lazuli/tensor.h"

namespace lz::detail {

/// A tensor on the CPU that only the caller knows yet, in page-locked memory; copied there if it has run.
Tensor in_pinned_memory(const Tensor &made, Location loc);

/// Throws DeviceError for memory that cannot be page-locked.
void check_pinned(ir::Device device, const char *function, Location loc);

} // namespace lz::detail
