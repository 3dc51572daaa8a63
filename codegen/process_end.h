#pragma once
/// Kernels that are wanted when LLVM or NVRTC is gone. Much of what these need are statics that they make
/// when they first use them, and those are destroyed at exit before every object that the user made earlier;
/// whose destructor may still compute something new (S68). In place of LLVM the interpreter runs that; of
/// NVRTC it is told.

namespace lz::codegen {

/// To be called after each use of LLVM, before anybody else may make a static object: what it has made by now
/// will be gone at exit before that.
void note_llvm_use();
bool llvm_is_gone();

/// The same for NVRTC.
void note_nvrtc_use();
bool nvrtc_is_gone();

} // namespace lz::codegen
