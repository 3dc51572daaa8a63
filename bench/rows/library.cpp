// Operations that are library calls or made of them (sums by index, selections, scans and sorts), group norm,
// reductions of short rows, images with their channels last, paddings and powers, beside LibTorch where it is
// installed. Rounds of both take turns; `torch_ms` is LibTorch's best round and `ratio` how many times longer
// it takes than ours.
//
//   bench_library
#include "bench/support/turns.h"

#include <lazuli/lazuli.h>
#include <lazuli/nn.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/torch.h"
#endif

#include <cstdio>
#include <string>
#include <vector>

namespace {

using lz::Tensor;
using lz::bench::Round;
using lz::bench::take_turns;

constexpr int64_t kSide = 4096;

#if LAZULI_BENCH_TORCH
namespace peer = lz::bench::torch;
#define LZ_PEER(...) __VA_ARGS__
#else
#define LZ_PEER(...) Round()
#endif

Tensor ready(Tensor x) {
    x.eval();
    return x;
}

/// Rows of `width` elements, or numbers where that is 0: `count` of them are added to `places`.
void index_add(benchmark::State &state) {
    const int64_t places = state.range(0), count = state.range(1), width = state.range(2);
    const auto shape = [&](int64_t n) {
        return width ? std::vector<int64_t>{n, width} : std::vector<int64_t>{n};
    };
    const Tensor x = ready(lz::rand(shape(places))), source = ready(lz::rand(shape(count))),
                 index = ready(lz::randint(0, places, {count}));
    take_turns(
        state, [&] { lz::index_add(x, 0, index, source).eval(); },
        LZ_PEER(peer::index_add(places, count, width)));
}
BENCHMARK(index_add)
    ->ArgNames({"places", "count", "width"})
    ->Args({65536, 262144, 64})
    ->Args({1000, 262144, 64})
    ->Args({65536, 65536, 100})
    ->Args({1 << 20, 1 << 22, 0})
    ->Args({1000, 1 << 22, 0})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

void scatter_add_columns(benchmark::State &state) {
    const int64_t places = 1024;
    const Tensor x = ready(lz::rand({places, kSide})), source = ready(lz::rand({places, kSide})),
                 index = ready(lz::randint(0, places, {places, kSide}));
    take_turns(
        state, [&] { lz::scatter_add(x, 0, index, source).eval(); },
        LZ_PEER(peer::scatter_add_columns(places, kSide)));
}
BENCHMARK(scatter_add_columns)->UseManualTime()->Unit(benchmark::kMillisecond);

void topk(benchmark::State &state) {
    const Tensor x = ready(lz::randn({kSide, kSide}));
    const int64_t k = state.range(0);
    take_turns(
        state,
        [&] {
            const auto [values, indices] = lz::topk(x, k);
            lz::eval({values, indices});
        },
        LZ_PEER(peer::topk(kSide, k)));
}
BENCHMARK(topk)->Arg(1)->Arg(50)->Arg(1000)->UseManualTime()->Unit(benchmark::kMillisecond);

void sort_rows(benchmark::State &state) {
    const Tensor x = ready(lz::randn({kSide, kSide}));
    take_turns(
        state,
        [&] {
            const auto [values, indices] = lz::sort(x, 1);
            lz::eval({values, indices});
        },
        LZ_PEER(peer::sort_rows(kSide)));
}
BENCHMARK(sort_rows)->UseManualTime()->Unit(benchmark::kMillisecond);

constexpr int64_t kLine = 1 << 20, kSmallSide = 1024;

void sort_line(benchmark::State &state) {
    const Tensor x = ready(lz::randn({kLine}));
    take_turns(
        state,
        [&] {
            const auto [values, indices] = lz::sort(x);
            lz::eval({values, indices});
        },
        LZ_PEER(peer::sort_line(kLine)));
}
void randperm(benchmark::State &state) {
    take_turns(state, [&] { lz::randperm(kLine).eval(); }, LZ_PEER(peer::randperm(kLine)));
}
void median(benchmark::State &state) {
    const Tensor x = ready(lz::randn({kSmallSide, kSmallSide}));
    const int64_t axis = state.range(0);
    take_turns(state, [&] { x.median(axis).values.eval(); }, LZ_PEER(peer::median(kSmallSide, axis)));
}
void cummax(benchmark::State &state) {
    const Tensor x = ready(lz::randn({kSmallSide, kSmallSide}));
    const int64_t axis = state.range(0);
    take_turns(state, [&] { x.cummax(axis).values.eval(); }, LZ_PEER(peer::cummax(kSmallSide, axis)));
}
void masked_select(benchmark::State &state) {
    const Tensor x = ready(lz::randn({kLine})), mask = ready(lz::randn({kLine}) > 0);
    take_turns(state, [&] { x.masked_select(mask).eval(); }, LZ_PEER(peer::masked_select(kLine)));
}
/// Samples of so many weights, with replacement.
void multinomial(benchmark::State &state) {
    constexpr int64_t kWeights = 10000, kSamples = 1000;
    const Tensor weights = ready(lz::rand({kWeights}));
    take_turns(
        state, [&] { lz::multinomial(weights, kSamples, true).eval(); },
        LZ_PEER(peer::multinomial(kWeights, kSamples)));
}
BENCHMARK(sort_line)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(randperm)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(median)->ArgName("axis")->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cummax)->ArgName("axis")->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(masked_select)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(multinomial)->UseManualTime()->Unit(benchmark::kMicrosecond);

