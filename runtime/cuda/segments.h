#pragma once
/// Segments of a device's memory by virtual memory management.

#include "runtime/api/expandable_memory.h"
#include "runtime/cuda/device.h"

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

namespace lz::runtime::cuda {

/// Memory comes in pieces of at most 20 MiB, each an allocation of the driver's without a handle: the driver
/// has it back when it is unmapped.
class Segments final : public ExpandableMemory {
public:
    /// `finish` waits for what is on the device's streams; unlike cuMemFree, cuMemUnmap does not.
    Segments(const CudaDevice &device, size_t device_bytes, std::function<void()> finish)
        : device_(device), device_bytes_(device_bytes), finish_(std::move(finish)) {}

    /// Whether the driver has it for this device; asked once.
    bool supported();
    /// Whether another device may reach all of it, what comes later too. Throws as CudaDevice::check.
    void set_access(CUdevice other, bool enable);

    size_t unit() const override { return unit_; }
    size_t addresses() const override { return (device_bytes_ + unit_ - 1) / unit_ * unit_; }
    char *reserve() override;
    void release(char *begin) noexcept override;
    void map(char *at, size_t bytes) override;
    Range pieces(char *at, size_t bytes) noexcept override;
    void unmap(char *at, size_t bytes) noexcept override;

private:
    CUresult map_piece(CUdeviceptr at, size_t bytes);
    void unmap_all(CUdeviceptr begin, CUdeviceptr end) noexcept;
    CUmemAccessDesc access_of(CUdevice device, bool enable) const;

    const CudaDevice &device_;
    const size_t device_bytes_;
    const std::function<void()> finish_;
    std::mutex mutex_;
    bool asked_ = false, supported_ = false;
    size_t unit_ = 0;
    CUmemAllocationProp properties_{};
    std::vector<CUdevice> readers_;        ///< beside the device itself
    std::map<CUdeviceptr, size_t> pieces_; ///< bytes of each
};

} // namespace lz::runtime::cuda
