// Products beside OpenBLAS, oneDNN and (eager) LibTorch, where they are installed, and as fractions of what
// the machine multiplies.
//
//   bench_matmul
//
// Each benchmark times all contenders in turn, in bursts, each after a while of its own that is not timed:
// threads of another library spin for some time after its last call. Counters: GFLOP/s (medians of the
// bursts), `ratio` to the better of the first two peers, `of_peak`. The time is ours. OpenBLAS chooses its
// kernels by the CPU's name; OPENBLAS_CORETYPE=SkylakeX makes one that does not know the host use AVX-512.
#include "bench/support/companion.h"
#include "bench/support/compete.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_OPENBLAS
#include <cblas.h>
extern "C" void openblas_set_num_threads(int);
#endif
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/torch.h"
#endif

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using lz::Tensor;
using lz::bench::compete;
using lz::bench::Contender;
using lz::bench::kBursts;
/// To the better peer, of all products in f32 that were run.
std::vector<double> ratios_of_f32;

Tensor random(int64_t rows, int64_t columns, lz::DType dtype = lz::f32) {
    Tensor t = (lz::rand({rows, columns}) * 2 - 1).to(dtype);
    t.eval();
    return t;
}

#if LAZULI_BENCH_OPENBLAS
void openblas_product(const float *a, const float *b, bool transposed, float *out, int64_t m, int64_t n,
                      int64_t k) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans, static_cast<int>(m),
                static_cast<int>(n), static_cast<int>(k), 1, a, static_cast<int>(k), b,
                static_cast<int>(transposed ? k : n), 0, out, static_cast<int>(n));
}
#endif

#if LAZULI_BENCH_ONEDNN
/// oneDNN in its own process (bench/companions/onednn.cpp); empty where it does not start, which is said
/// once.
lz::bench::Companion *onednn() {
    static const std::unique_ptr<lz::bench::Companion> process = [] {
        std::unique_ptr<lz::bench::Companion> started;
        try {
            started = std::make_unique<lz::bench::Companion>(std::vector<std::string>{
                LAZULI_BENCH_COMPANIONS "/companion_onednn", std::to_string(lz::num_threads())});
            started->ask("version");
        } catch (const std::exception &error) {
            std::fprintf(stderr, "left out: oneDNN: %s\n", error.what());
            started.reset();
        }
        return started;
    }();
    return process.get();
}
#endif

/// oneDNN is no contender where it has no product of these types for this processor (bf16 without AVX-512).
void add_onednn([[maybe_unused]] std::vector<Contender> &contenders,
                [[maybe_unused]] const std::string &request) {
#if LAZULI_BENCH_ONEDNN
    try {
        if (onednn() && onednn()->ask(request) != "unimplemented")
            contenders.push_back({"onednn", {}, true, {}, [=] { return onednn()->number(request); }});
    } catch (const std::exception &error) {
        std::fprintf(stderr, "left out: oneDNN: %s: %s\n", request.c_str(), error.what());
    }
#endif
}

/// Whether a few elements are what a sum in f64 says.
bool right(const Tensor &a, const Tensor &b, const float *out, int64_t m, int64_t n, int64_t k) {
    const float *x = a.data<float>(), *y = b.data<float>();
    for (int64_t s = 0; s < 64; ++s) {
        const int64_t i = s * 7919 % m, j = s * 104729 % n;
        double sum = 0, size = 0;
        for (int64_t p = 0; p < k; ++p) {
            const double term = static_cast<double>(x[i * k + p]) * y[p * n + j];
            sum += term;
            size += std::abs(term);
        }
        if (!(std::abs(sum - out[i * n + j]) <= size * static_cast<double>(k) * 0x1p-24))
            return false;
    }
    return true;
}

/// Arguments: m, k, n.
void matmul_f32(benchmark::State &state) {
    const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
    const Tensor a = random(m, k), b = random(k, n);
    Tensor checked = lz::matmul(a, b);
    if (!right(a, b, checked.data<float>(), m, n, k)) {
        state.SkipWithError("the product is wrong");
        return;
    }
    std::vector<float> out(static_cast<size_t>(m * n));
    std::vector<Contender> contenders;
    contenders.push_back({"lazuli", [&] { lz::matmul(a, b).eval(); }});
#if LAZULI_BENCH_OPENBLAS
    openblas_set_num_threads(lz::num_threads());
    const float *x = a.data<float>(), *y = b.data<float>();
    contenders.push_back({"openblas", [&] { openblas_product(x, y, false, out.data(), m, n, k); }});
#endif
    add_onednn(contenders, fmt::format("f32 {} {} {}", m, k, n));
#if LAZULI_BENCH_TORCH
    lz::bench::torch::set_threads(lz::num_threads());
    contenders.push_back({"torch", lz::bench::torch::matmul(m, k, n), false});
#endif
    compete(state, std::move(contenders), 2.0 * static_cast<double>(m * n * k), &ratios_of_f32);
}
BENCHMARK(matmul_f32)
    ->Args({64, 64, 64})
    ->Args({128, 128, 128})
    ->Args({256, 256, 256})
    ->Args({512, 512, 512})
    ->Args({1024, 1024, 1024})
    ->Args({2048, 2048, 2048})
    ->Args({4096, 4096, 4096})
    ->Args({4096, 64, 4096})
    ->Args({17, 33, 65})
    ->Args({4096, 4096, 1})
    ->Args({1, 4096, 4096})
    ->Args({1000, 1000, 1})
    ->Args({1, 1000, 1000})
    ->Iterations(kBursts)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

