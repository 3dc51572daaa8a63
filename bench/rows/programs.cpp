// Whole programs, as a user would write them: k-means, a training step by hand, Jacobi's iteration, the heat
// equation twice, N-body, 64 sizes in turn, a convolution as a product, Black-Scholes; beside LibTorch, where
// it is installed, whose results are compared with ours first.
//
//   bench_programs
//
// Rounds of both take turns; `torch_ms` is LibTorch's best round and `ratio` how many times as long it takes
// as our best. bench/peers/python.py has the same programs for other peers.
#include "bench/support/turns.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/programs.h"
#endif

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using lz::Tensor;
using Tensors = std::vector<Tensor>;

Tensor random(const std::vector<int64_t> &shape, double low = 0, double high = 1) {
    Tensor x = lz::rand(shape) * (high - low) + low;
    x.eval();
    return x;
}

/// Five steps: each point goes to its nearest center, each center to the mean of its points.
Tensor kmeans(const Tensors &in) {
    const Tensor &x = in[0], lengths = (x * x).sum({1}, true), ones = lz::ones({x.size(0)});
    Tensor centers = in[1];
    for (int i = 0; i < 5; ++i) {
        const Tensor distances = lengths - 2 * lz::matmul(x, centers.t()) + (centers * centers).sum(1);
        const Tensor nearest = distances.argmin(1);
        const Tensor sums = lz::index_add(lz::zeros_like(centers), 0, nearest, x);
        const Tensor counts = lz::index_add(lz::zeros({centers.size(0)}), 0, nearest, ones);
        centers = sums / lz::maximum(counts, 1).unsqueeze(1);
    }
    return centers;
}

/// Softmax, two layers, their gradients written out, and both weights afterwards.
Tensor mlp_step(const Tensors &in) {
    const Tensor &x = in[0], &y = in[1], &w1 = in[2], &w2 = in[3];
    const Tensor hidden = lz::relu(lz::matmul(x, w1));
    const Tensor error = (lz::softmax(lz::matmul(hidden, w2), 1) - y) / x.size(0);
    const Tensor back = lz::matmul(error, w2.t()) * (hidden > 0);
    const Tensor next1 = w1 - 0.1 * lz::matmul(x.t(), back), next2 = w2 - 0.1 * lz::matmul(hidden.t(), error);
    return lz::cat({next1.flatten(), next2.flatten()}, 0);
}

/// The four neighbours of what is inside.
Tensor neighbours(const Tensor &u) {
    const lz::Slice in(1, -1), low(0, -2), high(2, lz::None);
    return u.at({low, in}) + u.at({high, in}) + u.at({in, low}) + u.at({in, high});
}

/// Ten iterations in place.
Tensor jacobi(const Tensors &in) {
    Tensor u = in[0].clone();
    for (int i = 0; i < 10; ++i)
        u.at({lz::Slice(1, -1), lz::Slice(1, -1)}) = 0.25 * neighbours(u);
    return u;
}

/// Ten steps on a torus.
Tensor heat_rolls(const Tensors &in) {
    Tensor u = in[0];
    for (int i = 0; i < 10; ++i)
        u = u + 0.1 * (u.roll({1}, {0}) + u.roll({-1}, {0}) + u.roll({1}, {1}) + u.roll({-1}, {1}) - 4 * u);
    return u;
}

/// Ten steps with a cold border.
Tensor heat_slices(const Tensors &in) {
    Tensor u = in[0];
    for (int i = 0; i < 10; ++i) {
        const Tensor inside = u.at({lz::Slice(1, -1), lz::Slice(1, -1)});
        u = lz::pad(inside + 0.1 * (neighbours(u) - 4 * inside), {1, 1, 1, 1});
    }
    return u;
}

/// Accelerations of bodies by all others.
Tensor n_body(const Tensors &in) {
    const Tensor &place = in[0], &mass = in[1];
    const Tensor between = place.unsqueeze(0) - place.unsqueeze(1);
    const Tensor squares = (between * between).sum(2) + 0.01;
    const Tensor strength = mass / (squares * lz::sqrt(squares));
    return (between * strength.unsqueeze(2)).sum(1);
}

