#pragma once
/// Kernels that are wanted when LLVM is gone. Much of what LLVM needs are statics that it makes when it first
/// uses them, and those are destroyed at exit before every object that the user made earlier; whose
/// destructor may still compute something new (S68). The interpreter runs that: the same bits as compiled
/// code, but for the order in which products are summed.

#include "ir/kernel/kernel.h"
#include "runtime/api/backend.h"

#include <memory>

namespace lz::codegen {

/// To be called after each use of LLVM, before anybody else may make a static object: what it has made by now
/// will be gone at exit before that.
void note_llvm_use();
bool llvm_is_gone();

/// A kernel without Math instructions (`expand_math` has run) as a Module whose symbols are "phase0",
/// "phase1", ... Throws Failure(Compile) when there are 256 phases of such kernels already.
std::unique_ptr<runtime::Module> load_interpreted(const ir::Kernel &kernel);

} // namespace lz::codegen
