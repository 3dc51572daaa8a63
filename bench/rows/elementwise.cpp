// Functions, choices and long chains, where they are bound by memory (16 M elements) and in cache (65,536),
// rows too short for vectors, a roll, and results in fresh memory; beside LibTorch where it is installed.
//
//   bench_elementwise
//
// Rounds of both take turns; `torch_ms` is LibTorch's best round and `ratio` how many times as long it takes
// as our best. `of_ceiling` is the part of the machine's copy or triad bandwidth.
#include "bench/support/turns.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/elementwise.h"
#endif

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

using lz::Tensor;
using lz::bench::Bound;
using lz::bench::Round;
using lz::bench::take_turns;
using lz::bench::Traffic;

constexpr int64_t kInCache = 1 << 16, kInMemory = 1 << 24, kSide = 4096;

#if LAZULI_BENCH_TORCH
namespace peer = lz::bench::torch;
#define LZ_PEER(...) __VA_ARGS__
#else
#define LZ_PEER(...) Round()
#endif

Tensor random(const std::vector<int64_t> &shape, double low, double high) {
    Tensor x = lz::rand(shape) * (high - low) + low;
    x.eval();
    return x;
}

/// Where the work is larger than any cache.
Bound bound(int64_t n, double bytes, Traffic traffic) {
    return n < kInMemory ? Bound{} : Bound{static_cast<double>(n) * bytes, traffic};
}

void sizes(benchmark::internal::Benchmark *b) {
    b->Arg(kInCache)->Arg(kInMemory)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

#define LZ_UNARY(name, Name)                                                                                 \
    void name(benchmark::State &state) {                                                                     \
        const int64_t n = state.range(0);                                                                    \
        const Tensor x = random({n}, 0.125, 8.125);                                                          \
        take_turns(                                                                                          \
            state, [&] { lz::name(x).eval(); }, LZ_PEER(peer::unary(peer::Unary::Name, n)),                  \
            bound(n, 8, Traffic::Copy));                                                                     \
    }                                                                                                        \
    BENCHMARK(name)->Apply(sizes);
LZ_UNARY(exp, Exp)
LZ_UNARY(log, Log)
LZ_UNARY(sin, Sin)
LZ_UNARY(cos, Cos)
#undef LZ_UNARY

void pow(benchmark::State &state) {
    const int64_t n = state.range(0);
    const Tensor x = random({n}, 0.125, 8.125), y = random({n}, -2, 2);
    take_turns(state, [&] { lz::pow(x, y).eval(); }, LZ_PEER(peer::pow(n)), bound(n, 12, Traffic::Triad));
}
BENCHMARK(pow)->Apply(sizes);

Tensor choices(const Tensor &x, const Tensor &y) {
    return lz::where(x > 0.5, x * y, lz::where(x > 0, x + y, lz::where(x > -0.5, x - y, y)));
}
void where_chain(benchmark::State &state) {
    const int64_t n = state.range(0);
    const Tensor x = random({n}, -1, 1), y = random({n}, -1, 1);
    take_turns(
        state, [&] { choices(x, y).eval(); }, LZ_PEER(peer::where_chain(n)), bound(n, 12, Traffic::Triad));
}
BENCHMARK(where_chain)->Apply(sizes);

void twenty_operations(benchmark::State &state) {
    const int64_t n = state.range(0);
    const Tensor a = random({n}, 0, 1), b = random({n}, 0, 1);
    const Round round = [&] {
        Tensor x = a;
        for (int i = 0; i < 10; ++i)
            x = x * b + 0.5;
        x.eval();
    };
    take_turns(state, round, LZ_PEER(peer::twenty_operations(n)), bound(n, 12, Traffic::Triad));
}
BENCHMARK(twenty_operations)->Apply(sizes);

void softmax_rows_of_100(benchmark::State &state) {
    const int64_t n = kInMemory / 100 * 100;
    const Tensor x = random({n / 100, 100}, 0, 1);
    take_turns(state, [&] { lz::softmax(x, -1).eval(); }, LZ_PEER(peer::softmax_rows_of_100(n)),
               {static_cast<double>(n) * 8, Traffic::Copy});
}
BENCHMARK(softmax_rows_of_100)->UseManualTime()->Unit(benchmark::kMicrosecond);

void roll(benchmark::State &state) {
    const Tensor x = random({kSide, kSide}, 0, 1);
    take_turns(state, [&] { x.roll({1, 1}, {0, 1}).eval(); }, LZ_PEER(peer::roll(kSide)),
               {static_cast<double>(kSide * kSide) * 8, Traffic::Copy});
}
BENCHMARK(roll)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// A sum into memory that the system gives (1) or the allocator has (0): what the first touch of each page
/// costs.
void fresh_results(benchmark::State &state) {
    const Tensor a = random({kInMemory}, 0, 1), b = random({kInMemory}, 0, 1);
    for (int i = 0; i < 2; ++i)
        (a + b).eval();
    for (auto _ : state) {
        state.PauseTiming();
        if (state.range(0) == 1)
            lz::empty_cache();
        state.ResumeTiming();
        const Tensor sum = a + b;
        sum.eval();
        state.PauseTiming();
        {
            const Tensor gone = sum;
        }
        state.ResumeTiming();
    }
}
BENCHMARK(fresh_results)->ArgName("fresh")->Arg(0)->Arg(1)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// Results are right before their time is taken.
bool check() {
    const Tensor x = random({1000}, 0.125, 8.125), y = random({1000}, -1, 1);
    const std::vector<float> a = x.to_vector<float>(), b = y.to_vector<float>();
    const std::vector<float> powers = lz::pow(x, y).to_vector<float>(),
                             chosen = choices(y, x).to_vector<float>(), sines = lz::sin(x).to_vector<float>();
    for (size_t i = 0; i < a.size(); ++i) {
        const float choice = b[i] > 0.5f    ? b[i] * a[i]
                             : b[i] > 0     ? b[i] + a[i]
                             : b[i] > -0.5f ? b[i] - a[i]
                                            : a[i];
        if (std::abs(powers[i] - std::pow(a[i], b[i])) > 1e-5f * powers[i] ||
            std::abs(chosen[i] - choice) > 1e-5f || std::abs(sines[i] - std::sin(a[i])) > 1e-6f)
            return false;
    }
    const Tensor rolled = lz::arange(0, 6).reshape({2, 3}).roll({1, 1}, {0, 1});
    return rolled.to_vector<int64_t>() == std::vector<int64_t>{5, 3, 4, 2, 0, 1};
}

} // namespace

int main(int argc, char **argv) {
    if (!check()) {
        std::fprintf(stderr, "bench_elementwise: a result is wrong; nothing is timed\n");
        return 1;
    }
    benchmark::Initialize(&argc, argv);
#if LAZULI_BENCH_TORCH
    peer::set_threads(lz::num_threads());
#endif
    std::printf("%d threads\n", lz::num_threads());
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
