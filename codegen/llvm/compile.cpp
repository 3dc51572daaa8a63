#include "codegen/codegen.h"
#include "codegen/llvm/contraction/contraction.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/target.h"

namespace lz::codegen {

ir::CompiledKernel compile_cpu(const ir::Kernel &kernel, const ir::CpuIsa &isa,
                               const CompileOptions &options) {
    const EmitOptions emit{isa, options.fast_math};
    // Not the kernel's name: equal kernels are equal bytes.
    Builder builder("kernel");
    if (options.fast_math)
        builder.allow_contraction();
    ir::CompiledKernel compiled;
    compiled.name = kernel.name;
    for (const ir::Phase &phase : kernel.phases) {
        compiled.symbols.push_back("phase" + std::to_string(compiled.symbols.size()));
        const std::vector<Value> p =
            builder.begin_entry(compiled.symbols.back(), isa.features, isa.vector_bytes);
        const EntryParams params{p[0], p[1], p[2], p[3]};
        PhaseEmitter emitter(builder, kernel, phase, emit, params);
        if (phase.contraction)
            emit_contraction(emitter, params, emit);
        else
            emitter.emit_grid();
        builder.end_entry();
    }
    if (options.want_text)
        compiled.text = module_text(builder);
    if (options.want_assembly)
        compiled.assembly = module_assembly(builder, isa);
    compiled.object = make_object(builder, isa);
    return compiled;
}

} // namespace lz::codegen
