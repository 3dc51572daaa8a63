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

std::optional<ir::IsaLevel> host_level() {
    for (const ir::IsaLevel level :
         {ir::IsaLevel::V4Amx, ir::IsaLevel::V4Bf16, ir::IsaLevel::V4, ir::IsaLevel::V3})
        if (ir::runs_here(level))
            return level;
    return std::nullopt;
}

} // namespace lz::codegen
