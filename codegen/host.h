#pragma once
/// The machine that this process runs on: what code it runs, and how that is loaded.

#include "ir/saved/isa_level.h"
#include "ir/target.h"
#include "runtime/api/backend.h"

#include <optional>
#include <string>

namespace lz::codegen {

/// False in builds with LAZULI_CPU_JIT=OFF, whose code is the interpreter's.
bool cpu_jit_available();
/// Versions of LLVM and of the emitter.
std::string compiler_version();

/// The ISA of this machine, from its feature bits.
ir::CpuIsa host_isa();
/// That of a level, the same on every machine, for code that others run. Throws Failure(Compile) where this
/// machine is no x86-64.
ir::CpuIsa isa_of(ir::IsaLevel level);
/// The highest level that this machine runs; nothing where it runs none.
std::optional<ir::IsaLevel> host_level();

/// Loads whatever the code generators for the host made, by CompiledKernel::format: `objects` does machine
/// code.
runtime::ModuleLoader host_loader(runtime::ModuleLoader objects);

} // namespace lz::codegen
