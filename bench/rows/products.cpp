// Products of the sizes that networks have, and the forward pass of GPT-2-small, beside LibTorch, where it is
// installed.
//
//   bench_products
//
// Timed as bench_matmul is. LAZULI_THREADS=1 for one thread.
#include "bench/support/ceilings.h"
#include "bench/support/compete.h"
#include "gpt2.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/torch.h"
#endif

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using lz::Tensor;
using lz::bench::compete;
using lz::bench::Contender;
using lz::bench::kBursts;

Tensor random(int64_t rows, int64_t columns, lz::DType dtype = lz::f32) {
    Tensor t = (lz::rand({rows, columns}) * 2 - 1).to(dtype);
    t.eval();
    return t;
}

/// Runs everything of ours and of the peer's on one thread, as long as it is there.
class OneThread {
public:
    OneThread() : all_(lz::num_threads()) { lz::set_num_threads(1); }
    ~OneThread() { lz::set_num_threads(all_); }
    OneThread(const OneThread &) = delete;
    OneThread &operator=(const OneThread &) = delete;

private:
    int all_;
};

/// Few rows are about as fast as the matrix is read.
constexpr int64_t kFewRows = 8;

/// Arguments: m, k, n. `transposed`: the right operand lies as the weight of a linear layer does. Of few rows
/// `of_read` is the part of what the threads read in a sum of as many bytes as the matrix has, in turn.
void product(benchmark::State &state, lz::DType dtype, bool transposed = false) {
    const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
    const Tensor a = random(m, k, dtype);
    const Tensor b = transposed ? random(n, k, dtype).t() : random(k, n, dtype);
    std::vector<Contender> contenders;
    contenders.push_back({"lazuli", [&] { lz::matmul(a, b).eval(); }});
#if LAZULI_BENCH_TORCH
    namespace peer = lz::bench::torch;
    peer::set_threads(lz::num_threads());
    const peer::Number number = dtype == lz::f64    ? peer::Number::F64
                                : dtype == lz::bf16 ? peer::Number::BF16
                                : dtype == lz::f16  ? peer::Number::F16
                                                    : peer::Number::F32;
    contenders.push_back({"torch", transposed ? peer::linear(m, k, n) : peer::matmul(m, k, n, number)});
#endif
    using lz::bench::Numbers;
    std::optional<lz::bench::MemoryMeter> meter;
    if (m <= kFewRows) {
        meter.emplace(b.nbytes(), lz::num_threads());
        contenders.push_back({"read", [&] { meter->pass(lz::bench::Traffic::Read); }, false});
    }
    compete(state, std::move(contenders), 2.0 * static_cast<double>(m * n * k), nullptr,
            m <= kFewRows       ? Numbers::Other
            : dtype == lz::f32  ? Numbers::F32
            : dtype == lz::f64  ? Numbers::F64
            : dtype == lz::bf16 ? Numbers::BF16
                                : Numbers::Other);
    if (m <= kFewRows) {
        state.counters["of_read"] = state.counters["lazuli"] / state.counters["read"];
        state.counters.erase("read");
    }
}
void product_on_one_thread(benchmark::State &state) {
    const OneThread one;
    product(state, lz::f32);
}

