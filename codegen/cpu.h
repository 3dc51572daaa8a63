#pragma once
/// Code for CPUs: made by LLVM (llvm/), which is opened when it is first asked (llvm_library.h). No LLVM
/// header is needed to include this. In builds with LAZULI_CPU_JIT=OFF all of it throws Failure(Compile),
/// which says so (no_jit.cpp).

#include "codegen/compiler.h"
#include "ir/target.h"
#include "runtime/api/backend.h"

#include <memory>

namespace lz::codegen {

/// LLVM, for a CPU with this ISA.
std::unique_ptr<Compiler> make_llvm_compiler(ir::CpuIsa isa, CompileOptions options = {});

/// What that compiler does: object code with one symbol a phase, "phase0", "phase1", ..., each a PhaseEntry.
/// `emulate_amx`: functions of the process (codegen/llvm/contraction/amx.cpp) are called in place of tile
/// instructions, so that tests run such code on machines without them.
ir::CompiledKernel compile_cpu(const ir::Kernel &kernel, const ir::CpuIsa &isa,
                               const CompileOptions &options = {}, bool emulate_amx = false);

/// LLVM's loader of what `compile_cpu` made, for processors that runtime/cpu/object.h does not know; the code
/// is unloaded when the Module dies, which has to be after its last call. May be called from many threads at
/// once.
runtime::ModuleLoader cpu_loader();

} // namespace lz::codegen
