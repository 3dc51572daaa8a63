#include "frontend/engine/compile/open_alignment.h"

#include "codegen/cache/kernel_cache.h"
#include "runtime/api/parallel.h"
#include "runtime/api/unaligned_kernel.h"

#include <algorithm>
#include <exception>
#include <vector>

namespace lz::engine {
namespace {

bool is_open(const ir::CompiledPhase &phase, const ir::Segment &segment) {
    return std::ranges::any_of(phase.alignments, [&](const ir::LaunchAlignment &a) {
        return a.kind == ir::LaunchAlignment::Arg && !segment.args[a.index].terms.empty();
    });
}

bool is_open(const ir::Program &program, const runtime::ProgramKernel &kernel) {
    return kernel.code.unaligned && std::ranges::any_of(program.steps, [&](const ir::Step &step) {
               return step.kind == ir::StepKind::Launch && step.kernel == kernel.kernel &&
                      step.device == kernel.device &&
                      std::ranges::any_of(step.segments, [&](const ir::Segment &segment) {
                          return std::ranges::any_of(kernel.code.phases, [&](const ir::CompiledPhase &phase) {
                              return is_open(phase, segment);
                          });
                      });
           });
}

} // namespace

void make_open_alignments(const ir::Program &program, std::span<const runtime::ProgramKernel> kernels) {
    std::vector<size_t> open;
    for (size_t k = 0; k < kernels.size(); ++k)
        if (is_open(program, kernels[k]))
            open.push_back(k);
    std::vector<std::exception_ptr> failed(open.size());
    runtime::parallel_for(static_cast<int64_t>(open.size()), 1, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
            try {
                kernels[open[i]].code.unaligned->prepare();
            } catch (const ir::Failure &failure) {
                failed[i] = failure.kind() == ir::ErrorKind::Compile
                                ? std::make_exception_ptr(codegen::KernelFailure(failure, open[i]))
                                : std::current_exception();
            }
    });
    for (const std::exception_ptr &failure : failed)
        if (failure)
            std::rethrow_exception(failure);
}

} // namespace lz::engine
