#pragma once
/// Machine code without LLVM: loads the objects that code generation writes for x86-64.

#include "runtime/api/backend.h"

namespace lz::runtime {

/// Loads an ELF object of position-independent kernels: code and read-only data, with references among them
/// and calls of the few functions that kernels call (ir/host/fold_levels.h, memcpy and its like). The code is
/// unloaded when the Module dies. Throws Failure(Compile) for everything else: another format or processor,
/// other kinds of references, a name that is not known. Every offset in the object is checked; what the code
/// does is not. Any thread.
std::unique_ptr<Module> load_object(const CompiledKernel &kernel);

} // namespace lz::runtime
