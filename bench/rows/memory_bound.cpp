// Kernels that memory bounds: elementwise chains, reductions, rows and transposition, as fractions of what
// the machine's memory gives (copy, triad, read), and beside Eigen and LibTorch where they are installed.
//
//   bench_memory_bound --benchmark_enable_random_interleaving=true --benchmark_repetitions=9
//
// Every round of a kernel follows a pass of its ceiling over other arrays: neighbours on a shared machine
// slow both, and neither finds its operands in the cache. `of_ceiling` is the median of the rounds' ratios,
// `ceiling` that of the passes.
#include "bench/support/ceilings.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_EIGEN
#include <Eigen/Core>
#endif
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/torch.h"
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using lz::Tensor;

constexpr int64_t kElements = int64_t{16} << 20;
constexpr int64_t kSide = 4096;

using lz::bench::Traffic;

lz::bench::MemoryMeter &meter() {
    static lz::bench::MemoryMeter meter(kElements * 4, lz::num_threads());
    return meter;
}

double median(std::vector<double> &values) {
    const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

/// Times `round`, which moves `bytes`, in turn with the pass of memory that bounds it.
template <class F>
void compare(benchmark::State &state, F &&round, double bytes, Traffic ceiling) {
    round(); // compiles
    std::vector<double> passes, ratios;
    for (auto _ : state) {
        passes.push_back(meter().pass(ceiling));
        const auto begin = std::chrono::steady_clock::now();
        round();
        const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        state.SetIterationTime(took);
        ratios.push_back(bytes / took / passes.back());
    }
    state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
    state.counters["of_ceiling"] = median(ratios);
    state.counters["ceiling"] =
        benchmark::Counter(median(passes), benchmark::Counter::kDefaults, benchmark::Counter::OneK::kIs1000);
}

Tensor random(std::initializer_list<int64_t> shape) {
    lz::manual_seed(5);
    Tensor t = lz::rand(lz::Sizes(shape)) * 2 - 1;
    t.eval();
    return t;
}

/// The same for `f`, which records a new tensor each round; the result is computed and stored.
template <class F>
void run(benchmark::State &state, F &&f, double bytes, Traffic ceiling) {
    compare(state, [&] { f().eval(); }, bytes, ceiling);
}

void multiply_add(benchmark::State &state) {
    const Tensor a = random({kElements}), b = random({kElements}), c = random({kElements});
    run(state, [&] { return a * b + c; }, kElements * 16.0, Traffic::Triad);
}
BENCHMARK(multiply_add)->UseManualTime()->Unit(benchmark::kMillisecond);

void tanh_chain(benchmark::State &state) {
    const Tensor a = random({kElements}), b = random({kElements});
    run(state, [&] { return lz::tanh(a * b + a) * 0.5 + b; }, kElements * 12.0, Traffic::Triad);
}
BENCHMARK(tanh_chain)->UseManualTime()->Unit(benchmark::kMillisecond);

void gelu_erf(benchmark::State &state) {
    const Tensor a = random({kElements});
    run(state, [&] { return lz::gelu(a); }, kElements * 8.0, Traffic::Copy);
}
BENCHMARK(gelu_erf)->UseManualTime()->Unit(benchmark::kMillisecond);

void sum_all(benchmark::State &state) {
    const Tensor a = random({kSide, kSide});
    run(state, [&] { return a.sum(); }, kElements * 4.0, Traffic::Read);
}
BENCHMARK(sum_all)->UseManualTime()->Unit(benchmark::kMillisecond);

void sum_axis(benchmark::State &state) {
    const Tensor a = random({kSide, kSide});
    const int64_t axis = state.range(0);
    run(state, [&] { return a.sum(axis); }, kElements * 4.0, Traffic::Read);
}
/// The rows of a transposed matrix lie side by side.
void sum_rows_of_transposed(benchmark::State &state) {
    const Tensor a = random({kSide, kSide});
    run(state, [&] { return a.t().sum(1); }, kElements * 4.0, Traffic::Read);
}
BENCHMARK(sum_rows_of_transposed)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(sum_axis)->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMillisecond);

void softmax_rows(benchmark::State &state) {
    const Tensor a = random({kSide, kSide});
    run(state, [&] { return lz::softmax(a, -1); }, kElements * 8.0, Traffic::Copy);
}
BENCHMARK(softmax_rows)->UseManualTime()->Unit(benchmark::kMillisecond);

void log_softmax_rows(benchmark::State &state) {
    const Tensor a = random({kSide, kSide});
    run(state, [&] { return lz::log_softmax(a, -1); }, kElements * 8.0, Traffic::Copy);
}
BENCHMARK(log_softmax_rows)->UseManualTime()->Unit(benchmark::kMillisecond);