void flip(benchmark::State &state) {
    const Tensor x = ready(lz::rand({kSmallSide, kSmallSide}));
    take_turns(state, [&] { x.flip({0, 1}).eval(); }, LZ_PEER(peer::flip(kSmallSide)));
}
BENCHMARK(flip)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// Over [32, 64, 28, 28] in so many groups, and with its gradients.
void group_norm(benchmark::State &state) {
    constexpr int64_t kBatch = 32, kChannels = 64, kImage = 28;
    const int64_t groups = state.range(0);
    const bool backward = state.range(1) != 0;
    lz::nn::GroupNorm norm(groups, kChannels);
    Tensor x = ready(lz::randn({kBatch, kChannels, kImage, kImage}));
    const Tensor g = ready(lz::randn(x.sizes()));
    if (backward)
        x.requires_grad_();
    take_turns(
        state,
        [&] {
            if (!backward) {
                const lz::NoGradGuard no_grad;
                norm(x).eval();
                return;
            }
            norm->zero_grad();
            x.mutable_grad() = {};
            norm(x).backward(g);
            lz::eval({x.grad(), norm->weight.grad(), norm->bias.grad()});
        },
        LZ_PEER(peer::group_norm(kBatch, kChannels, kImage, groups, backward)));
}
BENCHMARK(group_norm)
    ->ArgNames({"groups", "backward"})
    ->ArgsProduct({{2, 32}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// Over axis 1 of (outer, extent, inner).
void cumsum(benchmark::State &state) {
    const int64_t outer = state.range(0), extent = state.range(1), inner = state.range(2);
    const Tensor x = ready(lz::randn({outer, extent, inner}));
    take_turns(state, [&] { lz::cumsum(x, 1).eval(); }, LZ_PEER(peer::cumsum(outer, extent, inner)));
}
BENCHMARK(cumsum)
    ->ArgNames({"outer", "extent", "inner"})
    ->Args({kSide, kSide, 1})
    ->Args({kSide, kSide + 4, 1})
    ->Args({1, kSide, kSide})
    ->Args({kSide, kSide / 4, 4})
    ->Args({1 << 20, 4, 4})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// Rows of 100 places, one of them 1, and what it is made of: a comparison with 100 numbers.
void one_hot(benchmark::State &state) {
    constexpr int64_t kCount = 1 << 16, kClasses = 100;
    const Tensor labels = ready(lz::randint(0, kClasses, {kCount}));
    const Tensor classes = ready(lz::arange(0, kClasses)), column = ready(labels.unsqueeze(1));
    const bool hot = state.range(0) == 0;
    take_turns(
        state, [&] { hot ? lz::one_hot(labels, kClasses).eval() : (column == classes).eval(); },
        LZ_PEER(hot ? peer::one_hot(kCount, kClasses) : peer::compare_with_classes(kCount, kClasses)));
}
BENCHMARK(one_hot)->ArgName("compared")->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// Along an axis of a square: where the largest is, and what it is.
void argmax(benchmark::State &state) {
    const Tensor x = ready(lz::randn({kSide, kSide}));
    const int64_t axis = state.range(0);
    take_turns(state, [&] { x.argmax(axis).eval(); }, LZ_PEER(peer::argmax(kSide, axis)));
}
void amax(benchmark::State &state) {
    const Tensor x = ready(lz::randn({kSide, kSide}));
    const int64_t axis = state.range(0);
    take_turns(state, [&] { x.amax({axis}).eval(); }, LZ_PEER(peer::amax(kSide, axis)));
}
BENCHMARK(argmax)->ArgName("axis")->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(amax)->ArgName("axis")->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMillisecond);

/// Of short rows, as those of a few classes.
void of_rows(benchmark::State &state, const std::string &function) {
    const int64_t extent = state.range(0), count = (int64_t{1} << 18) / extent;
    const Tensor x = ready(lz::randn({count, extent}));
    const auto compute = [&] {
        return function == "sum"           ? x.sum(1)
               : function == "amax"        ? x.amax(1)
               : function == "argmax"      ? x.argmax(1)
               : function == "softmax"     ? lz::softmax(x, 1)
               : function == "log_softmax" ? lz::log_softmax(x, 1)
                                           : x.var(1);
    };
    take_turns(state, [&] { compute().eval(); }, LZ_PEER(peer::of_rows(function, count, extent)));
}
void channels_last(benchmark::State &state) {
    constexpr int64_t kCount = 16, kSize = 64;
    const int64_t channels = state.range(0);
    const bool back = state.range(1) != 0;
    const Tensor x =
        ready(back ? lz::rand({kCount, kSize, kSize, channels}) : lz::rand({kCount, channels, kSize, kSize}));
    take_turns(
        state, [&] { (back ? x.permute({0, 3, 1, 2}) : x.permute({0, 2, 3, 1})).contiguous().eval(); },
        LZ_PEER(peer::channels_last(kCount, channels, kSize, back)));
}
void pad(benchmark::State &state) {
    const Tensor x = ready(lz::rand({16, 3, 64, 64}));
    take_turns(state, [&] { lz::pad(x, {1, 1, 1, 1}).eval(); }, LZ_PEER(peer::pad(16, 3, 64)));
}
/// Exponents that are written as multiplications or a root, and one that is not.
void power(benchmark::State &state, double exponent) {
    const Tensor x = ready(lz::rand({kLine}));
    take_turns(state, [&] { lz::pow(x, exponent).eval(); }, LZ_PEER(peer::power(kLine, exponent)));
}
#define LZ_OF_ROWS(function)                                                                                 \
    BENCHMARK_CAPTURE(of_rows, function, #function)                                                          \
        ->Arg(3)                                                                                             \
        ->Arg(10)                                                                                            \
        ->Arg(24)                                                                                            \
        ->Arg(100)                                                                                           \
        ->UseManualTime()                                                                                    \
        ->Unit(benchmark::kMicrosecond)
LZ_OF_ROWS(sum);
LZ_OF_ROWS(amax);
LZ_OF_ROWS(argmax);
LZ_OF_ROWS(softmax);
LZ_OF_ROWS(log_softmax);
LZ_OF_ROWS(var);
#undef LZ_OF_ROWS
BENCHMARK(channels_last)
    ->ArgNames({"channels", "back"})
    ->ArgsProduct({{3, 4, 16, 64}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(pad)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(power, 3, 3.0)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(power, half, 0.5)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(power, 2.5, 2.5)->UseManualTime()->Unit(benchmark::kMicrosecond);

/// Results are right before their time is taken.
bool check() {
    const Tensor sums = lz::index_add(lz::zeros({3}), 0, lz::tensor({2, 0, 2}), lz::tensor({1.f, 2.f, 4.f}));
    const auto [values, indices] = lz::topk(lz::tensor({1.f, 5.f, 3.f, 5.f}), 3);
    return sums.to_vector<float>() == std::vector<float>{2, 0, 5} &&
           values.to_vector<float>() == std::vector<float>{5, 5, 3} &&
           indices.to_vector<int64_t>() == std::vector<int64_t>{1, 3, 2};
}

} // namespace

int main(int argc, char **argv) {
    if (!check()) {
        std::fprintf(stderr, "bench_library: a result is wrong; nothing is timed\n");
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
