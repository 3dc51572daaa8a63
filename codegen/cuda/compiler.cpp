#include "codegen/cuda/compiler.h"

#include "codegen/cuda/prelude.h"
#include "codegen/cuda/source.h"
#include "codegen/cuda/unit.h"
#include "codegen/emitter_id.h"
#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace lz::codegen {

namespace {

class CudaCompiler final : public Compiler {
public:
    CudaCompiler(const Nvrtc &nvrtc, int sm, const CompileOptions &options, CudaCode code)
        : nvrtc_(nvrtc), options_(options) {
        int major = 0, minor = 0;
        check_nvrtc(nvrtc_, nvrtc_.version(&major, &minor), "its version");
        const int arch = cuda_architecture(nvrtc_, sm);
        // A device runs what was made for an older one of its generation; newer ones finish PTX of any.
        is_cubin_ = code == CudaCode::Fitting && arch == sm;
        architecture_ = fmt::format("--gpu-architecture={}_{}", is_cubin_ ? "sm" : "compute", arch);
        key_ =
            fmt::format("CUDA C++, emitter {}, NVRTC {}.{}, {}", emitter_id(), major, minor, architecture_);
        if (options.fast_math)
            key_ += ", fast math";
        if (options.fast_compile)
            key_ += ", compiled fast";
    }

    const std::string &key() const override { return key_; }
    FileEndings endings() const override { return {"cu", "ptx"}; }
    ir::MathForms math_forms() const override {
        return {.accuracy = options_.fast_math ? ir::Accuracy::Fast : ir::Accuracy::TwoUlp};
    }

    ir::CompiledKernel compile(const ir::Kernel &kernel) const override {
        cuda::Source source = cuda::make_source(kernel);
        ir::CompiledKernel compiled;
        compiled.name = kernel.name;
        compiled.phases = std::move(source.phases);
        fill(compiled, std::move(source.text));
        return compiled;
    }

    /// NVRTC takes 20 ms before it begins with a kernel. What is dumped is one kernel's.
    bool joins() const override { return !options_.want_text && !options_.want_assembly; }
    ir::CompiledKernel compile_together(std::span<const ir::Kernel *const> kernels) const override {
        cuda::Source source = cuda::make_source(kernels);
        ir::CompiledKernel compiled;
        compiled.name = fmt::format("{} and {} more", kernels[0]->name, kernels.size() - 1);
        compiled.phases = std::move(source.phases);
        fill(compiled, std::move(source.text));
        return compiled;
    }

    ir::CompiledKernel compile_source(const runtime::KernelSource &source) const override {
        ir::CompiledKernel compiled;
        compiled.name = source.name;
        for (const std::string &entry : source.entries)
            compiled.phases.emplace_back(
                ir::CompiledPhase{.symbol = entry, .shared_bytes = source.shared_bytes});
        fill(compiled, (source.uses_prelude ? cuda::prelude_for(source.text) : "") + source.text);
        return compiled;
    }

private:
    /// With what NVRTC makes of the text, whose entries are there already.
    void fill(ir::CompiledKernel &compiled, std::string text) const {
        compiled.format = is_cubin_ ? ir::CodeFormat::Cubin : ir::CodeFormat::Ptx;
        const cuda::Unit unit(nvrtc_, compiled.name, text, architecture_,
                              {options_.fast_math, options_.fast_compile});
        compiled.object = is_cubin_ ? unit.cubin() : unit.ptx();
        if (options_.want_assembly)
            compiled.assembly = unit.ptx_text();
        if (options_.want_text)
            compiled.text = std::move(text);
    }

    const Nvrtc nvrtc_;
    const CompileOptions options_;
    std::string architecture_, key_;
    bool is_cubin_ = false;
};

} // namespace

int cuda_architecture(const Nvrtc &nvrtc, int sm) {
    int count = 0;
    check_nvrtc(nvrtc, nvrtc.num_archs(&count), "its architectures");
    std::vector<int> archs(static_cast<size_t>(count));
    check_nvrtc(nvrtc, nvrtc.archs(archs.data()), "its architectures");
    int architecture = 0;
    for (const int a : archs)
        architecture = a <= sm ? std::max(architecture, a) : architecture;
    if (architecture > 0)
        return architecture;
    int major = 0, minor = 0;
    check_nvrtc(nvrtc, nvrtc.version(&major, &minor), "its version");
    throw ir::Failure(ir::ErrorKind::Compile,
                      fmt::format("NVRTC {}.{} has no architecture that sm_{} runs: the oldest is sm_{}.",
                                  major, minor, sm, archs.empty() ? 0 : *std::ranges::min_element(archs)));
}

std::unique_ptr<Compiler> make_cuda_compiler(const Nvrtc &nvrtc, int sm, CompileOptions options,
                                             CudaCode code) {
    return std::make_unique<CudaCompiler>(nvrtc, sm, options, code);
}

} // namespace lz::codegen
