// Kernels that memory bounds: elementwise chains, reductions, rows and transposition, as fractions of what
// the machine's memory gives in the same run (copy, triad, read), and beside Eigen where it is installed.
//
//   bench_memory_bound --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
#include "bench/support/ceilings.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_EIGEN
#include <Eigen/Core>
#endif

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using lz::Tensor;

constexpr int64_t kElements = int64_t{16} << 20;
constexpr int64_t kSide = 4096;

const lz::bench::Ceilings &ceilings() {
    static const lz::bench::Ceilings measured = lz::bench::measure_ceilings(kElements * 4, lz::num_threads());
    return measured;
}

enum class Ceiling { Copy, Triad, Read };

double ceiling_of(Ceiling c) {
    return c == Ceiling::Copy ? ceilings().copy : c == Ceiling::Triad ? ceilings().triad : ceilings().read;
}

/// Counts `bytes` of traffic a round and prints which part of the ceiling that is.
void report(benchmark::State &state, double bytes, Ceiling ceiling) {
    state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
    state.counters["of_ceiling"] = benchmark::Counter(
        bytes / ceiling_of(ceiling) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

Tensor random(std::initializer_list<int64_t> shape) {
    lz::manual_seed(5);
    Tensor t = lz::rand(lz::Sizes(shape)) * 2 - 1;
    t.eval();
    return t;
}

/// Times `f`, which records a new tensor each round; the result is computed and stored.
template <class F>
void run(benchmark::State &state, F &&f, double bytes, Ceiling ceiling) {
    f().eval(); // compiles
    for (auto _ : state)
        f().eval();
    report(state, bytes, ceiling);
}

void multiply_add(benchmark::State &state) {
    const Tensor a = random({kElements}), b = random({kElements}), c = random({kElements});
    run(state, [&] { return a * b + c; }, kElements * 16.0, Ceiling::Triad);
}
BENCHMARK(multiply_add)->UseRealTime()->Unit(benchmark::kMillisecond);

void tanh_chain(benchmark::State &state) {
    const Tensor a = random({kElements}), b = random({kElements});
    run(state, [&] { return lz::tanh(a * b + a) * 0.5 + b; }, kElements * 12.0, Ceiling::Triad);
}
BENCHMARK(tanh_chain)->UseRealTime()->Unit(benchmark::kMillisecond);

void gelu_erf(benchmark::State &state) {
    const Tensor a = random({kElements});
    run(state, [&] { return lz::gelu(a); }, kElements * 8.0, Ceiling::Copy);
}
BENCHMARK(gelu_erf)->UseRealTime()->Unit(benchmark::kMillisecond);

void sum_all(benchmark::State &state) {
    const Tensor a = random({kSide, kSide});
    run(state, [&] { return a.sum(); }, kElements * 4.0, Ceiling::Read);
}
BENCHMARK(sum_all)->UseRealTime()->Unit(benchmark::kMillisecond);

void sum_axis(benchmark::State &state) {
    const Tensor a = random({kSide, kSide});
    const int64_t axis = state.range(0);
    run(state, [&] { return a.sum(axis); }, kElements * 4.0, Ceiling::Read);
}
BENCHMARK(sum_axis)->Arg(0)->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);

void softmax_rows(benchmark::State &state) {
    const Tensor a = random({kSide, kSide});
    run(state, [&] { return lz::softmax(a, -1); }, kElements * 8.0, Ceiling::Copy);
}
BENCHMARK(softmax_rows)->UseRealTime()->Unit(benchmark::kMillisecond);

void log_softmax_rows(benchmark::State &state) {
    const Tensor a = random({kSide, kSide});
    run(state, [&] { return lz::log_softmax(a, -1); }, kElements * 8.0, Ceiling::Copy);
}
BENCHMARK(log_softmax_rows)->UseRealTime()->Unit(benchmark::kMillisecond);

void layer_norm_rows(benchmark::State &state) {
    const Tensor a = random({kSide, kSide}), weight = random({kSide}), bias = random({kSide});
    run(state, [&] { return lz::layer_norm(a, {kSide}, weight, bias); }, kElements * 8.0, Ceiling::Copy);
}
BENCHMARK(layer_norm_rows)->UseRealTime()->Unit(benchmark::kMillisecond);

void transpose_add(benchmark::State &state) {
    const Tensor a = random({kSide, kSide}), b = random({kSide, kSide});
    run(state, [&] { return a.t() + b; }, kElements * 12.0, Ceiling::Triad);
}
BENCHMARK(transpose_add)->UseRealTime()->Unit(benchmark::kMillisecond);

/// A chain of 20 operations: its peak must be inputs + output + 1 %.
void chain_peak_memory(benchmark::State &state) {
    const Tensor a = random({kElements});
    const int64_t before = lz::memory_allocated();
    lz::reset_peak_memory_stats();
    for (auto _ : state) {
        Tensor x = a;
        for (int i = 0; i < 10; ++i)
            x = lz::sin(x) + 0.5 * i;
        x.eval();
    }
    const double peak = static_cast<double>(lz::max_memory_allocated() - before);
    state.counters["peak_over_output"] = peak / (kElements * 4.0);
}
BENCHMARK(chain_peak_memory)->UseRealTime()->Unit(benchmark::kMillisecond);

#if LAZULI_BENCH_EIGEN
using Column = Eigen::Map<const Eigen::ArrayXf>;

void eigen_multiply_add(benchmark::State &state) {
    const Tensor a = random({kElements}), b = random({kElements}), c = random({kElements});
    Eigen::ArrayXf out(kElements);
    for (auto _ : state) {
        out = Column(a.data<float>(), kElements) * Column(b.data<float>(), kElements) +
              Column(c.data<float>(), kElements);
        benchmark::DoNotOptimize(out.data());
    }
    report(state, kElements * 16.0, Ceiling::Triad);
}
BENCHMARK(eigen_multiply_add)->UseRealTime()->Unit(benchmark::kMillisecond);

void eigen_tanh_chain(benchmark::State &state) {
    const Tensor a = random({kElements}), b = random({kElements});
    Eigen::ArrayXf out(kElements);
    const Column x(a.data<float>(), kElements), y(b.data<float>(), kElements);
    for (auto _ : state) {
        out = (x * y + x).tanh() * 0.5f + y;
        benchmark::DoNotOptimize(out.data());
    }
    report(state, kElements * 12.0, Ceiling::Triad);
}
BENCHMARK(eigen_tanh_chain)->UseRealTime()->Unit(benchmark::kMillisecond);

void eigen_sum_all(benchmark::State &state) {
    const Tensor a = random({kElements});
    for (auto _ : state)
        benchmark::DoNotOptimize(Column(a.data<float>(), kElements).sum());
    report(state, kElements * 4.0, Ceiling::Read);
}
BENCHMARK(eigen_sum_all)->UseRealTime()->Unit(benchmark::kMillisecond);
#endif

/// Results are right before their time is taken.
bool check() {
    const Tensor a = random({300, 200}), b = random({300, 200});
    const float *x = a.data<float>(), *y = b.data<float>();
    const std::vector<float> got = (lz::tanh(a * b + a) * 0.5 + b).to_vector<float>();
    for (size_t i = 0; i < got.size(); ++i)
        if (std::abs(got[i] - (std::tanh(x[i] * y[i] + x[i]) * 0.5f + y[i])) > 1e-5f)
            return false;
    const std::vector<float> sums = lz::softmax(a, -1).sum(1).to_vector<float>();
    for (const float s : sums)
        if (std::abs(s - 1) > 1e-5f)
            return false;
    const std::vector<float> turned = (a.t() + 0).to_vector<float>();
    return turned[1] == x[200] && turned[300] == x[1];
}

} // namespace

int main(int argc, char **argv) {
    if (!check()) {
        std::fprintf(stderr, "bench_memory_bound: a result is wrong; nothing is timed\n");
        return 1;
    }
    benchmark::Initialize(&argc, argv);
    const auto &c = ceilings();
    std::printf("ceilings of this machine, %d threads: copy %.1f GB/s, triad %.1f GB/s, read %.1f GB/s\n",
                lz::num_threads(), c.copy / 1e9, c.triad / 1e9, c.read / 1e9);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
