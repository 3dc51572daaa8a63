// What the passes cost, without code generation: a training-like graph of 1,000 to 100,000 nodes, pass by
// pass and all together. Contract: 50 ms for 10,000 nodes, and 100,000 nodes at most 12 times that.
#include "ir/graph.h"
#include "ir/target.h"
#include "passes/pipeline.h"

#include <benchmark/benchmark.h>

#include <chrono>
#include <map>
#include <string>

namespace {

using namespace lz::ir;

/// Blocks of a network, forward only: product, bias, gelu-like chain, residual, layer norm; about 25 nodes
/// each.
Graph make_graph(int64_t nodes) {
    GraphBuilder b("bench");
    const Shape rows{64, 256}, row{256};
    ValueId x = b.param({DType::F32, rows, kCpu}, "x");
    while (static_cast<int64_t>(b.graph().nodes().size()) < nodes) {
        const std::string id = std::to_string(b.graph().nodes().size());
        const ValueId w = b.param({DType::F32, {256, 256}, kCpu}, "w" + id);
        const ValueId bias = b.param({DType::F32, row, kCpu}, "b" + id);
        ValueId h = b.binary(Op::Add, b.matmul(x, w), b.broadcast(bias, rows));
        const ValueId inner =
            b.binary(Op::Mul, h, b.binary(Op::Add, b.binary(Op::Mul, h, h), b.literal(DType::F32, 0.7)));
        h = b.binary(Op::Mul, b.binary(Op::Mul, h, b.literal(DType::F32, 0.5)),
                     b.binary(Op::Add, b.unary(Op::Tanh, inner), b.constant(DType::F32, 1)));
        h = b.binary(Op::Add, h, x);
        const ValueId mean = b.binary(Op::Div, b.reduce(Op::ReduceSum, h, std::array<int64_t, 1>{1}),
                                      b.literal(DType::F32, 256));
        const ValueId centred = b.binary(Op::Sub, h, b.reshape(mean, {64, 1}));
        const ValueId variance =
            b.reduce(Op::ReduceSum, b.binary(Op::Mul, centred, centred), std::array<int64_t, 1>{1});
        x = b.binary(
            Op::Mul, centred,
            b.reshape(b.unary(Op::Rsqrt, b.binary(Op::Add, variance, b.literal(DType::F32, 1e-5))), {64, 1}));
    }
    b.graph().results.push_back(x);
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

/// The share of each pass, as counters in milliseconds.
void each_pass(benchmark::State &state) {
    using Clock = std::chrono::steady_clock;
    const Graph graph = make_graph(state.range(0));
    const Target target = release_target();
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
        benchmark::DoNotOptimize(lz::passes::compile(graph, target, &observer));
        stop();
        running.clear();
    }
    for (const auto &[pass, ms] : spent)
        state.counters[pass] = benchmark::Counter(ms, benchmark::Counter::kAvgIterations);
}
BENCHMARK(each_pass)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
