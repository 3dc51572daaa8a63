#include "frontend/engine/saved/program_code.h"

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

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
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

Devices &devices() {
    return Engine::get().devices();
}

bool has_host_code(const ir::Program &program) {
    return std::ranges::any_of(runtime::kernels_of(program), [](const runtime::ProgramKernel &kernel) {
        return !devices().cuda_compiler(kernel.device);
    });
}

void add_once(std::vector<uint32_t> &code, uint32_t number) {
    if (std::ranges::find(code, number) == code.end())
        code.push_back(number);
}

} // namespace

struct ProgramCode::Impl {
    struct Maker {
        const codegen::Compiler *compiler;
        uint32_t sm;     ///< SavedCode::sm
        std::string key; ///< what tells it from others of this object
    };
    struct Missing {
        Maker maker;
        const ir::Kernel *kernel; ///< or null:
        runtime::KernelSource source;
    };

    ir::SavedVariant variant_of(const ir::Program &program, std::span<const int64_t> words,
                                ir::IsaLevel level, const codegen::Compiler *host);
    const std::vector<Maker> &cuda_makers(ir::Device device);
    uint32_t number_of(const std::string &key, Missing missing);
    void add_device(ir::Device device);
    void add_devices(const ir::Program &program);
    void add_library(const ir::Program &program, std::span<const int64_t> words);
    void compile_missing();

    std::vector<ir::SavedCode> code;
    std::vector<Missing> missing;          ///< the next ones of `code`, while a variant is made
    std::map<std::string, uint32_t> known; ///< of `code`, by maker and kernel
    std::map<uint64_t, ir::SavedLibraryKernel> library;
    std::map<uint8_t, ir::SavedDevice> gpus; ///< by index
    std::vector<Devices::FileCompiler> cuda_compilers;
    std::map<int, std::vector<Maker>> makers; ///< by compute capability
};

ProgramCode::ProgramCode() : impl_(std::make_unique<Impl>()) {}
ProgramCode::~ProgramCode() = default;

const std::vector<ProgramCode::Impl::Maker> &ProgramCode::Impl::cuda_makers(ir::Device device) {
    const int sm = devices().backend(device).properties().cuda->sm;
    const auto [found, is_new] = makers.try_emplace(sm);
    if (is_new)
        for (Devices::FileCompiler &made :
             devices().file_compilers(device, Engine::get().options().fast_math)) {
            found->second.push_back({made.compiler.get(), made.sm, made.compiler->key()});
            cuda_compilers.push_back(std::move(made));
        }
    return found->second;
}

uint32_t ProgramCode::Impl::number_of(const std::string &key, Missing wanted) {
    const auto [found, is_new] = known.try_emplace(fmt::format("{}\n{}", wanted.maker.key, key),
                                                   static_cast<uint32_t>(code.size() + missing.size()));
    if (is_new)
        missing.push_back(std::move(wanted));
    return found->second;
}

void ProgramCode::Impl::compile_missing() {
    const size_t first = code.size();
    code.resize(first + missing.size());
    std::vector<ir::SavedCode> unaligned(missing.size()); // what runs the file may have no compiler
    runtime::parallel_for(static_cast<int64_t>(missing.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t m = begin; m < end; ++m) {
            const auto &[maker, kernel, source] = missing[static_cast<size_t>(m)];
            ir::SavedCode &made = code[first + static_cast<size_t>(m)];
            made.sm = maker.sm;
            if (!kernel) {
                static_cast<ir::CompiledKernel &>(made) = maker.compiler->compile_source(source);
                continue;
            }
            ir::Kernel expanded = *kernel;
            ir::expand_math(expanded, maker.compiler->math_forms());
            static_cast<ir::CompiledKernel &>(made) = maker.compiler->compile(expanded);
            if (!ir::needs_alignment(made.phases))
                continue;
            ir::SavedCode &other = unaligned[static_cast<size_t>(m)];
            other.sm = maker.sm;
            static_cast<ir::CompiledKernel &>(other) =
                maker.compiler->compile(ir::any_address(std::move(expanded)));
        }
    });
    missing.clear();
    for (size_t m = 0; m < unaligned.size(); ++m)
        if (!unaligned[m].phases.empty()) {
            code[first + m].unaligned = static_cast<uint32_t>(code.size());
            code.push_back(std::move(unaligned[m]));
        }
}

