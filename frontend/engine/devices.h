#pragma once
/// The devices of the process: their backends, allocators and what passes are told about them. Found once.

#include "codegen/compiler.h"
#include "frontend/engine/options.h"
#include "ir/target.h"
#include "runtime/allocator/caching_allocator.h"
#include "runtime/api/persistent_store.h"
#include "runtime/cpu/backend.h"
#include "runtime/executor/executor.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lz::codegen {
class KernelCache; // codegen/cache/kernel_cache.h
}

namespace lz::engine {

class Devices {
public:
    /// Tests: what stands between the engine and a GPU's backend. Set before the engine starts.
    using Wrap = std::function<std::unique_ptr<runtime::Backend>(std::unique_ptr<runtime::Backend>)>;
    static Wrap &wrap();
    /// Tests: the same of the CPU's, whose backend stays where it is. Set likewise, and for all devices or
    /// none: backends know their own kind.
    using WrapCpu = std::function<std::unique_ptr<runtime::Backend>(runtime::Backend &)>;
    static WrapCpu &wrap_cpu();
    /// Tests: what stands between the backends and the loader of the host's code. Set likewise.
    using WrapLoader = std::function<runtime::ModuleLoader(runtime::ModuleLoader)>;
    static WrapLoader &wrap_loader();

    /// Kernels that the runtime writes as text come from `kernels`, which outlives the last call of a
    /// backend; without it they are compiled for each device.
    explicit Devices(const Options &options, codegen::KernelCache *kernels = nullptr);
    ~Devices();

    /// Position of a device among all: cpu, cuda:0, ...
    static size_t slot(ir::Device device) {
        return device.kind == ir::DeviceKind::Cpu ? 0 : size_t{1} + device.index;
    }
    size_t gpus() const { return gpus_.size(); }
    /// The device is there.
    runtime::Backend &backend(ir::Device device) const { return *slots_[slot(device)].backend; }
    runtime::CachingAllocator &allocator(ir::Device device) const { return *slots_[slot(device)].allocator; }
    /// Page-locked memory; null where there is no GPU.
    runtime::CachingAllocator *pinned() const { return pinned_.get(); }
    const std::vector<runtime::DeviceSlot> &slots() const { return slots_; }
    /// A whole sentence; empty when there is one (S11).
    const std::string &why_no_gpu() const { return why_no_gpu_; }
    /// What of CUDA is there, or why it is not; empty where virtual GPUs stand in for it. Where there are
    /// GPUs this opens cuBLASLt, which can take a second, to say what makes products.
    std::string cuda_availability() const;
    /// What makes code for a CUDA device; null for others, which run the host's.
    const codegen::Compiler *cuda_compiler(ir::Device device) const {
        const size_t gpu = slot(device) - 1; // of the CPU: none
        return gpu < cuda_compilers_.size() ? cuda_compilers_[gpu].get() : nullptr;
    }

    /// devices[0] is the CPU; peers are empty.
    std::vector<ir::DeviceInfo> infos() const;

private:
    class PinnedMemory;
    class KernelStore;

    void find_cuda(const Options &options, codegen::KernelCache *kernels);

    runtime::CpuBackend cpu_;
    std::unique_ptr<runtime::Backend> wrapped_cpu_;   ///< of tests
    std::unique_ptr<runtime::PersistentStore> store_; ///< of the GPUs
    std::vector<std::unique_ptr<runtime::Backend>> gpus_;
    std::unique_ptr<PinnedMemory> pinned_memory_;
    std::vector<std::unique_ptr<runtime::CachingAllocator>> allocators_; ///< cpu, cuda:0, ...
    std::unique_ptr<runtime::CachingAllocator> pinned_;
    std::vector<runtime::DeviceSlot> slots_;
    std::string why_no_gpu_, cuda_availability_;
    std::vector<std::shared_ptr<const codegen::Compiler>> cuda_compilers_; ///< by GPU; one an architecture
};

} // namespace lz::engine
