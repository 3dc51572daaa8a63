// Compiled functions beside the same functions as they are: what a call costs when nothing is recorded.
//
//   bench_compiled --benchmark_repetitions=9
//
// Where a machine is shared, count instructions: valgrind --tool=callgrind --toggle-collect='*replay*'.
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <benchmark/benchmark.h>

#include <vector>

namespace {

using lz::Tensor;

/// `f` as it is with argument 0, compiled with 1.
template <class F, class... Args>
void measure(benchmark::State &state, F &f, const Args &...args) {
    const auto compiled = lz::compile(f);
    const auto call = [&] {
        if (state.range(0) == 0) {
            const auto result = f(args...);
            result.eval();
        } else {
            const auto result = compiled(args...);
            benchmark::DoNotOptimize(&result);
        }
    };
    for (int i = 0; i < 8; ++i)
        call();
    const int64_t replays = compiled.stats().replays;
    for (auto _ : state)
        call();
    if (state.range(0) == 1 && compiled.stats().replays - replays != state.iterations())
        state.SkipWithError(("not replayed: " + compiled.explain()).c_str());
}

/// 1000 operations on 8 elements.
void thousand_operations(benchmark::State &state) {
    const auto f = [](const Tensor &a, const Tensor &b) {
        Tensor x = a;
        for (int i = 0; i < 500; ++i) {
            x = x + b;
            x = x * a;
        }
        return x;
    };
    const Tensor a = lz::rand({8}), b = lz::rand({8});
    lz::sync();
    measure(state, f, a, b);
}
BENCHMARK(thousand_operations)
    ->ArgName("compiled")
    ->DenseRange(0, 1)
    ->UseRealTime()
    ->Unit(benchmark::kNanosecond);

void one_operation(benchmark::State &state) {
    const auto f = [](const Tensor &a, const Tensor &b) { return a + b; };
    const Tensor a = lz::rand({8}), b = lz::rand({8});
    lz::sync();
    measure(state, f, a, b);
}
BENCHMARK(one_operation)->ArgName("compiled")->DenseRange(0, 1)->UseRealTime()->Unit(benchmark::kNanosecond);

/// Forward, backward and optimizer of two linear layers, 16 rows.
template <class Optimizer, class Options>
void training_step(benchmark::State &state, const Options &options) {
    lz::nn::Sequential net{lz::nn::Linear(16, 32), lz::nn::ReLU(), lz::nn::Linear(32, 4)};
    Optimizer optimizer(net->parameters(), options);
    const auto f = [&](const Tensor &x, const Tensor &y) {
        optimizer.zero_grad();
        Tensor loss = lz::cross_entropy(net(x), y);
        loss.backward();
        optimizer.step();
        return loss;
    };
    const Tensor x = lz::randn({16, 16}), y = lz::randint(0, 4, {16});
    lz::sync();
    measure(state, f, x, y);
}
void training_step_sgd(benchmark::State &state) {
    training_step<lz::optim::SGD>(state, lz::optim::SGDOptions(1e-3));
}
void training_step_adam(benchmark::State &state) {
    training_step<lz::optim::Adam>(state, lz::optim::AdamOptions(1e-4));
}
BENCHMARK(training_step_sgd)
    ->ArgName("compiled")
    ->DenseRange(0, 1)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(training_step_adam)
    ->ArgName("compiled")
    ->DenseRange(0, 1)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

/// 100 lengths in turn, 22 operations each: a size is an argument.
void hundred_sizes(benchmark::State &state) {
    const auto f = [](const Tensor &x) {
        Tensor y = x;
        for (int i = 0; i < 10; ++i)
            y = y * x + 1;
        return y.mean();
    };
    const auto compiled = lz::compile(f);
    std::vector<Tensor> all;
    for (int64_t n = 2; n < 102; ++n)
        all.push_back(lz::rand({n, 4}));
    lz::sync();
    const auto call = [&] {
        for (const Tensor &x : all) {
            if (state.range(0) == 0)
                f(x).eval();
            else
                benchmark::DoNotOptimize(compiled(x).id());
        }
    };
    for (int i = 0; i < 3; ++i)
        call();
    const int64_t replays = compiled.stats().replays;
    for (auto _ : state)
        call();
    const auto calls = state.iterations() * static_cast<int64_t>(all.size());
    if (state.range(0) == 1 && compiled.stats().replays - replays != calls)
        state.SkipWithError(("not replayed: " + compiled.stats().why).c_str());
    state.SetItemsProcessed(calls);
}
BENCHMARK(hundred_sizes)->ArgName("compiled")->DenseRange(0, 1)->UseRealTime()->Unit(benchmark::kMicrosecond);

} // namespace

BENCHMARK_MAIN();