void square_sizes(benchmark::internal::Benchmark *b) {
    for (const int64_t n : {64, 128, 256, 512, 1024, 2048})
        b->Args({n, n, n});
    b->Iterations(kBursts)->UseManualTime()->Unit(benchmark::kMicrosecond);
}
void linear_sizes(benchmark::internal::Benchmark *b) {
    for (const int64_t m : {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024})
        b->Args({m, 768, 3072});
    b->Iterations(kBursts)->UseManualTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(product, f32, lz::f32)->Apply(square_sizes);
BENCHMARK_CAPTURE(product, f32_wide, lz::f32)->Apply(linear_sizes);
BENCHMARK_CAPTURE(product, f32_linear, lz::f32, true)->Apply(linear_sizes);
BENCHMARK(product_on_one_thread)
    ->Args({16, 768, 3072})
    ->Args({256, 768, 3072})
    ->Args({1024, 768, 3072})
    ->Iterations(kBursts)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(product, bf16, lz::bf16)->Apply(square_sizes);
BENCHMARK_CAPTURE(product, bf16_wide, lz::bf16)->Apply(linear_sizes);
BENCHMARK_CAPTURE(product, f64, lz::f64)->Args({512, 512, 512})->Iterations(kBursts)->UseManualTime();
BENCHMARK_CAPTURE(product, f16, lz::f16)->Args({1024, 1024, 1024})->Iterations(kBursts)->UseManualTime();

/// Arguments: batch, m, k, n.
void batched(benchmark::State &state, lz::DType dtype) {
    const int64_t batch = state.range(0), m = state.range(1), k = state.range(2), n = state.range(3);
    const Tensor a = random(batch * m, k, dtype).reshape({batch, m, k}),
                 b = random(batch * k, n, dtype).reshape({batch, k, n});
    std::vector<Contender> contenders;
    contenders.push_back({"lazuli", [&] { lz::matmul(a, b).eval(); }});
#if LAZULI_BENCH_TORCH
    namespace peer = lz::bench::torch;
    peer::set_threads(lz::num_threads());
    contenders.push_back(
        {"torch", peer::batched(batch, m, k, n, dtype == lz::f64 ? peer::Number::F64 : peer::Number::F32)});
#endif
    using lz::bench::Numbers;
    compete(state, std::move(contenders), 2.0 * static_cast<double>(batch * m * n * k), nullptr,
            dtype == lz::f64 ? Numbers::F64 : Numbers::F32);
}
BENCHMARK_CAPTURE(batched, f32, lz::f32)->Args({64, 128, 64, 128})->Iterations(kBursts)->UseManualTime();
BENCHMARK_CAPTURE(batched, f64, lz::f64)->Args({64, 128, 64, 128})->Iterations(kBursts)->UseManualTime();

/// Written out, as a user would. Arguments: heads, length, width of a head. Flops are those of its products.
void attention(benchmark::State &state) {
    const int64_t heads = state.range(0), length = state.range(1), width = state.range(2);
    const auto operand = [&] { return random(heads * length, width).reshape({heads, length, width}); };
    const Tensor q = operand(), k = operand(), v = operand();
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    std::vector<Contender> contenders;
    contenders.push_back({"lazuli", [&] {
                              const Tensor scores = lz::matmul(q, k.transpose(1, 2)) * scale;
                              lz::matmul(lz::softmax(scores, -1), v).eval();
                          }});
#if LAZULI_BENCH_TORCH
    lz::bench::torch::set_threads(lz::num_threads());
    contenders.push_back({"torch", lz::bench::torch::attention(heads, length, width)});
#endif
    compete(state, std::move(contenders), 4.0 * static_cast<double>(heads * length * length * width));
}
BENCHMARK(attention)->Args({8, 512, 64})->Iterations(kBursts)->UseManualTime();

/// Arguments: batch, length. Flops are those of its products.
void gpt2_small(benchmark::State &state) {
    const lz::NoGradGuard no_grad;
    const gpt2::Config config;
    const int64_t batch = state.range(0), length = state.range(1);
    gpt2::Gpt2 net(config);
    net->eval();
    const Tensor text = lz::randint(0, config.vocabulary, {batch, length});
    text.eval();
    net(text).eval(); // draws the parameters, too
    const double flops = lz::pending_flops(net(text));
    std::vector<Contender> contenders;
    contenders.push_back({"lazuli", [&] { net(text).eval(); }});
#if LAZULI_BENCH_TORCH
    lz::bench::torch::set_threads(lz::num_threads());
    contenders.push_back({"torch", lz::bench::torch::gpt2(batch, length)});
#endif
    compete(state, std::move(contenders), flops);
}
BENCHMARK(gpt2_small)
    ->Args({1, 1})
    ->Args({1, 16})
    ->Args({1, 128})
    ->Args({4, 256})
    ->Iterations(kBursts)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// One token behind a cache of so many, as it is when text is generated: about all of it is reading the
/// weights and the cache once. Counters: the bytes of both in a second, in units of 10^9, of each contender;
/// and `of_read`, ours as a part of what all threads read in a sum, measured in turn.
void gpt2_token(benchmark::State &state) {
    const lz::NoGradGuard no_grad;
    const gpt2::Config config;
    gpt2::Gpt2 net(config);
    net->eval();
    const Tensor token = lz::randint(0, config.vocabulary, {1, 1});
    gpt2::Cache cache(config, 1, state.range(0), {});
    double bytes = 0;
    for (const Tensor &weight : net->parameters())
        bytes += static_cast<double>(weight.nbytes());
    bytes -= static_cast<double>(net->wpe->weight.nbytes());
    for (size_t i = 0; i < cache.keys.size(); ++i)
        bytes += static_cast<double>(cache.keys[i].nbytes() + cache.values[i].nbytes());
    std::vector<Contender> contenders;
    contenders.push_back({"lazuli", [&] {
                              cache.length = state.range(0) - 1;
                              net->next(token, cache).eval();
                          }});
#if LAZULI_BENCH_TORCH
    lz::bench::torch::set_threads(lz::num_threads());
    contenders.push_back({"torch", lz::bench::torch::gpt2_token(state.range(0))});
#endif
    lz::bench::MemoryMeter meter(int64_t{256} << 20, lz::num_threads());
    contenders.push_back({"read", [&] { meter.pass(lz::bench::Traffic::Read); }, false});
    compete(state, std::move(contenders), bytes, nullptr, lz::bench::Numbers::Other);
    // A pass of the meter reads 256 MiB.
    state.counters["read"] = state.counters["read"] * static_cast<double>(int64_t{256} << 20) / bytes;
    state.counters["of_read"] = state.counters["lazuli"] / state.counters["read"];
}
BENCHMARK(gpt2_token)->Arg(512)->Iterations(kBursts)->UseManualTime()->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
