#include "runtime/saved/load.h"

#include "ir/diagnostic.h"
#include "ir/host/calls.h"
#include "ir/kernel/key.h"
#include "ir/program/program.h"
#include "ir/text/text.h"
#include "runtime/api/unaligned_kernel.h"
#include "runtime/cpu/object.h"
#include "runtime/saved/scratch_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace lz::runtime {
namespace {

[[noreturn]] void damaged(const std::string &what) {
    throw ir::Failure(ir::ErrorKind::Io, "is damaged: " + what);
}
void need(bool good, const char *what) {
    if (!good)
        damaged(what);
}
[[noreturn]] void refuse(const std::string &what) {
    throw ir::Failure(ir::ErrorKind::Device, what);
}

std::string capability(uint32_t sm) {
    return fmt::format("{}.{}", sm / 10, sm % 10);
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

/// Whether the phase finds its parameters in frames of the kernel.
bool fits(const ir::CompiledPhase &phase, const ir::Kernel &kernel) {
    const auto there = [&](const ir::LaunchParameter &p) {
        const size_t count = p.kind == ir::LaunchParameter::Buffer   ? kernel.buffers.size()
                             : p.kind == ir::LaunchParameter::Arg    ? kernel.args.size()
                             : p.kind == ir::LaunchParameter::Scalar ? kernel.scalars.size()
                                                                     : size_t{1};
        return p.index < count && p.bytes <= 8 &&
               (phase.record_bytes == 0 || uint64_t{p.at} + p.bytes <= phase.record_bytes);
    };
    const auto aligned = [&](const ir::LaunchAlignment &a) {
        return a.index < (a.kind == ir::LaunchAlignment::Buffer ? kernel.buffers.size() : kernel.args.size());
    };
    return std::ranges::all_of(phase.parameters, there) && std::ranges::all_of(phase.alignments, aligned) &&
           phase.cluster_blocks > 0 && phase.threads > 0 &&
           (phase.table_bytes == 0 || phase.record_bytes > 0);
}

/// Bytes of a launch's parameters, at the most.
uint64_t parameter_bytes(const ir::CompiledPhase &phase) {
    constexpr uint64_t kEach = 8;
    if (phase.record_bytes == 0)
        return kEach * phase.parameters.size();
    return kEach + (phase.table_bytes > 0 ? phase.table_bytes : kEach);
}

template <class F>
void for_buffers(const ir::Step &step, F &&f) {
    for (const ir::Segment &segment : step.segments)
        for (const uint32_t buffer : segment.buffers)
            f(buffer);
    for (const uint32_t buffer : step.operands)
        f(buffer);
    f(step.scratch);
}

} // namespace

PeerPairs peers_of(const ir::Program &program) {
    PeerPairs pairs;
    for (const ir::Step &step : program.steps)
        for_buffers(step, [&](uint32_t b) {
            if (step.device == ir::kCpu || b >= program.buffers.size())
                return;
            const Device other = program.buffers[b].device;
            const std::pair pair(step.device, other);
            if (other != ir::kCpu && other != step.device && std::ranges::find(pairs, pair) == pairs.end())
                pairs.push_back(pair);
        });
    return pairs;
}

ProgramLoader::ProgramLoader(const ir::SavedProgram &file, const LoadingPlace &place)
    : file_(file), place_(place) {
    for (const ir::SavedDevice &device : file.devices)
        find_device(device);
    if (place.library)
        place.library->add(file);
}

const ir::SavedDevice *ProgramLoader::find(Device device) const {
    const auto found = std::ranges::find(file_.devices, device, &ir::SavedDevice::device);
    return found == file_.devices.end() ? nullptr : &*found;
}

bool ProgramLoader::is_cuda(Device device) const {
    const ir::SavedDevice *const saved = find(device);
    return saved && !saved->is_virtual;
}

/// `cuda:0 (NVIDIA H200)`.
std::string ProgramLoader::called(Device device) const {
    return fmt::format("{} ({})", ir::to_string(device), backend(device).properties().name);
}

void ProgramLoader::find_device(const ir::SavedDevice &wanted) const {
    const std::string name = ir::to_string(wanted.device);
    if (slot(wanted.device) >= place_.devices.size()) {
        std::string there = "cpu";
        for (size_t s = 1; s < place_.devices.size(); ++s)
            there += fmt::format("{}cuda:{}", s + 1 == place_.devices.size() ? " and " : ", ", s - 1);
        std::string why = place_.devices.size() > 1 || place_.no_gpu.empty() ? "" : ". " + place_.no_gpu;
        if (!why.empty() && place_.compiles && !wanted.is_virtual)
            why += " liblazuli-run.so runs program files without NVRTC.";
        refuse(fmt::format("was saved for {}, {}, and there is none: {} {}{}", name,
                           wanted.is_virtual ? "a virtual GPU" : "a CUDA device",
                           place_.devices.size() == 1 ? "the only device is" : "the devices are", there,
                           why));
    }
    const bool is_virtual = !backend(wanted.device).properties().cuda;
    if (is_virtual != wanted.is_virtual)
        refuse(fmt::format("was saved for {}, and {} is {}",
                           wanted.is_virtual ? "virtual GPUs" : "CUDA devices", called(wanted.device),
                           is_virtual ? "a virtual GPU" : "a CUDA device"));
}

namespace {

/// Buffers that the step writes to.
std::vector<uint32_t> written_by(const ir::Program &program, const ir::Step &step) {
    std::vector<uint32_t> all;
    for (const ir::Segment &segment : step.segments) {
        const std::vector<ir::KBuffer> &operands = program.kernels[step.kernel].buffers;
        for (size_t b = 0; b < operands.size(); ++b)
            if (operands[b].mode == ir::BufferMode::Out || operands[b].mode == ir::BufferMode::InOut)
                all.push_back(segment.buffers[b]);
    }
    for (const ir::ByteRange &access : step.accesses)
        if (access.write)
            all.push_back(access.buffer);
    return all;
}

} // namespace

/// Memory that a run binds is as large as the Program takes it to be, and where it takes it to be.
void ProgramLoader::check(const ir::Program &program, const ir::SavedPlan &plan) const {
    const auto known = [&](Device device) { return device == ir::kCpu || find(device); };
    const auto common_stream = [](int32_t stream) { return stream >= 0 && stream < ir::kFirstUserStream; };
    need(program.stage == ir::Stage::Final, "its Program is not finished");
    need(program.num_runtime_words == plan.words.size(), "its Program has other words");
    need(program.user_streams.empty(), "its Program names streams");
    need(program.results.size() == plan.results.size(), "its Program has other results");
    for (size_t r = 0; r < program.results.size(); ++r) {
        const ir::BufferDesc &buffer = program.buffers[program.results[r]];
        need(buffer.kind == ir::BufferKind::Result && buffer.index == r, "a result has no memory of its own");
    }
    for (const ir::ArenaDesc &arena : program.arenas)
        need(known(arena.device) && known(arena.home_device) && common_stream(arena.home) &&
                 (!arena.pinned || arena.home_device != ir::kCpu),
             "its Program has memory where there is no device");
    for (const ir::BufferDesc &buffer : program.buffers) {
        need(known(buffer.device), "its Program has memory where there is no device");
        need(buffer.donor < 0, "its Program writes over an input");
        if (buffer.kind == ir::BufferKind::Input) {
            need(buffer.index < plan.inputs.size(), "its Program has other inputs");
            const ir::SavedInput &input = plan.inputs[buffer.index];
            const ir::TensorType &type = input.argument != ir::kNothing
                                             ? plan.arguments[input.argument].type
                                             : file_.constants[input.constant].type;
            need(buffer.bytes <= type.bytes() && buffer.device == type.device,
                 "an input is larger in its Program, or elsewhere");
        }
        if (buffer.kind == ir::BufferKind::Result)
            need(buffer.index < plan.results.size() && buffer.bytes <= plan.results[buffer.index].bytes() &&
                     buffer.device == plan.results[buffer.index].device,
                 "a result is larger in its Program, or elsewhere");
    }
    for (const ir::Step &step : program.steps) {
        need(known(step.device) && common_stream(step.stream), "a step is on no device");
        need(!ir::has_effect(step), "a step does something that the program's writer sees");
        need(!step.symbol.starts_with(ir::kCallPrefix), "a step calls a function of another process");
        need(std::ranges::all_of(step.recorded,
                                 [&](uint32_t at) { return at == ir::kNone || at < plan.operations.size(); }),
             "a step is of no operation");
        need(std::ranges::none_of(
                 written_by(program, step),
                 [&](uint32_t buffer) { return program.buffers[buffer].kind == ir::BufferKind::Input; }),
             "a step writes to an input");
    }
}

namespace {

/// Whether work_items can count with these numbers.
bool can_be_counted(const ir::Kernel &kernel, const ir::Phase &phase, std::span<const int64_t> args) {
    constexpr int64_t kMost = int64_t{1} << 62;
    double points = 1;
    for (const ir::AxisId axis : phase.grid) {
        const int64_t extent = args[kernel.axes[axis].extent];
        if (extent < 0)
            return false;
        points *= static_cast<double>(std::max<int64_t>(extent, 1));
    }
    const auto is_block = [&](ir::ArgId arg) {
        return arg == ir::kNoArg || (args[arg] >= 1 && args[arg] <= kMost);
    };
    if (points > static_cast<double>(kMost))
        return false;
    const auto *const cpu = std::get_if<ir::CpuSchedule>(&phase.schedule);
    if (!cpu)
        return true;
    const bool good = is_block(cpu->block) && is_block(cpu->tile_block);
    if (!phase.contraction)
        return good;
    return good && is_block(ir::contraction_arg(*cpu, ir::ContractionArg::BlockM)) &&
           is_block(ir::contraction_arg(*cpu, ir::ContractionArg::BlockN));
}

} // namespace

/// Code divides by what its arguments say of work items.
void ProgramLoader::check_work_items(const ir::Program &program) const {
    std::vector<int64_t> args;
    for (const ir::Step &step : program.steps)
        for (const ir::Segment &segment : step.segments) {
            const ir::Kernel &kernel = program.kernels[step.kernel];
            args.clear();
            for (const ir::ArgSpec &arg : segment.args)
                args.push_back(arg.constant);
            for (size_t p = 0; p < kernel.phases.size(); ++p) {
                const ir::Phase &phase = kernel.phases[p];
                if (segment.items[p] == 0)
                    continue;
                need(can_be_counted(kernel, phase, args) &&
                         segment.items[p] == ir::work_items(kernel, phase, args),
                     "a launch has other work items than its arguments say");
                need(fits_scratch(kernel, phase, args, step.worker_bytes),
                     "a launch has no room for what its arguments say of a worker's scratch");
            }
        }
}

void ProgramLoader::check_peers(const ir::Program &program) const {
    for (const auto &[who, whose] : peers_of(program))
        if (!place_.may_access || !place_.may_access(who, whose))
            refuse(fmt::format("was saved where {} had access to the memory of {}, and has none here",
                               ir::to_string(who), ir::to_string(whose)));
}

/// What of the library CUDA devices need beside the file's kernels.
void ProgramLoader::check_library(const ir::Program &program, const ir::SavedPlan &plan) const {
    for (const ir::Step &step : program.steps) {
        if (step.kind != ir::StepKind::Library || !is_cuda(step.device))
            continue;
        if (!backend(step.device).find_library(step.symbol)) {
            const std::string why =
                step.symbol == "dot" && place_.why_no_cublaslt ? place_.why_no_cublaslt() : std::string();
            refuse(why.empty()
                       ? fmt::format("calls `{}`, which {} has not", step.symbol, called(step.device))
                       : fmt::format("makes products on {} by cuBLASLt. {}", called(step.device), why));
        }
        const auto source =
            place_.source ? place_.source(step.symbol, ints_of(step, plan.words)) : std::nullopt;
        if (!source || place_.compiles)
            continue;
        const auto sm = static_cast<uint32_t>(backend(step.device).properties().cuda->sm);
        if (!place_.library || !place_.library->has(*source, sm))
            throw ir::Failure(
                ir::ErrorKind::Compile,
                fmt::format("has no code of the library's kernel `{}` for {}, of compute capability {}",
                            source->name, called(step.device), capability(sm)));
    }
}

/// A Program is scheduled for the device that it was saved on.
void ProgramLoader::check_limits(const ir::CompiledPhase &phase, Device device) const {
    const ir::CudaLimits limits = *backend(device).properties().cuda;
    const auto within = [&](uint64_t taken, int64_t most, const char *what) {
        if (taken > static_cast<uint64_t>(most))
            refuse(fmt::format("was saved on {}: a kernel takes {} {}, and {} has {}", find(device)->name,
                               taken, what, called(device), most));
    };
    within(phase.shared_bytes, limits.shared_per_block, "bytes of a block's shared memory");
    within(phase.threads, limits.threads_per_block, "threads of a block");
    within(phase.cluster_blocks, limits.cluster_blocks, "blocks of a cluster");
    within(parameter_bytes(phase), limits.parameter_bytes, "bytes of parameters");
}

const ir::SavedCode &ProgramLoader::code_of(const ir::SavedVariant &variant, uint32_t kernel,
                                            Device device) const {
    std::vector<const ir::SavedCode *> code;
    if (kernel < variant.code.size())
        for (const uint32_t c : variant.code[kernel])
            if (ir::is_cuda(file_.code[c].format) == is_cuda(device))
                code.push_back(&file_.code[c]);
    need(!code.empty(), "a kernel has no code");
    if (!is_cuda(device))
        return *code.front();
    const auto sm = static_cast<uint32_t>(backend(device).properties().cuda->sm);
    if (const ir::SavedCode *const best = ir::best_code(code, sm))
        return *best;
    const ir::SavedCode &oldest = **std::ranges::min_element(code, {}, &ir::SavedCode::sm);
    refuse(fmt::format("has code for compute capability {} and newer, and {} has {}", capability(oldest.sm),
                       called(device), capability(sm)));
}

std::shared_ptr<const Module> ProgramLoader::module_of(const ir::SavedCode &code, Device device) {
    std::shared_ptr<const Module> &module = modules_[{&code, backend(device).module_key()}];
    if (module)
        return module;
    try {
        module = device == ir::kCpu ? load_object(code) : backend(device).load(code);
    } catch (const ir::Failure &failure) {
        if (device == ir::kCpu)
            throw;
        throw ir::Failure(failure.kind(), "cannot be loaded: " + failure.message());
    }
    return module;
}

/// Loaded when a launch asks for it, most likely never: so it has a copy, which outlives the file.
std::shared_ptr<const UnalignedKernel> ProgramLoader::unaligned_of(const ir::SavedCode &code, Device device) {
    if (code.unaligned == ir::kNothing)
        return nullptr;
    std::shared_ptr<const UnalignedKernel> &known = unaligned_[{&code, backend(device).module_key()}];
    if (!known)
        known = std::make_shared<const UnalignedKernel>(
            [other = file_.code[code.unaligned], &backend = backend(device)]() -> LoadedKernel {
                return {backend.load(other), other.phases};
            });
    return known;
}

void ProgramLoader::check_phases(const ir::SavedCode &code, const ir::Kernel &kernel, Device device) const {
    for (const ir::CompiledPhase &phase : code.phases) {
        need(fits(phase, kernel), "the code of a kernel is another one's");
        check_limits(phase, device);
    }
    if (code.unaligned != ir::kNothing)
        check_phases(file_.code[code.unaligned], kernel, device);
}

std::shared_ptr<const LoadedProgram> ProgramLoader::load(const ir::SavedPlan &plan) {
    const ir::SavedVariant &variant = variant_for_this(plan);
    ir::Program program = parse(variant);
    check(program, plan);
    check_work_items(program);
    std::vector<ProgramKernel> kernels = kernels_of(program);
    std::map<const ir::SavedCode *, std::string> keys; // of the kernels that have the code
    for (ProgramKernel &kernel : kernels) {
        const ir::Kernel &wanted = program.kernels[kernel.kernel];
        const ir::SavedCode &code = code_of(variant, kernel.kernel, kernel.device);
        const std::string key = ir::cache_key(wanted);
        need(code.phases.size() == wanted.phases.size() && keys.try_emplace(&code, key).first->second == key,
             "the code of a kernel is another one's");
        if (is_cuda(kernel.device))
            check_phases(code, wanted, kernel.device);
        kernel.code = {module_of(code, kernel.device), code.phases, unaligned_of(code, kernel.device)};
        for (const ir::CompiledPhase &phase : code.phases)
            static_cast<void>(kernel.code.module->entry(phase.symbol));
    }
    check_peers(program);
    check_library(program, plan);
    return std::make_shared<const LoadedProgram>(std::move(program), std::move(kernels), place_.devices);
}

} // namespace lz::runtime
