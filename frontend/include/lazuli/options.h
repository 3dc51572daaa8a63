#pragma once
/// What a creating function may be told.

#include "lazuli/device.h"
#include "lazuli/dtype.h"

#include <optional>
#include <type_traits>

namespace lz {

/// A device, or none. Text is read at the line where it is written, which its error then names.
class OptionalDevice : public std::optional<Device> {
public:
    constexpr OptionalDevice(std::nullopt_t = std::nullopt) {}                          // NOLINT: converts
    constexpr OptionalDevice(const std::optional<Device> &device) : optional(device) {} // NOLINT: converts
    template <class T>
        requires std::is_convertible_v<const T &, Device>
    constexpr OptionalDevice(const T &device, Location loc = Location::current()) { // NOLINT: converts
        if constexpr (std::is_constructible_v<Device, const T &, Location>)
            emplace(device, loc);
        else
            emplace(device);
    }
};

/// Written as `zeros({2, 3}, {.dtype = f64, .device = "cuda:1"})`. What is left out is the default dtype and
/// device, or that of the tensor given (`zeros_like`, `new_zeros`).
struct TensorOptions {
    std::optional<DType> dtype = std::nullopt;
    OptionalDevice device = std::nullopt;
    /// Page-locked memory of the host (S31): for tensors on the CPU. Throws DeviceError where there is no
    /// GPU.
    bool pinned = false;
    /// As `requires_grad_()`: floats only.
    bool requires_grad = false;
};

/// How a copy between devices is made. Copies never make the host wait and are always ordered with what reads
/// and writes either side (S30, S33), so that the option changes no result.
struct CopyOptions {
    /// A copy to the CPU then goes to pinned memory, which the GPU writes without the host's help. From
    /// pinned memory copies to a GPU overlap with work in any case; from other memory they may (S32).
    bool non_blocking = false;
};

/// How a loss becomes one number, or stays one of each element: BatchMean, the sum divided by the extent of
/// axis 0, is known to kl_div alone.
enum class Reduction : uint8_t { None, Mean, Sum, BatchMean };

} // namespace lz
