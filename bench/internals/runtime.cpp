// What the runtime itself costs: a launched step of a Program in replay, on the CPU and on a stream of a
// virtual GPU, where the backend's own call is measured beside it; a parallel loop.
//
//   bench_runtime --benchmark_repetitions=9
#include "runtime/allocator/caching_allocator.h"
#include "runtime/api/parallel.h"
#include "runtime/cpu/backend.h"
#include "runtime/executor/executor.h"
#include "runtime/virtual/backend.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace {

using namespace lz;
using runtime::CachingAllocator;
using runtime::CpuBackend;

// --- the executor

class NothingModule final : public runtime::Module {
public:
    void *entry(const std::string &) const override {
        ir::PhaseEntry nothing = [](const ir::KernelFrame *, int64_t, int64_t, void *) {};
        return reinterpret_cast<void *>(nothing);
    }
};

/// Its code.
std::vector<runtime::ProgramKernel> nothing(ir::Device device) {
    return {{0, device, {std::make_shared<NothingModule>(), {{"phase0"}}}}};
}

/// 1000 steps whose kernel does nothing, with two arguments and a scalar from runtime words in each.
ir::Program thousand_steps(ir::Device device) {
    ir::Program program;
    ir::Kernel kernel;
    kernel.buffers.assign(3, {ir::DType::F32, ir::BufferMode::In});
    kernel.buffers[2].mode = ir::BufferMode::Out;
    kernel.args.resize(6);
    kernel.scalars = {{ir::DType::F32}};
    kernel.phases.resize(1);
    program.kernels = {kernel};
    auto buffer = [&](ir::BufferKind kind, int64_t offset) {
        ir::BufferDesc desc{};
        desc.kind = kind;
        desc.offset = offset;
        desc.bytes = 32;
        desc.device = device;
        program.buffers.push_back(desc);
    };
    buffer(ir::BufferKind::Input, 0);
    buffer(ir::BufferKind::Result, 0);
    for (int64_t i = 0; i < 16; ++i)
        buffer(ir::BufferKind::Arena, i * 64);
    program.results = {1};
    program.arenas.resize(1);
    program.arenas[0].bytes = 1024;
    program.arenas[0].device = program.arenas[0].home_device = device;
    program.num_runtime_words = 4;
    for (uint32_t s = 0; s < 1000; ++s) {
        ir::Step &step = program.steps.emplace_back();
        step.kernel = 0;
        step.device = device;
        step.cost = 96;
        ir::Segment &segment = step.segments.emplace_back();
        segment.buffers = {0, 2 + s % 16, 2 + (s + 1) % 16};
        segment.args.resize(6);
        segment.args[4].terms = {{s % 3, 4}};
        segment.args[5].terms = {{s % 3, 8}};
        segment.scalars = {{3, ir::DType::F32}};
        segment.items = {1};
    }
    return program;
}

void per_step(benchmark::State &state) {
    state.counters["per_step"] =
        benchmark::Counter(1000, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// On the calling thread.
void replayed_step(benchmark::State &state) {
    CpuBackend backend;
    CachingAllocator allocator(backend);
    runtime::LoadedProgram loaded(thousand_steps(ir::kCpu), nothing(ir::kCpu), {{&backend, &allocator}});
    std::vector<float> data(8);
    void *memory = data.data();
    const int64_t words[4] = {1, 2, 3, 0};
    for (auto _ : state)
        benchmark::DoNotOptimize(runtime::run(loaded, {{&memory, 1}, {&memory, 1}, words}).report.ok());
    per_step(state);
}
BENCHMARK(replayed_step)->UseRealTime();

/// A virtual GPU whose streams hold more than is issued at a time, so that nobody waits for the worker. The
/// worker runs when time is not measured, unless there is a core for it.
struct Gpu {
    Gpu() {
        runtime::VirtualOptions options;
        options.memory_bytes = size_t{64} << 20;
        options.max_queued = 2048;
        all = runtime::make_virtual_gpus(options, {});
        backend = all[0].get();
    }
    void drain(benchmark::State &state) {
        state.PauseTiming();
        backend->synchronize(0, backend->record(0));
        state.ResumeTiming();
    }
    std::vector<std::unique_ptr<runtime::Backend>> all;
    runtime::Backend *backend;
};

/// The same on a stream: what the host pays to issue a step.
void replayed_step_on_a_stream(benchmark::State &state) {
    Gpu gpu;
    CpuBackend cpu;
    CachingAllocator cpu_allocator(cpu), allocator(*gpu.backend);
    const ir::Device device = gpu.backend->device();
    runtime::LoadedProgram loaded(thousand_steps(device), nothing(device),
                                  {{&cpu, &cpu_allocator}, {gpu.backend, &allocator}});
    void *memory = allocator.allocate(32);
    const int64_t words[4] = {1, 2, 3, 0};
    ir::MemoryUse use;
    ir::MemoryUse *uses[] = {&use};
    for (auto _ : state) {
        benchmark::DoNotOptimize(
            runtime::run(loaded, {{&memory, 1}, {&memory, 1}, words, {}, uses, uses}).report.ok());
        gpu.drain(state);
    }
    allocator.free(memory);
    per_step(state);
}
BENCHMARK(replayed_step_on_a_stream)->UseRealTime();

/// The backend's own call for such a step.
void virtual_launch(benchmark::State &state) {
    Gpu gpu;
    const NothingModule module;
    char *memory = static_cast<char *>(gpu.backend->allocate(4096));
    void *const buffers[] = {memory, memory + 512, memory + 1024};
    const int64_t args[6] = {};
    const uint64_t scalar = 0;
    ir::Fault *const fault = gpu.backend->allocate_faults(1);
    const ir::KernelFrame frame{buffers, args, &scalar, fault};
    const int64_t end = 1;
    const runtime::Backend::Launch launch{module.entry(""), &frame, &end, 1, 3, 6, 1, 96, 0};
    for (auto _ : state) {
        for (int step = 0; step < 1000; ++step)
            gpu.backend->launch(launch, 0);
        gpu.drain(state);
    }
    gpu.backend->free_faults(fault, 1);
    gpu.backend->free(memory, 4096);
    per_step(state);
}
BENCHMARK(virtual_launch)->UseRealTime();

/// A parallel loop of empty ranges: what handing work to the pool costs.
void empty_loop(benchmark::State &state) {
    for (auto _ : state)
        runtime::parallel_for(state.range(0), 1,
                              [](int64_t begin, int64_t) { benchmark::DoNotOptimize(begin); });
}
BENCHMARK(empty_loop)->Arg(1)->Arg(2)->Arg(1024)->UseRealTime();

/// A loop of two ranges of so many dependent additions, of a few nanoseconds each: how soon a second thread
/// helps. On one thread it takes `alone`.
void two_ranges(benchmark::State &state) {
    const auto range = [&](int64_t, int64_t) {
        double sum = 0;
        for (int64_t i = 0; i < state.range(0); ++i)
            benchmark::DoNotOptimize(sum += 1);
    };
    const auto time = [&](int n, auto &&run) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < n; ++i)
            run();
        return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / n;
    };
    state.counters["alone"] = time(1000, [&] {
        range(0, 1);
        range(1, 2);
    });
    for (auto _ : state)
        runtime::parallel_for(2, 1, range, 1000);
}
BENCHMARK(two_ranges)->RangeMultiplier(4)->Range(256, 1 << 14)->UseRealTime();

} // namespace

BENCHMARK_MAIN();
