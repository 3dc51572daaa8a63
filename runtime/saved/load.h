#pragma once
/// A program file's Programs, ready to run: no compiler takes part.

#include "ir/saved/saved_program.h"
#include "runtime/executor/executor.h"
#include "runtime/saved/library_code.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lz::runtime {

/// Where Programs of files run.
struct LoadingPlace {
    std::vector<DeviceSlot> devices; ///< cpu, cuda:0, ...; they outlive what is loaded
    std::string no_gpu = {};         ///< why there is no GPU, a sentence; empty where there is one
    /// Whether a GPU may access the memory of another one.
    std::function<bool(Device who, Device whose)> may_access = {};
    // Of CUDA devices; not set where there can be none.
    LibrarySource source = nullptr;                    ///< runtime/cuda/gpus.h
    std::function<std::string()> why_no_cublaslt = {}; ///< a sentence; empty where it is there
    LibraryCode *library = nullptr;                    ///< gets what files have of the library's kernels
    bool compiles = false;                             ///< and what they do not have is compiled
};

/// GPUs of which the first may have to access the memory of the second.
using PeerPairs = std::vector<std::pair<Device, Device>>;

class ProgramLoader {
public:
    /// Looks whether the devices of the file are there. The file and the place stay as long as this. Throws
    /// Failure(Device), a sentence that goes on after the file's name.
    ProgramLoader(const ir::SavedProgram &file, const LoadingPlace &place);

    /// The Program of a plan for this machine, with its code loaded. Throws Failure(Io) where the file does
    /// not fit together, Failure(Compile) where it has no code for this processor, or code that cannot be
    /// loaded, and Failure(Device) where a GPU is too old, or lacks something that the Program needs.
    std::shared_ptr<const LoadedProgram> load(const ir::SavedPlan &plan);

private:
    const ir::SavedDevice *find(Device device) const;
    Backend &backend(Device device) const { return *place_.devices[slot(device)].backend; }
    static size_t slot(Device device) {
        return device.kind == ir::DeviceKind::Cpu ? 0 : size_t{1} + device.index;
    }
    bool is_cuda(Device device) const;
    std::string called(Device device) const;
    void find_device(const ir::SavedDevice &wanted) const;
    void check(const ir::Program &program, const ir::SavedPlan &plan) const;
    void check_work_items(const ir::Program &program) const;
    void check_peers(const ir::Program &program) const;
    void check_library(const ir::Program &program, const ir::SavedPlan &plan) const;
    void check_limits(const ir::CompiledPhase &phase, Device device) const;
    const ir::SavedCode &code_of(const ir::SavedVariant &variant, uint32_t kernel, Device device) const;
    std::shared_ptr<const Module> module_of(const ir::SavedCode &code, Device device);
    std::shared_ptr<const UnalignedKernel> unaligned_of(const ir::SavedCode &code, Device device);
    void check_phases(const ir::SavedCode &code, const ir::Kernel &kernel, Device device) const;

    const ir::SavedProgram &file_;
    const LoadingPlace &place_;
    template <class T>
    using ByCode = std::map<std::pair<const ir::SavedCode *, std::string>, std::shared_ptr<const T>>;
    ByCode<Module> modules_;
    ByCode<UnalignedKernel> unaligned_;
};

/// Between which GPUs a Program reads, writes or copies memory as peers do.
PeerPairs peers_of(const ir::Program &program);

} // namespace lz::runtime
