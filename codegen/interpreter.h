#pragma once
/// The interpreter of Kernel IR as a code generator: its "code" is the kernel's text, and the entry points of
/// a loaded module interpret it. Slow, and right to the bit but for the order in which products are summed.
/// For builds without LLVM, for LAZULI_CODEGEN=interpret, and for the end of the process (process_end.h).

#include "codegen/compiler.h"
#include "runtime/api/backend.h"

#include <memory>

namespace lz::codegen {

std::unique_ptr<Compiler> make_interpreter();

/// Reads what the interpreter's compiler wrote. Throws Failure(Compile) for a text that is no kernel, or one
/// of more than 512 phases.
std::unique_ptr<runtime::Module> load_interpreted(const ir::CompiledKernel &kernel);

} // namespace lz::codegen
