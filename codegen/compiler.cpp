#include "codegen/compiler.h"

#include "ir/diagnostic.h"

namespace lz::codegen {

ir::CompiledKernel Compiler::compile_source(const runtime::KernelSource &source) const {
    throw ir::Failure(ir::ErrorKind::Compile,
                      "Kernel " + source.name + " is CUDA C++, which this device does not run.");
}

} // namespace lz::codegen
