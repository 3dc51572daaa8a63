// Training steps (forward, backward, AdamW) beside LibTorch's eager ones, where it is installed: rounds take
// turns. `ratio` is LibTorch's best round over ours, on as many threads; `cpu_ratio` the same of the time of
// all threads together, which says more on a machine that others use.
//
//   bench_training
//
// For the GPT, beside it: how much memory a step takes at its peak, measured and as planned by `explain`.
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/training.h"
#endif

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace nn = lz::nn;
using lz::Tensor;
using Round = std::function<void()>;

struct DigitsImpl : nn::Module {
    nn::Linear fc1{register_module("fc1", nn::Linear(64, 128))};
    nn::Linear fc2{register_module("fc2", nn::Linear(128, 64))};
    nn::Linear fc3{register_module("fc3", nn::Linear(64, 10))};
    nn::Dropout dropout{register_module("dropout", nn::Dropout(0.2))};
    Tensor forward(const Tensor &x) { return fc3(dropout(lz::relu(fc2(dropout(lz::relu(fc1(x))))))); }
};
LZ_MODULE(Digits);

constexpr int64_t kWidth = 128, kHeads = 4, kContext = 128, kBatch = 16, kVocabulary = 76;

struct BlockImpl : nn::Module {
    nn::LayerNorm norm1{register_module("norm1", nn::LayerNorm(kWidth))};
    nn::Linear qkv{register_module("qkv", nn::Linear(kWidth, 3 * kWidth))};
    nn::Linear out{register_module("out", nn::Linear(kWidth, kWidth))};
    nn::LayerNorm norm2{register_module("norm2", nn::LayerNorm(kWidth))};
    nn::Linear up{register_module("up", nn::Linear(kWidth, 4 * kWidth))};
    nn::Linear down{register_module("down", nn::Linear(4 * kWidth, kWidth))};
    Tensor forward(const Tensor &x) {
        const std::vector<Tensor> parts = qkv(norm1(x))
                                              .view({x.size(0), x.size(1), 3, kHeads, kWidth / kHeads})
                                              .permute({2, 0, 3, 1, 4})
                                              .unbind(0);
        const Tensor attended =
            nn::functional::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
        const Tensor y = x + out(attended.transpose(1, 2).reshape(x.sizes()));
        return y + down(lz::gelu(up(norm2(y)), lz::Gelu::Tanh));
    }
};
LZ_MODULE(Block);

struct GptImpl : nn::Module {
    nn::Embedding characters{register_module("characters", nn::Embedding(kVocabulary, kWidth))};
    nn::Embedding places{register_module("places", nn::Embedding(kContext, kWidth))};
    nn::Sequential blocks{register_module("blocks", nn::Sequential(Block(), Block(), Block(), Block()))};
    nn::LayerNorm norm{register_module("norm", nn::LayerNorm(kWidth))};
    nn::Linear head{register_module("head", nn::Linear(kWidth, kVocabulary))};
    Tensor forward(const Tensor &text) {
        return head(norm(blocks(characters(text) + places(lz::arange(text.size(1))))));
    }
};
LZ_MODULE(Gpt);

Round digits_step() {
    Digits net;
    auto optimizer = std::make_shared<lz::optim::AdamW>(net->parameters(),
                                                        lz::optim::AdamWOptions(1e-3).weight_decay(0.01));
    const Tensor x = lz::rand({64, 64}), y = lz::randint(10, {64});
    lz::eval({x, y});
    return [=] {
        optimizer->zero_grad();
        lz::cross_entropy(net(x), y).backward();
        optimizer->step();
        lz::sync();
    };
}

/// What is recorded of a step, before it runs.
Round char_gpt_recording(const Gpt &net) {
    auto optimizer = std::make_shared<lz::optim::AdamW>(net->parameters(),
                                                        lz::optim::AdamWOptions(1e-3).weight_decay(0.1));
    const Tensor text = lz::randint(kVocabulary, {kBatch, kContext + 1});
    lz::eval({text});
    return [=] {
        optimizer->zero_grad();
        const Tensor logits = net(text.narrow(1, 0, kContext));
        lz::cross_entropy(logits.flatten(0, 1), text.narrow(1, 1, kContext).flatten()).backward();
        optimizer->step();
    };
}

