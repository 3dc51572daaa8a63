#pragma once
/// Kernel IR to CPU code: the emitter's and the loader's public face. No LLVM header is needed to include it.
///
/// Built with LAZULI_CPU_JIT=OFF, `compile_cpu` and the loader throw Failure(Compile), which says so; the
/// rest works.

#include "ir/kernel/compiled_kernel.h"
#include "ir/kernel/kernel.h"
#include "ir/target.h"
#include "runtime/api/backend.h"

#include <string>

namespace lz::codegen {

struct CompileOptions {
    bool want_text = false;     ///< fill CompiledKernel::text with the LLVM IR that is compiled
    bool want_assembly = false; ///< fill CompiledKernel::assembly
    bool fast_math =
        false; ///< products and sums may contract (LAZULI_FAST_MATH); else every op rounds by itself
};

/// Object code of a verified kernel without Math instructions (`expand_math` has run): one symbol a phase,
/// "phase0", "phase1", ..., each a PhaseEntry. Depends on nothing but its arguments and `compiler_version`,
/// so the bytes may be cached. May be called from many threads at once. Throws Failure(Compile) for a kernel
/// or an ISA that cannot be emitted.
ir::CompiledKernel compile_cpu(const ir::Kernel &kernel, const ir::CpuIsa &isa,
                               const CompileOptions &options = {});

/// Loads what `compile_cpu` made into this process; the code is unloaded when the Module dies, which has to
/// be after its last call. May be called from many threads at once.
runtime::ModuleLoader cpu_loader();

/// The ISA of this machine, from its feature bits.
ir::CpuIsa host_isa();

/// What else the bytes depend on, for cache keys: versions of LLVM and of the emitter.
std::string compiler_version();

/// False in builds with LAZULI_CPU_JIT=OFF.
bool cpu_jit_available();

} // namespace lz::codegen
