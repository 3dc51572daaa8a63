#pragma once
/// What a creating function may be told.

#include "lazuli/device.h"
#include "lazuli/dtype.h"

#include <optional>

namespace lz {

/// Written as `zeros({2, 3}, {.dtype = f64, .device = "cuda:1"})`. What is left out is the default dtype and
/// device, or that of the tensor given (`zeros_like`, `new_zeros`).
struct TensorOptions {
    std::optional<DType> dtype = std::nullopt;
    std::optional<Device> device = std::nullopt;
    /// Page-locked memory (S31). Throws DeviceError where there is no GPU.
    bool pinned = false;
};

/// How a loss becomes one number.
enum class Reduction : uint8_t { None, Mean, Sum };

} // namespace lz
