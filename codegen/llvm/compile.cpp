#include "codegen/cpu.h"
#include "codegen/host.h"
#include "codegen/llvm/contraction/contraction.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/machine/target.h"

#include <fmt/format.h>

#include <utility>

namespace lz::codegen {

ir::CompiledKernel compile_cpu(const ir::Kernel &kernel, const ir::CpuIsa &isa, const CompileOptions &options,
                               bool emulate_amx) {
    const EmitOptions emit{isa, options.fast_math, emulate_amx};
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

namespace {

class LlvmCompiler final : public Compiler {
public:
    LlvmCompiler(ir::CpuIsa isa, CompileOptions options)
        : isa_(std::move(isa)), options_(options),
          key_(fmt::format("{}\n{}\n{}\n{}\nfast_math={}", isa_.triple, isa_.features, isa_.vector_bytes,
                           compiler_version(), options_.fast_math)) {}

    const std::string &key() const override { return key_; }
    ir::CompiledKernel compile(const ir::Kernel &kernel) const override {
        return compile_cpu(kernel, isa_, options_);
    }
    ir::PhiloxForm philox_form() const override { return ir::PhiloxForm::Whole; }
    bool needs_llvm() const override { return true; }

private:
    const ir::CpuIsa isa_;
    const CompileOptions options_;
    const std::string key_;
};

} // namespace

std::unique_ptr<Compiler> make_llvm_compiler(ir::CpuIsa isa, CompileOptions options) {
    return std::make_unique<LlvmCompiler>(std::move(isa), options);
}

} // namespace lz::codegen
