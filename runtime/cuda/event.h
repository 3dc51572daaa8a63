#pragma once
/// An event of the driver's that has an owner.

#include "runtime/cuda/device.h"

namespace lz::runtime::cuda {

class OwnedEvent {
public:
    /// `flags` are those of cuEventCreate.
    OwnedEvent(const CudaDevice &device, unsigned flags);
    ~OwnedEvent();
    OwnedEvent(const OwnedEvent &) = delete;
    OwnedEvent &operator=(const OwnedEvent &) = delete;
    CUevent get() const { return event_; }

private:
    const CudaDevice &device_;
    CUevent event_ = nullptr;
};

} // namespace lz::runtime::cuda