Round adamw_step() {
    std::vector<Tensor> parameters;
    for (int64_t i = 0; i < 200; ++i) {
        parameters.push_back(lz::randn({16 + 8 * (i % 10), 64}).requires_grad_());
        parameters.back().mutable_grad() = lz::randn(parameters.back().sizes());
    }
    auto optimizer = std::make_shared<lz::optim::AdamW>(parameters, lz::optim::AdamWOptions(1e-3));
    return [=] {
        optimizer->step();
        lz::sync();
    };
}

double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// The best rounds of one side.
struct Best {
    double seconds = std::numeric_limits<double>::infinity(), cpu = seconds; ///< of all threads together
    double run(const Round &round) {
        const double cpu_begin = cpu_seconds();
        const auto begin = std::chrono::steady_clock::now();
        round();
        const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        cpu = std::min(cpu, cpu_seconds() - cpu_begin);
        seconds = std::min(seconds, took);
        return took;
    }
};

/// Ours, and LibTorch's if there is one, in turns.
void measure(benchmark::State &state, const Round &ours, const Round &theirs) {
    for (int i = 0; i < 3; ++i) {
        ours();
        if (theirs)
            theirs();
    }
    lz::reset_compile_stats();
    Best best, best_of_theirs;
    for (auto _ : state) {
        state.SetIterationTime(best.run(ours));
        if (theirs)
            best_of_theirs.run(theirs);
    }
    const lz::CompileStats stats = lz::compile_stats();
    state.counters["best_ms"] = best.seconds * 1e3;
    state.counters["launches"] =
        static_cast<double>(stats.kernel_launches) / static_cast<double>(state.iterations());
    if (stats.programs_compiled != 0)
        state.SkipWithError("a step was compiled again");
    if (theirs) {
        state.counters["torch_ms"] = best_of_theirs.seconds * 1e3;
        state.counters["ratio"] = best_of_theirs.seconds / best.seconds;
        state.counters["cpu_ratio"] = best_of_theirs.cpu / best.cpu;
    }
}

#if LAZULI_BENCH_TORCH
#define LZ_PEER(step) lz::bench::torch::step()
#else
#define LZ_PEER(step) Round()
#endif

void digits(benchmark::State &state) {
    measure(state, digits_step(), LZ_PEER(digits_step));
}
BENCHMARK(digits)->UseManualTime()->Unit(benchmark::kMillisecond);

void adamw_200(benchmark::State &state) {
    measure(state, adamw_step(), LZ_PEER(adamw_step));
}
BENCHMARK(adamw_200)->UseManualTime()->Unit(benchmark::kMillisecond);

void char_gpt(benchmark::State &state) {
    const Gpt net;
    const Round record = char_gpt_recording(net);
    const Round step = [&] {
        record();
        lz::sync();
    };
    step();
    step();
    // The peak of a step, beyond what lives on: parameters, gradients of the last step and the optimizer's.
    lz::reset_peak_memory_stats();
    const int64_t before = lz::memory_allocated();
    record();
    const std::string said = lz::explain(), words = "Planned peak: ";
    lz::sync();
    state.counters["planned_MiB"] = std::stod(said.substr(said.find(words) + words.size()));
    state.counters["peak_MiB"] = static_cast<double>(lz::max_memory_allocated()) / (1 << 20);
    state.counters["held_MiB"] = static_cast<double>(before) / (1 << 20);
    measure(state, step, LZ_PEER(char_gpt_step));
}
BENCHMARK(char_gpt)->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(4);

} // namespace

int main(int argc, char **argv) {
#if LAZULI_BENCH_TORCH
    lz::bench::torch::set_threads(lz::num_threads());
#endif
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
}
