#pragma once
/// The devices that programs name.

#include "ir/types/type.h"
#include "lazuli/core/location.h"
#include "lazuli/device/device.h"

namespace lz::detail {

/// Resolves an index of -1 and throws DeviceError for a device that is not there.
ir::Device to_ir(const Device &device, Location loc);

} // namespace lz::detail
