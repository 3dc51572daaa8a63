// What the runtime itself costs: a pair of allocation and free against malloc, on the trace of a training
// loop and on one block; a launched step of a Program in replay; a parallel loop.
//
//   bench_runtime --benchmark_repetitions=9
#include "runtime/api/parallel.h"
#include "runtime/caching_allocator.h"
#include "runtime/cpu_backend.h"
#include "runtime/executor.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>
#include <vector>

namespace {

using namespace lz;
using runtime::CachingAllocator;
using runtime::CpuBackend;

/// One step of a training loop: blocks are allocated and freed by number.
struct Event {
    size_t block;
    size_t bytes; ///< 0: free
};
struct Trace {
    std::vector<Event> events;
    size_t blocks = 0;
};

/// A forward pass that keeps activations, a backward pass that frees them last first beside gradients that
/// live to the optimizer's step; a dozen layers, a batch whose size changes, and small things (losses,
/// scalars) in between.
Trace training_loop() {
    std::mt19937 random(1);
    Trace trace;
    auto allocate = [&](size_t bytes) {
        trace.events.push_back({trace.blocks, bytes});
        return trace.blocks++;
    };
    auto free = [&](size_t block) { trace.events.push_back({block, 0}); };
    for (int step = 0; step < 50; ++step) {
        size_t batch = 32 + random() % 33;
        std::vector<size_t> activations, gradients;
        for (size_t layer = 0; layer < 12; ++layer) {
            size_t width = 128 << layer % 4;
            activations.push_back(allocate(batch * width * 4));
            size_t scratch = allocate(batch * 4);
            activations.push_back(allocate(batch * width * 4));
            free(scratch);
        }
        size_t loss = allocate(4);
        size_t upstream = allocate(batch * 1024 * 4);
        for (size_t layer = 12; layer-- > 0;) {
            size_t width = 128 << layer % 4;
            size_t next = allocate(batch * width * 4);
            gradients.push_back(allocate(width * 1024 * 4));
            gradients.push_back(allocate(width * 4));
            free(upstream);
            upstream = next;
            free(activations.back());
            activations.pop_back();
            free(activations.back());
            activations.pop_back();
        }
        free(upstream);
        for (size_t gradient : gradients)
            free(gradient);
        free(loss);
    }
    return trace;
}

template <class Allocate, class Free>
void replay(benchmark::State &state, const Trace &trace, Allocate allocate, Free free) {
    std::vector<void *> blocks(trace.blocks);
    for (auto _ : state)
        for (const Event &event : trace.events) {
            if (event.bytes)
                blocks[event.block] = allocate(event.bytes);
            else
                free(blocks[event.block]);
        }
    state.counters["per_call"] =
        benchmark::Counter(static_cast<double>(trace.events.size()),
                           benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void training_trace_cached(benchmark::State &state) {
    CpuBackend backend;
    CachingAllocator allocator(backend);
    Trace trace = training_loop();
    replay(
        state, trace, [&](size_t bytes) { return allocator.allocate(bytes); },
        [&](void *memory) { allocator.free(memory); });
    runtime::AllocatorStats stats = allocator.stats();
    auto all = [](const runtime::StatSet &set) { return set[runtime::StatPool::All]; };
    state.counters["reuse"] = 1 - static_cast<double>(stats.num_device_alloc) /
                                      static_cast<double>(all(stats.allocation).allocated);
    state.counters["fragmentation"] = 1 - static_cast<double>(all(stats.allocated_bytes).peak) /
                                              static_cast<double>(all(stats.reserved_bytes).peak);
    state.counters["peak_MiB"] = static_cast<double>(all(stats.allocated_bytes).peak) / (1 << 20);
}
BENCHMARK(training_trace_cached)->UseRealTime();

void training_trace_malloc(benchmark::State &state) {
    Trace trace = training_loop();
    replay(
        state, trace, [](size_t bytes) { return std::malloc(bytes); },
        [](void *memory) { std::free(memory); });
}
BENCHMARK(training_trace_malloc)->UseRealTime();

void one_block_cached(benchmark::State &state) {
    CpuBackend backend;
    CachingAllocator allocator(backend);
    for (auto _ : state) {
        void *memory = allocator.allocate(static_cast<size_t>(state.range(0)));
        benchmark::DoNotOptimize(memory);
        allocator.free(memory);
    }
}
BENCHMARK(one_block_cached)->Arg(512)->Arg(1 << 16)->Arg(4 << 20)->Arg(64 << 20)->UseRealTime();

void one_block_malloc(benchmark::State &state) {
    for (auto _ : state) {
        void *memory = std::malloc(static_cast<size_t>(state.range(0)));
        benchmark::DoNotOptimize(memory);
        std::free(memory);
    }
}
BENCHMARK(one_block_malloc)->Arg(512)->Arg(1 << 16)->Arg(4 << 20)->Arg(64 << 20)->UseRealTime();

// --- the executor

class NothingModule final : public runtime::Module {
public:
    void *entry(const std::string &) const override {
        ir::PhaseEntry nothing = [](const ir::KernelFrame *, int64_t, int64_t, void *) {};
        return reinterpret_cast<void *>(nothing);
    }
};

/// Host cost of a launched step: 1000 steps whose kernel does nothing, with two arguments and a scalar from
/// runtime words in each.
void replayed_step(benchmark::State &state) {
    CpuBackend backend;
    CachingAllocator allocator(backend);
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
        program.buffers.push_back(desc);
    };
    buffer(ir::BufferKind::Input, 0);
    buffer(ir::BufferKind::Result, 0);
    for (int64_t i = 0; i < 16; ++i)
        buffer(ir::BufferKind::Arena, i * 64);
    program.results = {1};
    program.arenas.resize(1);
    program.arenas[0].bytes = 1024;
    program.num_runtime_words = 4;
    for (uint32_t s = 0; s < 1000; ++s) {
        ir::Step &step = program.steps.emplace_back();
        step.kernel = 0;
        step.cost = 96;
        ir::Segment &segment = step.segments.emplace_back();
        segment.buffers = {0, 2 + s % 16, 2 + (s + 1) % 16};
        segment.args.resize(6);
        segment.args[4].terms = {{s % 3, 4}};
        segment.args[5].terms = {{s % 3, 8}};
        segment.scalars = {{3, ir::DType::F32}};
        segment.items = {1};
    }
    runtime::LoadedProgram loaded(program, {{std::make_shared<NothingModule>(), {"phase0"}}},
                                  {{&backend, &allocator}});
    std::vector<float> data(8);
    void *memory = data.data();
    const int64_t words[4] = {1, 2, 3, 0};
    for (auto _ : state)
        benchmark::DoNotOptimize(runtime::run(loaded, {{&memory, 1}, {&memory, 1}, words}).report.ok());
    state.counters["per_step"] =
        benchmark::Counter(1000, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(replayed_step)->UseRealTime();

/// A parallel loop of empty ranges: what handing work to the pool costs.
void empty_loop(benchmark::State &state) {
    for (auto _ : state)
        runtime::parallel_for(state.range(0), 1,
                              [](int64_t begin, int64_t) { benchmark::DoNotOptimize(begin); });
}
BENCHMARK(empty_loop)->Arg(1)->Arg(2)->Arg(1024)->UseRealTime();

} // namespace

BENCHMARK_MAIN();
