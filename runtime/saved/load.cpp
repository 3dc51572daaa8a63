#include "runtime/saved/load.h"

#include "ir/diagnostic.h"
#include "ir/host/calls.h"
#include "ir/program/program.h"
#include "ir/text/text.h"
#include "runtime/cpu/object.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace lz::runtime {
namespace {

[[noreturn]] void damaged(const std::string &what) {
    throw ir::Failure(ir::ErrorKind::Io, "is damaged: " + what);
}

const ir::SavedVariant &variant_for_this(const ir::SavedPlan &plan) {
    if (const ir::SavedVariant *const best = ir::best_variant(plan))
        return *best;
    std::string levels;
    for (const ir::SavedVariant &variant : plan.variants)
        levels += fmt::format("{}{}", levels.empty() ? "" : ", ", ir::name(variant.level));
    throw ir::Failure(ir::ErrorKind::Compile,
                      fmt::format("has machine code for {}, and this processor runs none of that", levels));
}

ir::Program parse(const ir::SavedVariant &variant) {
    try {
        return ir::parse_program(variant.program);
    } catch (const ir::Failure &failure) {
        damaged("the text of its Program cannot be read: " + failure.message());
    }
}

/// Memory that a run binds is as large as the Program takes it to be.
void check(const ir::Program &program, const ir::SavedPlan &plan, const ir::SavedProgram &saved) {
    const auto need = [](bool good, const char *what) {
        if (!good)
            damaged(what);
    };
    need(program.stage == ir::Stage::Final, "its Program is not finished");
    need(program.num_runtime_words == plan.words.size(), "its Program has other words");
    need(program.user_streams.empty(), "its Program names streams");
    need(program.results.size() == plan.results.size(), "its Program has other results");
    for (size_t r = 0; r < program.results.size(); ++r) {
        const ir::BufferDesc &buffer = program.buffers[program.results[r]];
        need(buffer.kind == ir::BufferKind::Result && buffer.index == r, "a result has no memory of its own");
    }
    for (const ir::ArenaDesc &arena : program.arenas)
        need(arena.device == ir::kCpu && !arena.pinned, "its Program runs on a GPU");
    for (const ir::BufferDesc &buffer : program.buffers) {
        need(buffer.device == ir::kCpu, "its Program runs on a GPU");
        need(buffer.donor < 0, "its Program writes over an input");
        if (buffer.kind == ir::BufferKind::Input) {
            need(buffer.index < plan.inputs.size(), "its Program has other inputs");
            const ir::SavedInput &input = plan.inputs[buffer.index];
            const ir::TensorType &type = input.argument != ir::kNothing
                                             ? plan.arguments[input.argument].type
                                             : saved.constants[input.constant].type;
            need(buffer.bytes <= type.bytes(), "an input is larger in its Program");
        }
        if (buffer.kind == ir::BufferKind::Result)
            need(buffer.index < plan.results.size() && buffer.bytes <= plan.results[buffer.index].bytes(),
                 "a result is larger in its Program");
    }
    for (const ir::Step &step : program.steps) {
        need(step.device == ir::kCpu && !ir::has_effect(step), "a step is no work of the CPU");
        need(!step.symbol.starts_with(ir::kCallPrefix), "a step calls a function of another process");
        need(std::ranges::all_of(step.recorded,
                                 [&](uint32_t at) { return at == ir::kNone || at < plan.operations.size(); }),
             "a step is of no operation");
    }
}

} // namespace

std::shared_ptr<const LoadedProgram> load_program(const ir::SavedPlan &plan, const ir::SavedProgram &saved,
                                                  const std::vector<DeviceSlot> &devices) {
    const ir::SavedVariant &variant = variant_for_this(plan);
    ir::Program program = parse(variant);
    check(program, plan, saved);
    std::vector<ProgramKernel> kernels = kernels_of(program);
    for (ProgramKernel &kernel : kernels) {
        const uint32_t code =
            kernel.kernel < variant.code.size() ? variant.code[kernel.kernel] : ir::kNothing;
        if (code == ir::kNothing)
            damaged("a kernel has no code");
        const ir::CompiledKernel &compiled = saved.code[code];
        if (compiled.phases.size() != program.kernels[kernel.kernel].phases.size())
            damaged("the code of a kernel is another one's");
        kernel.code = {load_object(compiled), compiled.phases};
        for (const ir::CompiledPhase &phase : compiled.phases)
            static_cast<void>(kernel.code.module->entry(phase.symbol));
    }
    return std::make_shared<const LoadedProgram>(std::move(program), std::move(kernels), devices);
}

} // namespace lz::runtime
