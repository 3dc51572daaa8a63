// Launches in the interpreter of PTX.
#include "emitted/emitted.h"

#include "codegen/cuda/compiler.h"
#include "codegen/cuda/source.h"
#include "ir/kernel/key.h"
#include "tests/support/cuda/device_memory.h"
#include "tests/support/cuda/nvrtc.h"

#include <map>
#include <memory>
#include <optional>

namespace lz::test {

using namespace ir;

namespace {

/// Races in global memory are looked for in so much of it: each byte takes 28 more.
constexpr size_t kMostChecked = 2 << 20;

/// One that may never be run is not compiled: NVRTC takes the most of these tests' time.
class Code {
public:
    explicit Code(Kernel kernel)
        : phases(codegen::cuda::make_source(kernel).phases), kernel_(std::move(kernel)) {}
    const std::vector<CompiledPhase> phases;

    PtxProgram &program() {
        if (!program_)
            program_ = std::make_unique<PtxProgram>(ptx());
        return *program_;
    }
    std::string ptx() const;

private:
    const Kernel kernel_;
    std::unique_ptr<PtxProgram> program_;
};

const codegen::Compiler &compiler() {
    static const auto made =
        codegen::make_cuda_compiler(codegen::load_nvrtc(nvrtc_library()), 90, {}, codegen::CudaCode::Ptx);
    return *made;
}

std::string Code::ptx() const {
    const CompiledKernel made = compiler().compile(kernel_);
    return std::string(reinterpret_cast<const char *>(made.object.data()), made.object.size()).c_str();
}

Code &code_of(const Kernel &kernel) {
    static std::map<std::string, Code> known; // those for unaligned launches are others
    return known.try_emplace(cache_key(kernel), kernel).first->second;
}

/// A segment's memory on the device.
struct DeviceFrame {
    Outcome outcome;
    std::vector<uint64_t> at;
    std::vector<size_t> shift;
    std::vector<void *> pointers;
    uint64_t faults = 0;
    size_t checks = 0;
    KernelFrame frame{};

    DeviceFrame(const Launch &l, const CudaRun &run, uint64_t seed, DeviceMemory &memory)
        : outcome(prepare(l, seed, run.corners)) {
        for (size_t b = 0; b < outcome.buffers.size(); ++b) {
            // Temporaries are planned, and so aligned.
            const bool planned = l.kernel.buffers[b].mode == BufferMode::Temp;
            shift.push_back(planned ? 0
                                    : static_cast<size_t>(run.shift * size_of(l.kernel.buffers[b].dtype)));
            std::vector<std::byte> bytes(shift[b] + outcome.buffers[b].size());
            std::copy_n(outcome.buffers[b].data(), outcome.buffers[b].size(), bytes.data() + shift[b]);
            at.push_back(memory.put(bytes));
            pointers.push_back(reinterpret_cast<void *>(at[b] + shift[b]));
        }
        checks = static_cast<size_t>(std::ranges::count_if(
            l.kernel.instrs, [](const Instr &i) { return info(i.op).cls == KOpClass::Check; }));
        faults = memory.put(std::vector<std::byte>((checks + 1) * sizeof(Fault)));
        frame = {pointers.data(), l.args.data(), l.scalars.data(), reinterpret_cast<Fault *>(faults)};
    }

