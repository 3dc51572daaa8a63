#include "emitted.h"

#include "codegen/cuda/compiler.h"
#include "codegen/cuda/source.h"
#include "ir/diagnostic.h"
#include "ir/text/text.h"
#include "passes/schedule/cuda.h"
#include "tests/support/cuda/device_memory.h"
#include "tests/support/cuda/nvrtc.h"

#include <map>
#include <memory>

namespace lz::test {

using namespace ir;

namespace {

struct Compiled {
    CompiledKernel kernel;
    std::unique_ptr<PtxProgram> program;
};

const codegen::Compiler &compiler() {
    static const auto made =
        codegen::make_cuda_compiler(codegen::load_nvrtc(nvrtc_library()), 90, {}, codegen::CudaCode::Ptx);
    return *made;
}

Compiled &compiled(const Kernel &kernel) {
    static std::map<std::string, Compiled> known;
    const std::string key = cache_key(kernel);
    if (const auto at = known.find(key); at != known.end())
        return at->second;
    Compiled made{compiler().compile(kernel), nullptr};
    const std::string ptx(reinterpret_cast<const char *>(made.kernel.object.data()),
                          made.kernel.object.size());
    made.program = std::make_unique<PtxProgram>(ptx.c_str());
    return known.emplace(key, std::move(made)).first->second;
}

} // namespace

Launch scheduled(const Launch &l, const CudaLimits &limits) {
    passes::LoweredStep step;
    Kernel kernel = l.kernel;
    for (Phase &phase : kernel.phases)
        phase.schedule = {};
    expand_math(kernel);
    step.kernel = std::move(kernel);
    passes::LoweredSegment &segment = step.segments.emplace_back();
    for (size_t b = 0; b < l.kernel.buffers.size(); ++b) {
        const KBuffer &buffer = l.kernel.buffers[b];
        segment.buffers.push_back({buffer.mode, kNone, kNone, l.elements[b] * size_of(buffer.dtype)});
    }
    for (const int64_t a : l.args)
        segment.args.push_back({a, {}});
    passes::schedule_cuda(step, limits);
    Launch to{step.kernel, {}, l.scalars, {}, 0};
    for (const ArgSpec &a : segment.args)
        to.args.push_back(a.constant);
    for (size_t b = 0; b < segment.buffers.size(); ++b) {
        to.elements.push_back(segment.buffers[b].bytes / size_of(to.kernel.buffers[b].dtype));
        if (to.kernel.buffers[b].mode == BufferMode::Worker)
            to.worker_bytes += static_cast<size_t>(segment.buffers[b].bytes) + 512;
    }
    verify(to.kernel);
    return to;
}

Outcome run_cuda(const Launch &l, const CudaRun &run) {
    Compiled &code = compiled(l.kernel);
    Outcome o = prepare(l, run.seed, run.corners);
    DeviceMemory memory;
    std::vector<uint64_t> at;
    std::vector<void *> pointers;
    for (size_t b = 0; b < o.buffers.size(); ++b) {
        const size_t shift = static_cast<size_t>(run.shift * size_of(l.kernel.buffers[b].dtype));
        std::vector<std::byte> bytes(shift + o.buffers[b].size());
        std::memcpy(bytes.data() + shift, o.buffers[b].data(), o.buffers[b].size());
        at.push_back(memory.put(bytes));
        pointers.push_back(reinterpret_cast<void *>(at.back() + shift));
    }
    const auto checks = static_cast<size_t>(std::ranges::count_if(
        l.kernel.instrs, [](const Instr &i) { return info(i.op).cls == KOpClass::Check; }));
    const uint64_t faults = memory.put(std::vector<std::byte>((checks + 1) * sizeof(Fault)));
    std::vector<uint64_t> scalars = l.scalars;
    const KernelFrame frame{pointers.data(), l.args.data(), scalars.data(),
                            reinterpret_cast<Fault *>(faults)};
    uint64_t instructions = 0;
    for (size_t p = 0; p < l.kernel.phases.size(); ++p) {
        const CompiledPhase &phase = code.kernel.phases[p];
        const int64_t items = work_items(l.kernel, l.kernel.phases[p], l.args);
        if (items == 0)
            continue;
        std::vector<void *> values(phase.parameters.size());
        point_parameters(phase, frame, items, values);
        const bool aligned = !phase.aligned.empty() && is_aligned(phase, std::span(&frame, 1));
        const std::string &symbol = aligned ? phase.aligned : phase.symbol;
        const ptx::Kernel &kernel = code.program->module().kernels.at(symbol);
        std::vector<unsigned char> parameters(kernel.parameter_bytes);
        for (size_t i = 0; i < values.size(); ++i)
            std::memcpy(parameters.data() + kernel.parameters.at(i).at, values[i],
                        kernel.parameters[i].bytes);
        uint32_t blocks = run.most_blocks;
        if (phase.most_blocks > 0)
            blocks = std::min(blocks, phase.most_blocks);
        code.program->seed = run.seed;
        code.program->dynamic_shared = phase.shared_bytes;
        const ptx::Counts counts =
            code.program->launch(symbol, {static_cast<uint32_t>(std::min<int64_t>(items, blocks)), 1, 1},
                                 {phase.threads, 1, 1}, memory, parameters);
        instructions += counts.thread_instructions;
    }
    if (run.instructions)
        *run.instructions = instructions;
    for (size_t b = 0; b < o.buffers.size(); ++b) {
        const size_t shift = static_cast<size_t>(run.shift * size_of(l.kernel.buffers[b].dtype));
        const auto bytes = memory.get<std::byte>(at[b]);
        std::memcpy(o.buffers[b].data(), bytes.data() + shift, o.buffers[b].size());
    }
    const auto bytes = memory.get<std::byte>(faults);
    std::vector<Fault> found(checks + 1);
    for (size_t i = 0; i < found.size(); ++i)
        std::memcpy(static_cast<void *>(&found[i]), bytes.data() + i * sizeof(Fault), sizeof(Fault));
    for (const Fault &f : found)
        o.faults.push_back(f.code);
    const Fault &fault =
        *std::ranges::find_if(found, [&](const Fault &f) { return f.code != 0 || &f == &found.back(); });
    o.fault = fault.code;
    o.fault_source = fault.source;
    o.fault_value = fault.value;
    o.fault_limit = fault.limit;
    return o;
}

std::string cuda_text(const Launch &l) {
    return codegen::cuda::make_source(l.kernel).text;
}

std::string cuda_difference(const Launch &l, const Outcome &interpreted, const Outcome &cuda) {
    Launch compared = l;
    for (const Phase &phase : l.kernel.phases)
        if (phase.cuda().scratch_bytes != kNoArg) // only blocks of a device have a part of it
            compared.elements[phase.cuda().scratch] = 0;
    std::string found = difference(compared, interpreted, cuda);
    if (found.empty() && interpreted.faults != cuda.faults)
        found = "other checks failed";
    return found;
}

void expect_equal(const Launch &l, const std::string &what) {
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    const Launch narrow = scheduled(l);
    const Outcome oracle = run_interpreted(narrow);
    const auto expect = [&](const Launch &kernel, const CudaRun &run, const char *how) {
        try {
            const std::string found = cuda_difference(kernel, oracle, run_cuda(kernel, run));
            EXPECT_EQ(found, "") << what << ", " << how << "\n" << (found.empty() ? "" : cuda_text(kernel));
        } catch (const ptx::Fault &fault) {
            ADD_FAILURE() << what << ", " << how << ": " << fault.what() << "\n" << cuda_text(kernel);
        }
    };
    try {
        expect(narrow, {}, "aligned");
        expect(narrow, {.shift = 1, .most_blocks = 1000}, "beside aligned addresses");
    } catch (const Failure &failure) {
        // The language has one chunk for lanes.
        if (failure.message().find("another number of elements") == std::string::npos)
            ADD_FAILURE() << what << ": " << failure.message() << "\n" << print(narrow.kernel);
    }
}

} // namespace lz::test
