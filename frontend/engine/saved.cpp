#include "frontend/engine/saved.h"

#include "codegen/cpu.h"
#include "codegen/host.h"
#include "frontend/engine/devices.h"
#include "frontend/engine/executable.h"
#include "ir/diagnostic.h"
#include "ir/kernel/key.h"
#include "ir/math/expand.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "runtime/api/parallel.h"
#include "runtime/saved/load.h"
#include "runtime/saved/program_file.h"

#include <fmt/format.h>

#include <utility>

namespace lz::engine {
namespace {

ir::Target target_of(const ir::CpuIsa &isa) {
    ir::Target target = Engine::get().target();
    for (ir::DeviceInfo &device : target.devices)
        if (!device.runs_cuda())
            device.cpu().isa = isa;
    return target;
}

} // namespace

ir::SavedVariant SavedCode::variant_of(const Executable &executable, ir::IsaLevel level) {
    const ir::CpuIsa isa = codegen::isa_of(level);
    const std::unique_ptr<const codegen::Compiler> compiler =
        codegen::make_llvm_compiler(isa, {.fast_math = Engine::get().options().fast_math});
    const ir::Program program = passes::compile(executable.graph, target_of(isa)).program;
    ir::SavedVariant variant{level, ir::print(program), {}};
    variant.code.assign(program.kernels.size(), ir::kNothing);
    std::vector<std::pair<const ir::Kernel *, uint32_t>> missing;
    for (const runtime::ProgramKernel &wanted : runtime::kernels_of(program)) {
        const ir::Kernel &kernel = program.kernels[wanted.kernel];
        const auto [known, is_new] =
            known_.try_emplace(fmt::format("{}\n{}", ir::name(level), ir::cache_key(kernel)),
                               static_cast<uint32_t>(code_.size() + missing.size()));
        variant.code[wanted.kernel] = known->second;
        if (is_new)
            missing.emplace_back(&kernel, known->second);
    }
    code_.resize(code_.size() + missing.size());
    runtime::parallel_for(static_cast<int64_t>(missing.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t m = begin; m < end; ++m) {
            const auto &[kernel, number] = missing[static_cast<size_t>(m)];
            ir::Kernel expanded = *kernel;
            ir::expand_math(expanded, compiler->philox_form());
            code_[number] = compiler->compile(expanded);
        }
    });
    return variant;
}

std::vector<ir::SavedVariant> SavedCode::variants_of(const Executable &executable) {
    if (!codegen::cpu_jit_available())
        throw ir::Failure(
            ir::ErrorKind::Compile,
            "this library was built without LLVM (LAZULI_CPU_JIT=OFF), so that there is no machine "
            "code to save");
    std::vector<ir::SavedVariant> variants;
    const ir::IsaLevel own = codegen::host_level().value_or(ir::IsaLevel::V3);
    variants.push_back(variant_of(executable, own));
    if (own != ir::IsaLevel::V3)
        variants.push_back(variant_of(executable, ir::IsaLevel::V3));
    return variants;
}

std::string called_function(const Executable &executable) {
    for (const ir::Node &node : executable.graph.nodes())
        if (node.op == ir::Op::Call)
            return std::string(executable.graph.attrs(node).string(ir::attr::kCallSymbol));
    return {};
}

std::string graph_text(const Executable &executable) {
    return ir::print(executable.graph);
}

void write_file(const std::string &path, const ir::SavedProgram &program) {
    runtime::write_program_file(path, ir::write_saved(program));
}

std::vector<std::byte> read_file(const std::string &path, bool from_anybody) {
    return runtime::read_program_file(path, from_anybody);
}

std::string made_by() {
    return codegen::compiler_version();
}

ExecutablePtr load_saved(const ir::SavedPlan &plan, const ir::SavedProgram &program) {
    auto executable = std::make_shared<Executable>();
    executable->program = runtime::load_program(plan, program, Engine::get().devices().slots());
    executable->donors.assign(plan.results.size(), -1);
    return executable;
}

} // namespace lz::engine
