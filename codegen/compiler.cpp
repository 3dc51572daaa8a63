#include "codegen/compiler.h"

#include "ir/diagnostic.h"

namespace lz::codegen {

ir::CompiledKernel Compiler::compile_source(const runtime::KernelSource &source) const {
    throw ir::Failure(ir::ErrorKind::Compile,
                      "Kernel " + source.name + " is CUDA C++, which this device does not run.");
}

ir::CompiledKernel Compiler::compile_together(std::span<const ir::Kernel *const> kernels) const {
    throw ir::Failure(ir::ErrorKind::Compile,
                      "Kernel " + kernels[0]->name + " has to be compiled by itself.");
}

} // namespace lz::codegen