/// What it costs that products have one order on every device (LAZULI_REPRODUCIBLE=1): ours so, beside ours.
/// Arguments: m, k, n.
void matmul_reproducible(benchmark::State &state) {
    const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
    const Tensor a = random(m, k), b = random(k, n);
    const auto product = [&](bool reproducible) {
        lz::set_reproducible(reproducible);
        lz::matmul(a, b).eval();
    };
    const bool before = lz::is_reproducible();
    product(true);
    compete(state, {{"reproducible", [&] { product(true); }}, {"lazuli", [&] { product(false); }}},
            2.0 * static_cast<double>(m * n * k));
    lz::set_reproducible(before);
}
BENCHMARK(matmul_reproducible)
    ->Args({256, 256, 256})
    ->Args({1024, 1024, 1024})
    ->Args({4096, 4096, 1})
    ->Args({1, 4096, 4096})
    ->Iterations(kBursts)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

void matmul_bf16(benchmark::State &state) {
    const int64_t size = state.range(0);
    const Tensor a = random(size, size, lz::bf16), b = random(size, size, lz::bf16);
    std::vector<Contender> contenders;
    contenders.push_back({"lazuli", [&] { lz::matmul(a, b).eval(); }});
    lz::matmul(a, b).eval();
    add_onednn(contenders, fmt::format("bf16 {}", size));
    compete(state, std::move(contenders), 2.0 * static_cast<double>(size * size * size), nullptr,
            lz::bench::Numbers::BF16);
}

/// i8, summed in i32.
void matmul_i8(benchmark::State &state) {
    const int64_t size = state.range(0);
    const auto numbers = [&] {
        Tensor t = lz::randint(-128, 128, {size, size}).to(lz::i8);
        t.eval();
        return t;
    };
    const Tensor a = numbers(), b = numbers();
    Tensor checked = lz::matmul(a, b, lz::i32);
    int32_t first = 0;
    for (int64_t p = 0; p < size; ++p)
        first += int32_t{a.data<int8_t>()[p]} * int32_t{b.data<int8_t>()[p * size]};
    if (checked.data<int32_t>()[0] != first) {
        state.SkipWithError("the product is wrong");
        return;
    }
    std::vector<Contender> contenders;
    contenders.push_back({"lazuli", [&] { lz::matmul(a, b, lz::i32).eval(); }});
    add_onednn(contenders, fmt::format("i8 {}", size));
    compete(state, std::move(contenders), 2.0 * static_cast<double>(size * size * size), nullptr,
            lz::bench::Numbers::Other);
}
BENCHMARK(matmul_bf16)
    ->RangeMultiplier(2)
    ->Range(256, 2048)
    ->Iterations(kBursts)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(matmul_i8)->RangeMultiplier(2)->Range(256, 2048)->Iterations(kBursts)->UseManualTime()->Unit(
    benchmark::kMicrosecond);

/// linear + bias + gelu as one kernel, against oneDNN's with the same behind its product, LibTorch's, and
/// OpenBLAS's product alone.
void linear_gelu(benchmark::State &state) {
    const int64_t m = 512, k = 1024, n = 1024;
    const Tensor a = random(m, k), weight = random(n, k), bias = random(1, n).reshape({n});
    bias.eval();
    lz::gelu(lz::linear(a, weight, bias)).eval();
    std::vector<float> out(static_cast<size_t>(m * n));
    std::vector<Contender> contenders;
    contenders.push_back({"lazuli", [&] { lz::gelu(lz::linear(a, weight, bias)).eval(); }});
#if LAZULI_BENCH_OPENBLAS
    openblas_set_num_threads(lz::num_threads());
    const float *x = a.data<float>(), *w = weight.data<float>();
    contenders.push_back({"openblas_product", [&] { openblas_product(x, w, true, out.data(), m, n, k); }});
#endif
    add_onednn(contenders, fmt::format("linear_gelu {} {} {}", m, k, n));
#if LAZULI_BENCH_TORCH
    lz::bench::torch::set_threads(lz::num_threads());
    contenders.push_back({"torch", lz::bench::torch::linear_gelu(m, k, n)});
#endif
    compete(state, std::move(contenders), 2.0 * static_cast<double>(m * n * k));
}
BENCHMARK(linear_gelu)->Iterations(kBursts)->UseManualTime()->Unit(benchmark::kMicrosecond);

} // namespace

int main(int argc, char **argv) {
#if LAZULI_BENCH_ONEDNN
    if (onednn())
        benchmark::AddCustomContext("oneDNN", onednn()->ask("version"));
#endif
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 1;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    if (!ratios_of_f32.empty()) {
        double logarithms = 0;
        for (const double ratio : ratios_of_f32)
            logarithms += std::log(ratio);
        std::fprintf(stderr, "matmul_f32: geometric mean of %zu ratios to the better peer: %.2f\n",
                     ratios_of_f32.size(), std::exp(logarithms / static_cast<double>(ratios_of_f32.size())));
    }
    return 0;
}
