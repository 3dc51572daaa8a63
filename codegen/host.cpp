#include "codegen/host.h"

#include "codegen/cpu.h"
#include "codegen/interpreter.h"

namespace lz::codegen {

// host_isa, isa_of and compiler_version ask LLVM: llvm/machine/target.cpp, and no_jit.cpp where it is not
// there.

std::optional<ir::IsaLevel> host_level() {
    for (const ir::IsaLevel level :
         {ir::IsaLevel::V4Amx, ir::IsaLevel::V4Bf16, ir::IsaLevel::V4, ir::IsaLevel::V3})
        if (ir::runs_here(level))
            return level;
    return std::nullopt;
}

runtime::ModuleLoader host_loader() {
    return [](const ir::CompiledKernel &kernel) {
        return kernel.format == ir::CodeFormat::KernelText ? load_interpreted(kernel) : cpu_loader()(kernel);
    };
}

} // namespace lz::codegen
