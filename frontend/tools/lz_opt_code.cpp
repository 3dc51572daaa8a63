#include "lz_opt_code.h"

#include "codegen/cpu.h"
#include "codegen/cuda/compiler.h"
#include "codegen/cuda/resources.h"
#include "codegen/cuda/source.h"
#include "frontend/engine/compile/failure.h"
#include "ir/diagnostic.h"
#include "ir/kernel/kernel.h"
#include "ir/math/expand.h"
#include "ir/text/text.h"
#include "runtime/cuda/driver/libraries.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace lz::tools {
namespace {

using namespace ir;

codegen::Nvrtc nvrtc_for(std::string_view form) {
    runtime::cuda::Library driver; // NVRTC of any version: nobody loads what it makes
    driver.version = 13000;
    const runtime::cuda::Library nvrtc =
        runtime::cuda::open_nvrtc(runtime::cuda::Search::from_environment(), driver);
    if (!nvrtc)
        throw Failure(ErrorKind::Compile, fmt::format("--to={} needs NVRTC. {}", form, nvrtc.missing));
    return codegen::load_nvrtc(nvrtc.handle);
}

bool runs_on_cuda(const Kernel &kernel) {
    return std::ranges::any_of(kernel.phases, [](const Phase &phase) {
        return std::holds_alternative<CudaSchedule>(phase.schedule);
    });
}

/// A line for each entry of a kernel.
std::string stats(const codegen::Nvrtc &nvrtc, int sm, const Kernel &kernel, const Target &target) {
    CudaLimits limits;
    for (const DeviceInfo &device : target.devices)
        if (const auto *cuda = std::get_if<CudaLimits>(&device.limits))
            limits = *cuda;
    std::string text;
    for (const codegen::CudaResources &r : codegen::cuda_resources(nvrtc, sm, kernel, limits))
        text += fmt::format(
            "{} {}: {} registers, {} bytes spilled, {} bytes shared, {} of {} threads on an SM in blocks of "
            "{}, {} bytes in flight, {} instructions\n",
            kernel.name, r.entry, r.registers, r.spilled_bytes, r.shared_bytes, r.resident_threads,
            limits.threads_per_sm, r.threads, r.bytes_in_flight(), r.instructions);
    return text;
}

/// Makes a form of kernels, whose compiler is opened once.
class Printer {
public:
    Printer(const Target &target, const KernelForm &form) : target_(target), form_(form) {
        const std::string_view to = form_.form;
        if (to == "ptx" || to == "stats")
            nvrtc_ = nvrtc_for(to);
        if (to == "ptx")
            compiler_ = codegen::make_cuda_compiler(*nvrtc_, form_.sm, {}, codegen::CudaCode::Ptx);
        if (to == "llvm" || to == "asm")
            compiler_ = codegen::make_llvm_compiler(target.host().isa,
                                                    {.want_text = true, .want_assembly = to == "asm"});
    }

    /// What stands before the lines of a comment.
    std::string_view comment() const { return form_.form == "llvm" ? ";" : form_.form == "asm" ? "#" : "//"; }

    std::string text_of(Kernel kernel) const {
        const std::string_view to = form_.form;
        if (to == "kernel")
            return print(kernel, {.locations = form_.locations});
        const bool for_cuda = to == "cuda" || to == "ptx" || to == "stats";
        if (for_cuda && !runs_on_cuda(kernel))
            return fmt::format("// kernel {} does not run on a CUDA device\n", kernel.name);
        if (form_.unaligned)
            kernel = any_address(std::move(kernel));
        expand_math(kernel, compiler_ ? compiler_->math_forms() : MathForms{});
        if (to == "cuda")
            return codegen::cuda::make_source(kernel).text;
        if (to == "stats")
            return stats(*nvrtc_, form_.sm, kernel, target_);
        CompiledKernel compiled = compiler_->compile(kernel);
        if (to == "ptx") // it ends in a zero
            return reinterpret_cast<const char *>(compiled.object.data());
        return std::move(to == "asm" ? compiled.assembly : compiled.text);
    }

private:
    const Target &target_;
    const KernelForm form_;
    std::optional<codegen::Nvrtc> nvrtc_;
    std::unique_ptr<codegen::Compiler> compiler_;
};

} // namespace

void print_kernels(const Program &program, const Target &target, const KernelForm &form) {
    const Printer printer(target, form);
    for (size_t k = 0; k < program.kernels.size(); ++k) {
        if (form.lines_of)
            std::cout << engine::kernel_lines(*form.lines_of, program, k, printer.comment());
        std::cout << printer.text_of(program.kernels[k]);
    }
}

} // namespace lz::tools
