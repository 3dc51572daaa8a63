#pragma once
/// Machine code on its way into program files.

#include "frontend/engine/engine.h"
#include "ir/saved/saved_program.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lz::engine {

/// Code of the kernels of several Programs, each once, and the GPUs that they use.
class ProgramCode {
public:
    ProgramCode();
    ~ProgramCode();
    ProgramCode(const ProgramCode &) = delete;
    ProgramCode &operator=(const ProgramCode &) = delete;

    /// The Program of an executable's graph, and its code. Where some of it is the host's there is a variant
    /// for each of the levels that are saved: this machine's, and x86-64-v3. Of kernels on CUDA devices there
    /// are what NVRTC makes for the device, and PTX, which newer ones run. `words` are the Program's runtime
    /// words. Throws Failure(Compile) where there is no compiler or no such code, and what the passes throw.
    std::vector<ir::SavedVariant> variants_of(const Executable &executable, std::span<const int64_t> words);
    /// A device that the file names, because tensors are there, whether a Program uses it or not.
    void add_device(ir::Device device);
    /// Puts it into a file. Once, at the end.
    void give(ir::SavedProgram &file);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace lz::engine