void layer_norm_rows(benchmark::State &state) {
    const Tensor a = random({kSide, kSide}), weight = random({kSide}), bias = random({kSide});
    run(state, [&] { return lz::layer_norm(a, {kSide}, weight, bias); }, kElements * 8.0, Traffic::Copy);
}
BENCHMARK(layer_norm_rows)->UseManualTime()->Unit(benchmark::kMillisecond);

/// So many parts joined along an axis of a matrix: copied once, however many they are.
void cat(benchmark::State &state) {
    const int64_t n = state.range(0), axis = state.range(1);
    std::vector<Tensor> parts;
    for (int64_t k = 0; k < n; ++k)
        parts.push_back(axis == 0 ? random({kSide / n, kSide}) : random({kSide, kSide / n}));
    run(
        state, [&] { return lz::cat(parts, axis); }, static_cast<double>(kSide / n * n * kSide) * 8.0,
        Traffic::Copy);
}
BENCHMARK(cat)
    ->ArgsProduct({{2, 3, 8, 64, 128, 1000}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// So many vectors as the columns of a matrix.
void stack_columns(benchmark::State &state) {
    const int64_t n = state.range(0), rows = kSide * kSide / n;
    std::vector<Tensor> columns;
    for (int64_t k = 0; k < n; ++k)
        columns.push_back(random({rows}));
    run(state, [&] { return lz::stack(columns, -1); }, static_cast<double>(rows * n) * 8.0, Traffic::Copy);
}
BENCHMARK(stack_columns)
    ->Arg(2)
    ->Arg(8)
    ->Arg(32)
    ->Arg(128)
    ->Arg(1000)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

void transpose_add(benchmark::State &state) {
    const Tensor a = random({kSide, kSide}), b = random({kSide, kSide});
    run(state, [&] { return a.t() + b; }, kElements * 12.0, Traffic::Triad);
}
BENCHMARK(transpose_add)->UseManualTime()->Unit(benchmark::kMillisecond);

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
    const Column x(a.data<float>(), kElements), y(b.data<float>(), kElements), z(c.data<float>(), kElements);
    const auto round = [&] {
        out = x * y + z;
        benchmark::DoNotOptimize(out.data());
    };
    compare(state, round, kElements * 16.0, Traffic::Triad);
}
BENCHMARK(eigen_multiply_add)->UseManualTime()->Unit(benchmark::kMillisecond);

void eigen_tanh_chain(benchmark::State &state) {
    const Tensor a = random({kElements}), b = random({kElements});
    Eigen::ArrayXf out(kElements);
    const Column x(a.data<float>(), kElements), y(b.data<float>(), kElements);
    const auto round = [&] {
        out = (x * y + x).tanh() * 0.5f + y;
        benchmark::DoNotOptimize(out.data());
    };
    compare(state, round, kElements * 12.0, Traffic::Triad);
}
BENCHMARK(eigen_tanh_chain)->UseManualTime()->Unit(benchmark::kMillisecond);

void eigen_sum_all(benchmark::State &state) {
    const Tensor a = random({kElements});
    const Column x(a.data<float>(), kElements);
    compare(state, [&] { benchmark::DoNotOptimize(x.sum()); }, kElements * 4.0, Traffic::Read);
}
BENCHMARK(eigen_sum_all)->UseManualTime()->Unit(benchmark::kMillisecond);
#endif

#if LAZULI_BENCH_TORCH
namespace peer = lz::bench::torch;

void torch_eager(benchmark::State &state, peer::Round (*make)(int64_t), int64_t extent, double bytes,
                 Traffic ceiling) {
    peer::set_threads(lz::num_threads());
    compare(state, make(extent), kElements * bytes, ceiling);
}
#define LZ_TORCH(row, extent, bytes, ceiling)                                                                \
    BENCHMARK_CAPTURE(torch_eager, row, &peer::row, extent, bytes, Traffic::ceiling)                         \
        ->UseManualTime()                                                                                    \
        ->Unit(benchmark::kMillisecond)
LZ_TORCH(multiply_add, kElements, 16.0, Triad);
LZ_TORCH(tanh_chain, kElements, 12.0, Triad);
LZ_TORCH(gelu, kElements, 8.0, Copy);
LZ_TORCH(sum_all, kSide, 4.0, Read);
LZ_TORCH(sum_axis0, kSide, 4.0, Read);
LZ_TORCH(sum_axis1, kSide, 4.0, Read);
LZ_TORCH(softmax, kSide, 8.0, Copy);
LZ_TORCH(log_softmax, kSide, 8.0, Copy);
LZ_TORCH(layer_norm, kSide, 8.0, Copy);
LZ_TORCH(transpose_add, kSide, 12.0, Triad);
#undef LZ_TORCH
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
    std::printf("%d threads\n", lz::num_threads());
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