    Outcome take(const DeviceMemory &memory) {
        for (size_t b = 0; b < outcome.buffers.size(); ++b) {
            const auto bytes = memory.get<std::byte>(at[b]);
            std::copy_n(bytes.data() + shift[b], outcome.buffers[b].size(), outcome.buffers[b].data());
        }
        const auto bytes = memory.get<std::byte>(faults);
        std::vector<Fault> found(checks + 1);
        for (size_t i = 0; i < found.size(); ++i)
            std::memcpy(static_cast<void *>(&found[i]), bytes.data() + i * sizeof(Fault), sizeof(Fault));
        for (const Fault &f : found)
            outcome.faults.push_back(f.code);
        const Fault &fault =
            *std::ranges::find_if(found, [&](const Fault &f) { return f.code != 0 || &f == &found.back(); });
        outcome.fault = fault.code;
        outcome.fault_source = fault.source;
        outcome.fault_value = fault.value;
        outcome.fault_limit = fault.limit;
        return std::move(outcome);
    }
};

/// Parameters as CompiledPhase says them, in the places of the compiled kernel.
std::vector<unsigned char> pack(const CompiledPhase &phase, const ptx::Kernel &kernel,
                                std::span<const KernelFrame> frames, const std::vector<int64_t> &ends,
                                DeviceMemory &memory) {
    std::vector<unsigned char> packed(kernel.parameter_bytes);
    const auto put = [&](size_t i, const void *value) {
        std::memcpy(packed.data() + kernel.parameters.at(i).at, value, kernel.parameters[i].bytes);
    };
    if (phase.record_bytes == 0) {
        std::vector<void *> values(phase.parameters.size());
        point_parameters(phase, frames[0], ends[0], values);
        for (size_t i = 0; i < values.size(); ++i)
            put(i, values[i]);
        return packed;
    }
    const bool by_value = phase.table_bytes > 0;
    std::vector<std::byte> table(by_value ? phase.table_bytes : phase.record_bytes * frames.size());
    pack_table(phase, frames, ends.data(), table.data());
    const auto segments = static_cast<uint32_t>(frames.size());
    const uint64_t address = by_value ? 0 : memory.put(table);
    put(0, by_value ? static_cast<const void *>(table.data()) : &address);
    put(1, &segments);
    return packed;
}

} // namespace

const std::string &why_not_run() {
    return why_no_nvrtc();
}

std::string ptx_of(const Launch &l) {
    return code_of(l.kernel).ptx();
}

std::vector<Outcome> run_cuda(std::span<const Launch> segments, const CudaRun &run) {
    const Kernel &kernel = segments[0].kernel;
    Code &code = code_of(kernel);
    std::optional<PtxProgram> other;
    if (run.ptx)
        other.emplace(run.ptx);
    DeviceMemory memory;
    std::vector<DeviceFrame> device;
    device.reserve(segments.size());
    std::vector<KernelFrame> frames;
    size_t bytes = 0;
    for (const Launch &l : segments) {
        frames.push_back(device.emplace_back(l, run, run.seed + device.size(), memory).frame);
        for (const auto &buffer : device.back().outcome.buffers)
            bytes += buffer.size();
    }
    uint64_t bank_conflicts = 0;
    for (size_t p = 0; p < kernel.phases.size(); ++p) {
        std::vector<int64_t> ends;
        int64_t items = 0;
        for (const Launch &l : segments)
            ends.push_back(items += work_items(kernel, kernel.phases[p], l.args));
        if (items == 0)
            continue;
        Code &used = is_aligned(code.phases[p], frames) ? code : code_of(any_address(kernel));
        const CompiledPhase &phase = used.phases[p];
        PtxProgram &program = other ? *other : used.program();
        program.count_bank_conflicts = run.bank_conflicts != nullptr;
        const std::string &symbol = phase.symbol;
        const ptx::Kernel &entry = program.module().kernels.at(symbol);
        const int64_t most = int64_t{run.most_blocks} * phase.cluster_blocks; // so many items at once
        program.seed = run.seed;
        program.check_global_races = bytes <= kMostChecked;
        program.dynamic_shared = phase.shared_bytes;
        const ptx::Counts counts =
            program.launch(symbol, {static_cast<uint32_t>(phase.blocks(items, most)), 1, 1},
                           {phase.threads, 1, 1}, memory, pack(phase, entry, frames, ends, memory));
        for (size_t i = 0; run.instructions && i < counts.by_name.size(); ++i)
            (*run.instructions)[entry.names[i]] += counts.by_name[i];
        bank_conflicts += counts.bank_conflicts;
    }
    if (run.bank_conflicts)
        *run.bank_conflicts = bank_conflicts;
    std::vector<Outcome> all;
    for (DeviceFrame &f : device)
        all.push_back(f.take(memory));
    return all;
}

} // namespace lz::test
