// Operations that are library calls: sums by index, selections, scans and sorts, beside LibTorch where it is
// installed. Rounds of both take turns; `torch_ms` is LibTorch's best round and `ratio` how many times longer
// it takes than ours.
//
//   bench_library
#include "bench/support/turns.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/torch.h"
#endif

#include <cstdio>
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
