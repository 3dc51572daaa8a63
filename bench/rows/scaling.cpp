// How time grows: a chain, softmax and a sum over sizes from 1,000 to 64 M elements, a graph over 10 to
// 100,000 operations, and both kernels over one to all threads. bench/plots.py draws them.
//
//   bench_scaling
#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

namespace {

using lz::Tensor;

Tensor random(const std::vector<int64_t> &shape) {
    Tensor x = lz::rand(shape);
    x.eval();
    return x;
}

Tensor chain_of(const Tensor &a, const Tensor &b) {
    return lz::tanh(a * b + a) * 0.5 + b;
}

template <class F>
void measure(benchmark::State &state, F &&f, int64_t elements) {
    f().eval();
    for (auto _ : state)
        f().eval();
    state.SetItemsProcessed(elements * state.iterations());
}

void chain(benchmark::State &state) {
    const int64_t n = state.range(0);
    const Tensor a = random({n}), b = random({n});
    measure(state, [&] { return chain_of(a, b); }, n);
}
/// Rows of 1000.
void softmax(benchmark::State &state) {
    const int64_t n = state.range(0) / 1000 * 1000;
    const Tensor x = random({n / 1000, 1000});
    measure(state, [&] { return lz::softmax(x, -1); }, n);
}
void sum(benchmark::State &state) {
    const Tensor x = random({state.range(0)});
    measure(state, [&] { return x.sum(); }, state.range(0));
}
void sizes(benchmark::internal::Benchmark *b) {
    for (const int64_t n :
         {1'000, 4'000, 16'000, 64'000, 256'000, 1'000'000, 4'000'000, 16'000'000, 64'000'000})
        b->Arg(n);
    b->UseRealTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(chain)->Apply(sizes);
BENCHMARK(softmax)->Apply(sizes);
BENCHMARK(sum)->Apply(sizes);

/// So many operations on eight elements, read at the end: recorded anew each time. What is longer than a
/// thread may record (S22) runs in pieces.
void graph(benchmark::State &state) {
    const int64_t operations = state.range(0);
    const Tensor a = random({8}), b = random({8});
    const auto f = [&] {
        Tensor x = a;
        for (int64_t i = 0; i < operations; i += 2) {
            x = x + b;
            x = x * a;
        }
        return x;
    };
    measure(state, f, operations);
}
BENCHMARK(graph)->RangeMultiplier(10)->Range(10, 100'000)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// One to all threads of the pool.
void threads(benchmark::internal::Benchmark *b) {
    const int all = lz::num_threads();
    for (int n = 1; n < all; n *= 2)
        b->Arg(n);
    b->Arg(all);
    b->ArgName("threads")->UseRealTime()->Unit(benchmark::kMicrosecond);
}
template <class F>
void on_threads(benchmark::State &state, F &&f, int64_t elements) {
    const int all = lz::num_threads();
    lz::set_num_threads(static_cast<int>(state.range(0)));
    measure(state, f, elements);
    lz::set_num_threads(all);
}
constexpr int64_t kElements = 1 << 22, kSide = 1024;
void chain_on(benchmark::State &state) {
    const Tensor a = random({kElements}), b = random({kElements});
    on_threads(state, [&] { return chain_of(a, b); }, kElements);
}
void softmax_on(benchmark::State &state) {
    const Tensor x = random({kElements / kSide, kSide});
    on_threads(state, [&] { return lz::softmax(x, -1); }, kElements);
}
void product_on(benchmark::State &state) {
    const Tensor a = random({kSide, kSide}), b = random({kSide, kSide});
    on_threads(state, [&] { return lz::matmul(a, b); }, kSide * kSide);
}
BENCHMARK(chain_on)->Apply(threads);
BENCHMARK(softmax_on)->Apply(threads);
BENCHMARK(product_on)->Apply(threads);

} // namespace

BENCHMARK_MAIN();
