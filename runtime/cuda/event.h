#pragma once
/// An event of the driver's that has an owner.

#include "runtime/cuda/device.h"

namespace lz::runtime::cuda {

class Event {
public:
    /// `flags` are those of cuEventCreate.
    Event(const CudaDevice &device, unsigned flags);
    ~Event();
    Event(const Event &) = delete;
    Event &operator=(const Event &) = delete;
    CUevent get() const { return event_; }

private:
    const CudaDevice &device_;
    CUevent event_ = nullptr;
};

} // namespace lz::runtime::cuda
