// What gradients cost on the host: nanoseconds of an operation that is recorded without them, under a
// NoGradGuard and with them, and of an operation that backward walks back through. Nothing is computed.
//
//   bench_autograd --benchmark_repetitions=9
//
// `per_operation` is of an operation of the user's; `more` is how much longer an operation takes to record
// with gradients than the same without, in rounds that take turns. LibTorch's rows are its eager operations
// on as few elements, their results included.
#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/chains.h"
#endif

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using lz::Tensor;
using Clock = std::chrono::steady_clock;

constexpr int kOperations = 1000;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Sums and products of 8 elements, of which the one factor and the one term want a gradient: backward
/// records two operations for each.
struct Pairs {
    explicit Pairs(bool gradients) : leaves{lz::rand({8}), lz::rand({8})}, start(lz::rand({8})) {
        for (Tensor &x : leaves)
            x.requires_grad_(gradients);
    }
    Tensor operator()() const {
        Tensor x = start;
        for (int i = 0; i < kOperations / 2; ++i) {
            x = x + leaves[0];
            x = x * leaves[1];
        }
        return x;
    }
    std::vector<Tensor> leaves;
    Tensor start;
};

/// What a network is made of, on 8 x 8 elements: products, biases that are broadcast, activations, views.
struct Mixed {
    explicit Mixed(bool gradients)
        : leaves{lz::rand({8, 8}), lz::rand({8}), lz::rand({8, 8})}, start(lz::rand({8, 8})) {
        for (Tensor &x : leaves)
            x.requires_grad_(gradients);
    }
    Tensor operator()() const {
        Tensor x = start;
        for (int i = 0; i < kOperations / 10; ++i) {
            x = lz::matmul(x, leaves[0]);
            x = x + leaves[1];
            x = lz::tanh(x);
            x = x * leaves[2];
            x = x - leaves[1];
            x = lz::relu(x);
            x = x.transpose(0, 1);
            x = x.reshape({4, 16});
            x = x.reshape({8, 8});
            x = x * 0.5;
        }
        return x;
    }
    std::vector<Tensor> leaves;
    Tensor start;
};

/// The rounds of a row: their times, and the best of them, which says more on a machine that others use.
class Rounds {
public:
    explicit Rounds(benchmark::State &state) : state_(state) {}
    ~Rounds() {
        state_.counters["per_operation"] = benchmark::Counter(
            kOperations, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
        state_.counters["best"] = best_ / kOperations;
    }
    Rounds(const Rounds &) = delete;
    Rounds &operator=(const Rounds &) = delete;
    void add(double seconds) {
        state_.SetIterationTime(seconds);
        best_ = std::min(best_, seconds);
    }
    double best() const { return best_; }

private:
    benchmark::State &state_;
    double best_ = std::numeric_limits<double>::infinity();
};

/// How long one chain takes to record. It goes afterwards.
template <class Chain>
double record(const Chain &chain) {
    const auto begin = Clock::now();
    const Tensor last = chain();
    return seconds_since(begin);
}

template <class Chain>
void without_gradients(benchmark::State &state) {
    const Chain chain(false);
    lz::sync();
    Rounds rounds(state);
    for (auto _ : state)
        rounds.add(record(chain));
}

/// Of tensors that want a gradient, as an evaluation of a network under training does.
template <class Chain>
void under_guard(benchmark::State &state) {
    const Chain chain(true);
    lz::sync();
    const lz::NoGradGuard no_grad;
    Rounds rounds(state);
    for (auto _ : state)
        rounds.add(record(chain));
}

template <class Chain>
void with_gradients(benchmark::State &state) {
    const Chain chain(true), plain(false);
    lz::sync();
    double best_of_plain = std::numeric_limits<double>::infinity();
    Rounds rounds(state);
    for (auto _ : state) {
        best_of_plain = std::min(best_of_plain, record(plain));
        rounds.add(record(chain));
    }
    state.counters["more"] = (rounds.best() - best_of_plain) / kOperations;
}

/// From the last result to the gradients of the leaves, which are recorded and not computed.
template <class Chain>
void backward(benchmark::State &state) {
    Chain chain(true);
    const Tensor ones = lz::ones(chain.start.sizes());
    lz::eval({ones});
    lz::sync();
    Rounds rounds(state);
    for (auto _ : state) {
        const Tensor last = chain();
        const auto begin = Clock::now();
        last.backward(ones);
        rounds.add(seconds_since(begin));
        for (Tensor &x : chain.leaves)
            x.mutable_grad() = Tensor();
    }
}

#define LZ_ROWS(name, Chain)                                                                                 \
    BENCHMARK(without_gradients<Chain>)->Name(name "/without_gradients")->UseManualTime();                   \
    BENCHMARK(under_guard<Chain>)->Name(name "/under_guard")->UseManualTime();                               \
    BENCHMARK(with_gradients<Chain>)->Name(name "/with_gradients")->UseManualTime();                         \
    BENCHMARK(backward<Chain>)->Name(name "/backward")->UseManualTime();
LZ_ROWS("pairs", Pairs)
LZ_ROWS("mixed", Mixed)

#if LAZULI_BENCH_TORCH
enum class Mode : uint8_t { Without, Guard, With, Backward };

void torch_chain(benchmark::State &state, lz::bench::torch::Chain (*make)(bool), Mode mode) {
    lz::bench::torch::set_threads(lz::num_threads());
    const lz::bench::torch::Chain chain = make(mode != Mode::Without);
    Rounds rounds(state);
    for (auto _ : state) {
        const auto begin = Clock::now();
        chain.forward(mode == Mode::With || mode == Mode::Backward);
        const double forward = seconds_since(begin);
        if (mode == Mode::Backward)
            chain.backward();
        rounds.add(mode == Mode::Backward ? seconds_since(begin) - forward : forward);
        chain.forget();
    }
}
#define LZ_TORCH_ROWS(name)                                                                                  \
    BENCHMARK_CAPTURE(torch_chain, name, lz::bench::torch::name, Mode::Without)                              \
        ->Name("torch_" #name "/without_gradients")                                                          \
        ->UseManualTime();                                                                                   \
    BENCHMARK_CAPTURE(torch_chain, name, lz::bench::torch::name, Mode::Guard)                                \
        ->Name("torch_" #name "/under_guard")                                                                \
        ->UseManualTime();                                                                                   \
    BENCHMARK_CAPTURE(torch_chain, name, lz::bench::torch::name, Mode::With)                                 \
        ->Name("torch_" #name "/with_gradients")                                                             \
        ->UseManualTime();                                                                                   \
    BENCHMARK_CAPTURE(torch_chain, name, lz::bench::torch::name, Mode::Backward)                             \
        ->Name("torch_" #name "/backward")                                                                   \
        ->UseManualTime();
LZ_TORCH_ROWS(pairs)
LZ_TORCH_ROWS(mixed)
#endif

} // namespace

BENCHMARK_MAIN();
