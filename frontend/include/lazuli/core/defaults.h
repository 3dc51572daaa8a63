#pragma once
/// The dtype and device of tensors that are made without naming one (S02).

#include "lazuli/core/dtype.h"
#include "lazuli/device/device.h"

#include <optional>

namespace lz {

/// For the process; f32 at its start. Throws DTypeError unless it is a floating dtype.
LZ_API void set_default_dtype(DType dtype, Location loc = Location::current());
/// The default dtype of the calling thread.
LZ_API DType get_default_dtype();
/// For the process; the CPU at its start. Throws DeviceError for a device that is not there.
LZ_API void set_default_device(const Device &device, Location loc = Location::current());
/// The default device of the calling thread.
LZ_API Device get_default_device();

/// Another default dtype for this thread until the end of the scope.
class LZ_API DefaultDTypeGuard {
public:
    /// Throws DTypeError unless it is a floating dtype.
    explicit DefaultDTypeGuard(DType dtype, Location loc = Location::current());
    ~DefaultDTypeGuard();
    DefaultDTypeGuard(const DefaultDTypeGuard &) = delete;
    DefaultDTypeGuard &operator=(const DefaultDTypeGuard &) = delete;

private:
    std::optional<DType> before_;
};

/// Another default device for this thread until the end of the scope.
class LZ_API DefaultDeviceGuard {
public:
    /// Throws DeviceError for a device that is not there.
    explicit DefaultDeviceGuard(const Device &device, Location loc = Location::current());
    ~DefaultDeviceGuard();
    DefaultDeviceGuard(const DefaultDeviceGuard &) = delete;
    DefaultDeviceGuard &operator=(const DefaultDeviceGuard &) = delete;

private:
    std::optional<Device> before_;
};

} // namespace lz
