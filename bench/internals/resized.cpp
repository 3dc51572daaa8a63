// Programs that were made for a size from a template (passes/traced/), beside what the passes make of the
// same size alone: 256 lengths, each of them a run of the one in turn with a run of the other.
//
//   bench_resized
//
// The time is that of all lengths, of each the best run of its Program from a template; `ratio` is the
// geometric mean of how many times as long those of the passes alone take, `lowest` that of the length that
// loses most. `lengths` counts those for which there was a template: the passes make one for each regime of
// sizes. `make_us` is what a Program takes to be made so, `pass_us` by the passes, both with code that is
// there already.
#include "frontend/engine/engine.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

namespace {

using lz::Tensor;
using Clock = std::chrono::steady_clock;

constexpr int64_t kLengths = 256, kWidth = 64;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

Tensor random(const std::vector<int64_t> &shape) {
    Tensor x = lz::rand(shape) - 0.5;
    x.eval();
    return x;
}

/// x [length, 64] to a sum of elements.
Tensor chain(const Tensor &x) {
    static const Tensor w = random({kWidth}), b = random({kWidth});
    return lz::tanh(x * w + b).sum();
}

/// A batch of rows through two layers.
Tensor mlp(const Tensor &x) {
    static const Tensor w1 = random({kWidth, 256}), b1 = random({256}), w2 = random({256, 10}),
                        b2 = random({10});
    return lz::softmax(lz::matmul(lz::relu(lz::matmul(x, w1) + b1), w2) + b2, -1);
}

/// A layer of a transformer with one head.
Tensor layer(const Tensor &x) {
    static const Tensor wq = random({kWidth, kWidth}), wk = random({kWidth, kWidth}),
                        wv = random({kWidth, kWidth}), up = random({kWidth, 4 * kWidth}),
                        down = random({4 * kWidth, kWidth});
    const Tensor y = lz::layer_norm(x, {kWidth});
    const Tensor scores = lz::matmul(lz::matmul(y, wq), lz::matmul(y, wk).t()) * 0.125;
    const Tensor z = x + lz::matmul(lz::softmax(scores, -1), lz::matmul(y, wv));
    return z + lz::matmul(lz::gelu(lz::matmul(lz::layer_norm(z, {kWidth}), up)), down);
}

struct Length {
    Tensor x;
    double resized = std::numeric_limits<double>::max(), alone = resized; ///< seconds of the best runs
    bool from_template = false;
};

/// Runs a few times, since code that the passes make for each length is not in the cache at first; keeps the
/// best.
template <class F>
void run(const F &f, const Tensor &x, double &best) {
    for (int i = 0; i < 4; ++i) {
        const auto begin = Clock::now();
        f(x).eval();
        best = std::min(best, seconds_since(begin));
    }
}

void all_lengths(benchmark::State &state, Tensor (*function)(const Tensor &)) {
    const lz::NoGradGuard guard;
    const lz::CompiledOptions options{.signatures = kLengths}; // they hold the Programs
    const auto compiled = [&] { return lz::compile([=](const Tensor &x) { return function(x); }, options); };
    auto resized = compiled(), alone = compiled();
    lz::engine::Engine &engine = lz::engine::Engine::get();
    std::vector<Length> lengths;
    for (int64_t n = 1; n <= kLengths; ++n)
        lengths.push_back({random({n, kWidth})});
    const auto record = [](auto &function_of_x, const Tensor &x) {
        const lz::CompileStats before = lz::compile_stats();
        for (int call = 0; call < 3; ++call)
            function_of_x(x).eval();
        const lz::CompileStats after = lz::compile_stats();
        return after.programs_resized > before.programs_resized &&
               after.programs_compiled == before.programs_compiled;
    };
    engine.clear_caches();
    int64_t templates = 0;
    for (Length &length : lengths) {
        length.from_template = record(resized, length.x);
        templates += length.from_template;
    }
    for (Length &length : lengths) {
        engine.clear_caches();
        if (record(alone, length.x)) {
            state.SkipWithError("there is a template where there can be none");
            return;
        }
    }
    bool resized_first = false;
    for (auto _ : state) {
        resized_first = !resized_first;
        for (Length &length : lengths) {
            if (resized_first)
                run(resized, length.x, length.resized);
            run(alone, length.x, length.alone);
            if (!resized_first)
                run(resized, length.x, length.resized);
        }
        double sum = 0;
        for (const Length &length : lengths)
            sum += length.resized;
        state.SetIterationTime(sum);
    }
    double logarithms = 0, lowest = std::numeric_limits<double>::max();
    for (const Length &length : lengths)
        if (length.from_template) {
            logarithms += std::log(length.alone / length.resized);
            lowest = std::min(lowest, length.alone / length.resized);
        }
    if (templates == 0) {
        state.SkipWithError("no length has a template");
        return;
    }
    state.counters["ratio"] = std::exp(logarithms / static_cast<double>(templates));
    state.counters["lowest"] = lowest;
    state.counters["lengths"] = static_cast<double>(templates);
}
#define LZ_LENGTHS(name)                                                                                     \
    BENCHMARK_CAPTURE(all_lengths, name, name)                                                               \
        ->Name("256_lengths/" #name)                                                                         \
        ->Iterations(10)                                                                                     \
        ->UseManualTime()                                                                                    \
        ->Unit(benchmark::kMillisecond)
LZ_LENGTHS(chain);
LZ_LENGTHS(mlp);
LZ_LENGTHS(layer);

} // namespace

int main(int argc, char **argv) {
    ::setenv("LAZULI_QUICK", "0", 1); // compiled before they run, all of them
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
