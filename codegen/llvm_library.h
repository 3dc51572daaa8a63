#pragma once
/// The seam to LLVM. The emitter, and LLVM under it, are a library of their own, liblazuli-llvm.so, which is
/// opened when the first kernel has to be made: loading LLVM takes a process some fifteen milliseconds, and
/// one whose kernels are all in the cache needs none of it.

#include "codegen/compiler.h"
#include "codegen/emitter_id.h"
#include "ir/target.h"
#include "runtime/api/backend.h"

#include <memory>
#include <string>

namespace lz::codegen {

/// Of which build code is: that of LLVM, and of the emitter. compiler_version() is that of who opens the
/// library.
inline std::string build_of(const char *llvm_version) {
    return std::string("LLVM ").append(llvm_version).append(", emitter ").append(emitter_id());
}

/// What liblazuli-llvm.so does. It shares classes with who opens it, so both are of one build.
struct LlvmLibrary {
    /// `build_of` it.
    std::string (*version)();
    /// `compile_cpu` (cpu.h).
    ir::CompiledKernel (*compile)(const ir::Kernel &kernel, const ir::CpuIsa &isa,
                                  const CompileOptions &options, bool emulate_amx);
    /// `cpu_loader` (cpu.h).
    std::unique_ptr<runtime::Module> (*load)(const ir::CompiledKernel &kernel);
    /// The ISA of this machine as LLVM sees it.
    ir::CpuIsa (*host_isa)();
};

/// Its one name that can be seen from outside.
inline constexpr const char *kLlvmLibraryEntry = "lazuli_llvm_library";

/// Opens it at the first call: the file that LAZULI_LLVM_LIBRARY names, or that which lies beside the library
/// or program that calls, or that which the system finds. It stays open. Throws Failure(Compile) where there
/// is none, or one of another build; the next call tries again. Any thread.
const LlvmLibrary &llvm_library();

} // namespace lz::codegen
