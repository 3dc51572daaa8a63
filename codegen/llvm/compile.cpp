// What liblazuli-llvm.so does (codegen/llvm_library.h).
#include "codegen/llvm/contraction/contraction.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/machine/loader.h"
#include "codegen/llvm/machine/target.h"
#include "codegen/llvm_library.h"

#include <string>
#include <vector>

namespace lz::codegen {

namespace {

ir::CompiledKernel compile(const ir::Kernel &kernel, const ir::CpuIsa &isa, const CompileOptions &options,
                           bool emulate_amx) {
    const EmitOptions emit{isa, emulate_amx};
    // Not the kernel's name: equal kernels are equal bytes.
    Builder builder("kernel");
    if (options.fast_math)
        builder.allow_contraction();
    ir::CompiledKernel compiled;
    compiled.name = kernel.name;
    for (const ir::Phase &phase : kernel.phases) {
        compiled.phases.push_back({"phase" + std::to_string(compiled.phases.size())});
        const std::vector<Value> p =
            builder.begin_entry(compiled.phases.back().symbol, isa.features, isa.vector_bytes);
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

std::string version() {
    return build_of(LAZULI_LLVM_VERSION);
}

} // namespace

} // namespace lz::codegen

extern "C" [[gnu::visibility("default")]] const lz::codegen::LlvmLibrary *lazuli_llvm_library() {
    using namespace lz::codegen;
    static constexpr LlvmLibrary library{version, compile, load_by_jitlink, isa_by_llvm};
    return &library;
}
