#pragma once
/// The devices of a process that runs program files and nothing else.

#include "ir/saved/saved_program.h"
#include "runtime/allocator/caching_allocator.h"
#include "runtime/allocator/pinned_memory.h"
#include "runtime/cpu/backend.h"
#include "runtime/saved/library_code.h"
#include "runtime/saved/load.h"

#include <memory>
#include <mutex>
#include <vector>

namespace lz::run {

/// The CPU; and GPUs, once a file asks for some: as many virtual ones as LAZULI_VIRTUAL_GPUS says, or those
/// of the CUDA driver, which is opened then.
class RunDevices {
public:
    /// Never destroyed: programs in static storage may die later.
    static RunDevices &get();

    /// Where the Programs of a file run. It stays.
    const runtime::LoadingPlace &place_of(const ir::SavedProgram &file);
    /// A device that is there.
    const runtime::DeviceSlot &slot(ir::Device device) const;

private:
    RunDevices();
    void open_gpus();
    bool give_access(ir::Device who, ir::Device whose) const;

    runtime::LibraryCode library_; ///< of the files that were loaded
    runtime::CpuBackend cpu_;
    runtime::CachingAllocator cpu_allocator_;
    runtime::LoadingPlace cpu_place_, place_; ///< without GPUs, and with them
    std::once_flag opened_;
    std::vector<std::unique_ptr<runtime::Backend>> gpus_;
    std::unique_ptr<runtime::PinnedMemory> pinned_memory_;
    std::unique_ptr<runtime::CachingAllocator> pinned_;
    std::vector<std::unique_ptr<runtime::CachingAllocator>> allocators_; ///< of the GPUs
};

} // namespace lz::run
