#pragma once
/// The devices of the process: their backends, allocators and what passes are told about them. Found once.

#include "codegen/compiler.h"
#include "frontend/engine/options.h"
#include "ir/target.h"
#include "runtime/allocator/caching_allocator.h"
#include "runtime/allocator/pinned_memory.h"
#include "runtime/api/persistent_store.h"
#include "runtime/cpu/backend.h"
#include "runtime/executor/executor.h"
#include "runtime/saved/library_code.h"

#include <cstdint>
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

    /// What makes code of kernels on a CUDA device for files, which other devices run, too: cubins for its
    /// compute capability where NVRTC knows that, and PTX for the newest that NVRTC knows up to it.
    struct FileCompiler {
        std::unique_ptr<const codegen::Compiler> compiler;
        uint32_t sm; ///< that it makes code for, 90 for 9.0
    };
    std::vector<FileCompiler> file_compilers(ir::Device device, bool fast_math) const;
    /// `NVRTC 13.0`; empty where there is no CUDA device.
    const std::string &nvrtc_name() const { return nvrtc_name_; }
    /// What the library's functions launch on CUDA devices; null where there is none.
    runtime::LibrarySource library_source() const;
    /// Such kernels from program files.
    runtime::LibraryCode &library_code() { return library_code_; }

    /// devices[0] is the CPU; peers are empty.
    std::vector<ir::DeviceInfo> infos() const;

private:
    class KernelStore;

    void find_cuda(const Options &options, codegen::KernelCache *kernels);

    runtime::LibraryCode library_code_; ///< outlives the backends
    runtime::CpuBackend cpu_;
    std::unique_ptr<runtime::Backend> wrapped_cpu_;   ///< of tests
    std::unique_ptr<runtime::PersistentStore> store_; ///< of the GPUs
    std::vector<std::unique_ptr<runtime::Backend>> gpus_;
    std::unique_ptr<runtime::PinnedMemory> pinned_memory_;
    std::vector<std::unique_ptr<runtime::CachingAllocator>> allocators_; ///< cpu, cuda:0, ...
    std::unique_ptr<runtime::CachingAllocator> pinned_;
    std::vector<runtime::DeviceSlot> slots_;
    std::string why_no_gpu_, cuda_availability_, nvrtc_name_;
    void *nvrtc_ = nullptr;                                                ///< open
    std::vector<std::shared_ptr<const codegen::Compiler>> cuda_compilers_; ///< by GPU; one an architecture
};

} // namespace lz::engine
