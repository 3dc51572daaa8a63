#include "codegen/host.h"

#include "codegen/interpreter.h"

#include <utility>

namespace lz::codegen {

std::optional<ir::IsaLevel> host_level() {
    for (const ir::IsaLevel level :
         {ir::IsaLevel::V4Amx, ir::IsaLevel::V4Bf16, ir::IsaLevel::V4, ir::IsaLevel::V3})
        if (ir::runs_here(level))
            return level;
    return std::nullopt;
}

runtime::ModuleLoader host_loader(runtime::ModuleLoader objects) {
    return [objects = std::move(objects)](const ir::CompiledKernel &kernel) {
        return kernel.format == ir::CodeFormat::KernelText ? load_interpreted(kernel) : objects(kernel);
    };
}

} // namespace lz::codegen