ir::SavedVariant ProgramCode::Impl::variant_of(const ir::Program &program, std::span<const int64_t> words,
                                               ir::IsaLevel level, const codegen::Compiler *host) {
    ir::SavedVariant variant{level, !host, ir::print(program), {}};
    variant.code.resize(program.kernels.size());
    for (const runtime::ProgramKernel &wanted : runtime::kernels_of(program)) {
        const ir::Kernel &kernel = program.kernels[wanted.kernel];
        const std::string key = ir::cache_key(kernel);
        const auto add = [&](const Maker &maker) {
            add_once(variant.code[wanted.kernel], number_of(key, {maker, &kernel, {}}));
        };
        if (devices().cuda_compiler(wanted.device))
            std::ranges::for_each(cuda_makers(wanted.device), add);
        else
            add({host, 0, std::string(ir::name(level))});
    }
    add_devices(program);
    add_library(program, words);
    compile_missing();
    return variant;
}

void ProgramCode::Impl::add_device(ir::Device device) {
    if (device == ir::kCpu || gpus.contains(device.index))
        return;
    const ir::DeviceProperties properties = devices().backend(device).properties();
    gpus[device.index] = {device, !properties.cuda,
                          properties.cuda ? static_cast<uint32_t>(properties.cuda->sm) : 0, properties.name};
}

void ProgramCode::Impl::add_devices(const ir::Program &program) {
    for (const ir::Step &step : program.steps)
        add_device(step.device);
    for (const ir::BufferDesc &buffer : program.buffers)
        add_device(buffer.device);
    for (const ir::ArenaDesc &arena : program.arenas) {
        add_device(arena.device);
        add_device(arena.home_device);
    }
}

void ProgramCode::Impl::add_library(const ir::Program &program, std::span<const int64_t> words) {
    const runtime::LibrarySource source_of = devices().library_source();
    for (const ir::Step &step : program.steps) {
        if (step.kind != ir::StepKind::Library || !source_of || !devices().cuda_compiler(step.device))
            continue;
        const auto source = source_of(step.symbol, runtime::ints_of(step, words));
        if (!source)
            continue;
        const uint64_t hash = runtime::hash_of(*source);
        ir::SavedLibraryKernel &kernel = library[hash];
        kernel.name = source->name;
        kernel.source = hash;
        for (const Maker &maker : cuda_makers(step.device))
            add_once(kernel.code, number_of(fmt::format("library {}", hash), {maker, nullptr, *source}));
    }
}

std::vector<ir::SavedVariant> ProgramCode::variants_of(const Executable &executable,
                                                       std::span<const int64_t> words) {
    std::vector<ir::SavedVariant> variants;
    if (const ir::Program &program = executable.program->program(); !has_host_code(program)) {
        variants.push_back(impl_->variant_of(program, words, ir::IsaLevel::V3, nullptr));
        return variants;
    }
    if (!codegen::cpu_jit_available())
        throw ir::Failure(
            ir::ErrorKind::Compile,
            "this library was built without LLVM (LAZULI_CPU_JIT=OFF), so that there is no machine "
            "code to save");
    const auto add = [&](ir::IsaLevel level) {
        const ir::CpuIsa isa = codegen::isa_of(level);
        const std::unique_ptr<const codegen::Compiler> compiler =
            codegen::make_llvm_compiler(isa, {.fast_math = Engine::get().options().fast_math});
        const ir::Program program = passes::compile(executable.graph, target_of(isa)).program;
        variants.push_back(impl_->variant_of(program, words, level, compiler.get()));
    };
    const ir::IsaLevel own = codegen::host_level().value_or(ir::IsaLevel::V3);
    add(own);
    if (own != ir::IsaLevel::V3)
        add(ir::IsaLevel::V3);
    return variants;
}

void ProgramCode::add_device(ir::Device device) {
    impl_->add_device(device);
}

void ProgramCode::give(ir::SavedProgram &file) {
    file.code = std::move(impl_->code);
    for (auto &[hash, kernel] : impl_->library)
        file.library.push_back(std::move(kernel));
    for (auto &[index, device] : impl_->gpus)
        file.devices.push_back(std::move(device));
    if (!impl_->cuda_compilers.empty())
        file.made_by += ", " + devices().nvrtc_name();
}

} // namespace lz::engine