/// A small sum over 64 sizes, each read by its reader before the next.
Tensor changing_sizes(const Tensors &in) {
    Tensors sums;
    for (int64_t n = 64; n < 128; ++n) {
        sums.push_back(lz::tanh(in[0].narrow(0, 0, n) * in[1] + in[2]).sum());
        sums.back().eval();
    }
    return lz::stack(sums);
}

/// A convolution of 3 x 3 as a product of its windows.
Tensor conv_unfold(const Tensors &in) {
    const Tensor windows = in[0].unfold(2, 3, 1).unfold(3, 3, 1).permute({0, 2, 3, 1, 4, 5});
    return lz::relu(lz::matmul(windows.reshape({-1, in[1].size(0)}), in[1]));
}

/// Prices of calls.
Tensor black_scholes(const Tensors &in) {
    const auto cdf = [](const Tensor &x) { return 0.5 * (1 + lz::erf(x * std::sqrt(0.5))); };
    const Tensor &spot = in[0], &strike = in[1], &years = in[2];
    const double rate = 0.02, volatility = 0.3;
    const Tensor deviation = volatility * lz::sqrt(years);
    const Tensor d1 = (lz::log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / deviation;
    const Tensor discounted = strike * lz::exp(-rate * years);
    return spot * cdf(d1) - discounted * cdf(d1 - deviation);
}

#if LAZULI_BENCH_TORCH
/// Whether the numbers are the peer's, as parts of the largest: sums have another order, and a point that is
/// as near to two centers goes to either.
bool near(const std::vector<float> &ours, const std::vector<float> &theirs) {
    double largest = 0, difference = 0;
    for (size_t i = 0; i < ours.size() && i < theirs.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(theirs[i])));
        difference =
            std::max(difference, std::abs(static_cast<double>(ours[i]) - static_cast<double>(theirs[i])));
    }
    return ours.size() == theirs.size() && difference <= 1e-3 * largest;
}
#endif

void program(benchmark::State &state, [[maybe_unused]] const std::string &name, Tensor (*f)(const Tensors &),
             Tensors (*inputs)()) {
    lz::manual_seed(11);
    const Tensors in = inputs();
    lz::bench::Round peer;
#if LAZULI_BENCH_TORCH
    lz::bench::torch::Inputs theirs;
    for (const Tensor &x : in) {
        const auto sizes = x.sizes();
        theirs.push_back({{sizes.begin(), sizes.end()}, x.data<float>()});
    }
    const lz::bench::torch::Program program = lz::bench::torch::program(name, theirs);
    if (!near(f(in).flatten().to_vector<float>(), program.result())) {
        state.SkipWithError("the result is not the peer's");
        return;
    }
    peer = program.round;
#endif
    lz::bench::take_turns(state, [&] { f(in).eval(); }, peer);
}
#define LZ_PROGRAM(name, ...)                                                                                \
    BENCHMARK_CAPTURE(program, name, #name, &name, [] { return Tensors{__VA_ARGS__}; })                      \
        ->Name(#name)                                                                                        \
        ->UseManualTime()                                                                                    \
        ->Unit(benchmark::kMillisecond)
LZ_PROGRAM(kmeans, random({65536, 8}), random({16, 8}));
LZ_PROGRAM(mlp_step, random({256, 784}), random({256, 10}), random({784, 256}, -0.05, 0.05),
           random({256, 10}, -0.1, 0.1));
LZ_PROGRAM(jacobi, random({1024, 1024}));
LZ_PROGRAM(heat_rolls, random({1024, 1024}));
LZ_PROGRAM(heat_slices, random({1024, 1024}));
LZ_PROGRAM(n_body, random({2048, 3}), random({2048}));
LZ_PROGRAM(changing_sizes, random({128, 256}), random({256}), random({256}));
LZ_PROGRAM(conv_unfold, random({8, 16, 64, 64}), random({144, 32}, -1, 1));
LZ_PROGRAM(black_scholes, random({1 << 22}, 5, 30), random({1 << 22}, 1, 100), random({1 << 22}, 0.25, 10));

} // namespace

int main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
#if LAZULI_BENCH_TORCH
    lz::bench::torch::set_threads(lz::num_threads());
#endif
    std::printf("%d threads\n", lz::num_threads());
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
