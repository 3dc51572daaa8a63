#pragma once
/// Code for GPUs: one library of the driver for all devices of one compute capability, each of whose
/// functions is found once a device.

#include "runtime/api/backend.h"
#include "runtime/cuda/device.h"

#include <array>
#include <atomic>
#include <map>
#include <string>

namespace lz::runtime::cuda {

inline constexpr int kMaxDevices = 16;

/// What Backend::Launch::entry points to.
struct Entry {
    ir::CompiledPhase phase;
    CUkernel kernel = nullptr;
    /// Of each device, found when it launches it first.
    mutable std::array<std::atomic<CUfunction>, kMaxDevices> on{};

    CUfunction function(const CudaDevice &device) const;
};

class CudaModule final : public Module {
public:
    /// Throws Failure(Compile) for what the driver cannot load.
    CudaModule(const CudaDevice &device, const ir::CompiledKernel &kernel);
    ~CudaModule() override;
    void *entry(const std::string &symbol) const override;

private:
    const Driver &driver_;
    CUlibrary library_ = nullptr;
    std::string name_;
    mutable std::map<std::string, Entry> entries_;
};

} // namespace lz::runtime::cuda
