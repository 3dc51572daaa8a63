// What the passes cost, without code generation: a training-like graph of 1,000 to 100,000 nodes, pass by
// pass and all together. Contract: 50 ms for 10,000 nodes, and 100,000 nodes at most 12 times that; on four
// GPUs 100 ms, verify_schedule included.
#include "ir/graph/builder.h"
#include "ir/target.h"
#include "passes/pipeline.h"
#include "passes/verify/verify_schedule.h"

#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <map>
#include <string>

namespace {

using namespace lz::ir;

constexpr uint8_t kGpus = 4, kLanes = 8;

/// A block of a network, forward only: product, bias, gelu-like chain, residual, layer norm; about 25 nodes.
ValueId block(GraphBuilder &b, ValueId x) {
    const Shape rows{64, 256}, row{256};
    const Device device = b.graph().type(x).device;
    const std::string id = std::to_string(b.graph().nodes().size());
    const ValueId w = b.param({DType::F32, {256, 256}, device}, "w" + id);
    const ValueId bias = b.param({DType::F32, row, device}, "b" + id);
    const auto literal = [&](double value) { return b.literal(DType::F32, value, {}, device); };
    ValueId h = b.binary(Op::Add, b.matmul(x, w), b.broadcast(bias, rows));
    const ValueId inner = b.binary(Op::Mul, h, b.binary(Op::Add, b.binary(Op::Mul, h, h), literal(0.7)));
    h = b.binary(Op::Mul, b.binary(Op::Mul, h, literal(0.5)),
                 b.binary(Op::Add, b.unary(Op::Tanh, inner), b.constant(DType::F32, 1, {}, device)));
    h = b.binary(Op::Add, h, x);
    const ValueId mean =
        b.binary(Op::Div, b.reduce(Op::ReduceSum, h, std::array<int64_t, 1>{1}), literal(256));
    const ValueId centred = b.binary(Op::Sub, h, b.reshape(mean, {64, 1}));
    const ValueId variance =
        b.reduce(Op::ReduceSum, b.binary(Op::Mul, centred, centred), std::array<int64_t, 1>{1});
    return b.binary(Op::Mul, centred,
                    b.reshape(b.unary(Op::Rsqrt, b.binary(Op::Add, variance, literal(1e-5))), {64, 1}));
}

Graph make_graph(int64_t nodes) {
    GraphBuilder b("bench");
    ValueId x = b.param({DType::F32, {64, 256}, kCpu}, "x");
    while (static_cast<int64_t>(b.graph().nodes().size()) < nodes)
        x = block(b, x);
    b.graph().results.push_back(x);
    return b.take();
}

/// Two networks on each of four GPUs, fed by the host; every few blocks they hand their activations to the
/// next GPU, with and without peer access.
Graph make_graph_on_gpus(int64_t nodes) {
    GraphBuilder b("bench");
    std::array<ValueId, kLanes> x{};
    const auto gpu = [](uint8_t lane) { return Device{DeviceKind::Cuda, uint8_t(lane % kGpus)}; };
    for (uint8_t k = 0; k < kLanes; ++k)
        x[k] = b.transfer(b.param({DType::F32, {64, 256}, kCpu}, "x" + std::to_string(k)), gpu(k));
    for (int round = 0; static_cast<int64_t>(b.graph().nodes().size()) < nodes; ++round) {
        for (ValueId &v : x)
            v = block(b, v);
        if (round % 4 == 3) {
            const auto before = x;
            for (uint8_t k = 0; k < kLanes; ++k)
                x[k] = b.binary(Op::Add, before[k], b.transfer(before[(k + 1) % kLanes], gpu(k)));
        }
    }
    for (const ValueId v : x)
        b.graph().results.push_back(b.transfer(v, kCpu));
    return b.take();
}

Target release_target() {
    Target target = test_target();
    target.modes.verify = false;
    return target;
}

void all_passes(benchmark::State &state) {
    const Graph graph = make_graph(state.range(0));
    const Target target = release_target();
    for (auto _ : state)
        benchmark::DoNotOptimize(lz::passes::compile(graph, target));
    state.counters["us/node"] =
        benchmark::Counter(static_cast<double>(state.range(0)) * 1e-6,
                           benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(all_passes)->Arg(1000)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

Target gpu_target() {
    Target target = test_target(kGpus);
    target.modes.verify = false;
    for (DeviceInfo &device : target.devices)
        device.launch_seconds = device.submit_seconds = 1e-8; // so that overlap is worth its events
    target.devices[1].peers = {1};
    target.devices[2].peers = {0};
    return target;
}

void all_passes_on_four_gpus(benchmark::State &state) {
    const Graph graph = make_graph_on_gpus(state.range(0));
    const Target target = gpu_target();
    for (auto _ : state) {
        const lz::passes::CompileResult compiled = lz::passes::compile(graph, target);
        lz::passes::verify_schedule(compiled.program);
        benchmark::DoNotOptimize(&compiled);
    }
    state.counters["us/node"] =
        benchmark::Counter(static_cast<double>(state.range(0)) * 1e-6,
                           benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(all_passes_on_four_gpus)->Arg(1000)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

/// The share of each pass, as counters in milliseconds.
void each_pass(benchmark::State &state, Graph (*make)(int64_t), Target (*make_target)()) {
    using Clock = std::chrono::steady_clock;
    const Graph graph = make(state.range(0));
    const Target target = make_target();
    std::map<std::string, double> spent;
    Clock::time_point begin;
    std::string running;
    const auto stop = [&] {
        if (!running.empty())
            spent[running] += std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    };
    lz::passes::PipelineObserver observer;
    observer.before = [&](std::string_view pass) {
        stop();
        running = pass;
        begin = Clock::now();
    };
    for (auto _ : state) {
        const lz::passes::CompileResult compiled = lz::passes::compile(graph, target, &observer);
        observer.before("verify-schedule");
        lz::passes::verify_schedule(compiled.program);
        stop();
        running.clear();
    }
    for (const auto &[pass, ms] : spent)
        state.counters[pass] = benchmark::Counter(ms, benchmark::Counter::kAvgIterations);
}
BENCHMARK_CAPTURE(each_pass, cpu, make_graph, release_target)
    ->Arg(10000)
    ->Arg(100000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(each_pass, four_gpus, make_graph_on_gpus, gpu_target)
    ->Arg(10000)
    ->Arg(100000)
    ->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
