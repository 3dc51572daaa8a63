#pragma once
/// Object code into the process, by LLVM: for processors whose objects the runtime's own loader
/// (runtime/cpu/object.h) does not read.

#include "runtime/api/backend.h"

#include <memory>

namespace lz::codegen {

/// `cpu_loader` (codegen/cpu.h).
std::unique_ptr<runtime::Module> load_by_jitlink(const ir::CompiledKernel &kernel);

} // namespace lz::codegen
