#include "codegen/cpu.h"

#if LAZULI_CPU_JIT

#include "codegen/host.h"
#include "codegen/llvm_library.h"

#include <fmt/format.h>

#include <utility>

namespace lz::codegen {

namespace {

class LlvmCompiler final : public Compiler {
public:
    LlvmCompiler(ir::CpuIsa isa, CompileOptions options)
        : isa_(std::move(isa)), options_(options),
          key_(fmt::format("{}\n{}\n{}\n{}\n{}\nfast_math={}", isa_.triple, isa_.features, isa_.vector_bytes,
                           isa_.l1_bytes, compiler_version(), options_.fast_math)) {}

    const std::string &key() const override { return key_; }
    ir::CompiledKernel compile(const ir::Kernel &kernel) const override {
        return compile_cpu(kernel, isa_, options_);
    }
    ir::MathForms math_forms() const override {
        return {ir::PhiloxForm::Whole, options_.fast_math ? ir::Accuracy::Fast : ir::Accuracy::TwoUlp};
    }
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

ir::CompiledKernel compile_cpu(const ir::Kernel &kernel, const ir::CpuIsa &isa, const CompileOptions &options,
                               bool emulate_amx) {
    return llvm_library().compile(kernel, isa, options, emulate_amx);
}

runtime::ModuleLoader cpu_loader() {
    return [](const ir::CompiledKernel &kernel) { return llvm_library().load(kernel); };
}

} // namespace lz::codegen

#endif
