// Random numbers on one thread, 16 M of them, beside LibTorch where it is installed. `per_number` is the time
// of one.
//
//   bench_random
#include "bench/support/turns.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/elementwise.h"
#endif

#include <cmath>
#include <cstdio>

namespace {

constexpr int64_t kNumbers = 1 << 24;

using lz::bench::Round;
#if LAZULI_BENCH_TORCH
namespace peer = lz::bench::torch;
#define LZ_PEER(...) __VA_ARGS__
#else
#define LZ_PEER(...) Round()
#endif

void per_number(benchmark::State &state) {
    state.counters["per_number"] =
        benchmark::Counter(static_cast<double>(kNumbers),
                           benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void rand(benchmark::State &state) {
    lz::bench::take_turns(state, [] { lz::rand({kNumbers}).eval(); }, LZ_PEER(peer::rand(kNumbers)));
    per_number(state);
}
BENCHMARK(rand)->UseManualTime()->Unit(benchmark::kMillisecond);

void randn(benchmark::State &state) {
    lz::bench::take_turns(state, [] { lz::randn({kNumbers}).eval(); }, LZ_PEER(peer::randn(kNumbers)));
    per_number(state);
}
BENCHMARK(randn)->UseManualTime()->Unit(benchmark::kMillisecond);

/// Means and variances are those of the distributions, within six deviations of a million numbers.
bool check() {
    const lz::Tensor uniform = lz::rand({1 << 20}), normal = lz::randn({1 << 20});
    return std::abs(uniform.mean().item<float>() - 0.5f) < 0.002f &&
           std::abs(normal.mean().item<float>()) < 0.006f &&
           std::abs((normal * normal).mean().item<float>() - 1) < 0.009f;
}

} // namespace

int main(int argc, char **argv) {
    if (!check()) {
        std::fprintf(stderr, "bench_random: a result is wrong; nothing is timed\n");
        return 1;
    }
    benchmark::Initialize(&argc, argv);
    lz::set_num_threads(1);
#if LAZULI_BENCH_TORCH
    peer::set_threads(1);
#endif
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
