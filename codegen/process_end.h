#pragma once
/// Kernels that are wanted when LLVM is gone. Much of what LLVM needs are statics that it makes when it first
/// uses them, and those are destroyed at exit before every object that the user made earlier; whose
/// destructor may still compute something new (S68). The interpreter runs that.

namespace lz::codegen {

/// To be called after each use of LLVM, before anybody else may make a static object: what it has made by now
/// will be gone at exit before that.
void note_llvm_use();
bool llvm_is_gone();

} // namespace lz::codegen
