// Steps of optimizers over many tensors, beside LibTorch where it is installed. Rounds of both take turns;
// `torch_ms` is LibTorch's best round (its default: tensor by tensor) and `ratio` how many times longer it
// takes than ours. `recording_ms` is the part of ours that is `step()`, the rest is the sync.
//
//   bench_optimizers
#include <lazuli/lazuli.h>
#include <lazuli/optim.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/torch.h"
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

namespace {

using lz::Tensor;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Tensors of ten shapes, as a transformer of this width has them.
std::vector<std::vector<int64_t>> shapes_of(int64_t count, int64_t width) {
    const std::vector<std::vector<int64_t>> ten = {
        {width, width},     {width},    {3 * width, width}, {3 * width}, {4 * width, width}, {4 * width},
        {width, 4 * width}, {width, 1}, {10, width},        {10}};
    std::vector<std::vector<int64_t>> out;
    for (int64_t i = 0; i < count; ++i)
        out.push_back(ten[static_cast<size_t>(i) % ten.size()]);
    return out;
}

std::vector<Tensor> parameters_of(const std::vector<std::vector<int64_t>> &shapes) {
    std::vector<Tensor> out;
    for (const auto &shape : shapes) {
        Tensor p = lz::randn(shape), gradient = lz::randn(shape);
        lz::eval({p, gradient});
        out.push_back(p.requires_grad_());
        out.back().mutable_grad() = gradient;
    }
    return out;
}

/// AdamW over `tensors` of ten shapes of this width: `adamw/200/64`.
void adamw(benchmark::State &state) {
    const auto shapes = shapes_of(state.range(0), state.range(1));
    lz::optim::AdamW optimizer(parameters_of(shapes), lz::optim::AdamWOptions(1e-4));
#if LAZULI_BENCH_TORCH
    const auto peer = lz::bench::torch::adamw(shapes);
    peer();
#endif
    for (int warm = 0; warm < 2; ++warm) { // takes memory, compiles
        optimizer.step();
        lz::sync();
    }
    double ours = std::numeric_limits<double>::max(), recording = ours, theirs = ours;
    for (auto _ : state) {
        const auto begin = Clock::now();
        optimizer.step();
        recording = std::min(recording, seconds_since(begin));
        lz::sync();
        const double took = seconds_since(begin);
        state.SetIterationTime(took);
        ours = std::min(ours, took);
#if LAZULI_BENCH_TORCH
        const auto peers_begin = Clock::now();
        peer();
        theirs = std::min(theirs, seconds_since(peers_begin));
#endif
    }
    state.counters["best_ms"] = ours * 1e3;
    state.counters["recording_ms"] = recording * 1e3;
    if (theirs == std::numeric_limits<double>::max())
        return;
    state.counters["torch_ms"] = theirs * 1e3;
    state.counters["ratio"] = theirs / ours;
}
BENCHMARK(adamw)
    ->ArgNames({"tensors", "width"})
    ->Args({200, 16})
    ->Args({200, 64})
    ->Args({200, 256})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// One step of a known result.
bool check() {
    Tensor w = lz::ones({3}, {.requires_grad = true});
    w.mutable_grad() = lz::full({3}, 0.5);
    lz::optim::AdamW optimizer({w}, lz::optim::AdamWOptions(0.25).weight_decay(0));
    optimizer.step();
    return std::fabs(w.detach().select(0, 0).item<float>() - 0.75f) < 1e-6f;
}

} // namespace

int main(int argc, char **argv) {
    if (!check()) {
        std::fprintf(stderr, "bench_optimizers: a result is wrong; nothing is timed\n");
        return 1;
    }
    benchmark::Initialize(&argc, argv);
#if LAZULI_BENCH_TORCH
    lz::bench::torch::set_threads(lz::num_threads());
#endif
    std::printf("%d threads\n", lz::num_threads());
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
