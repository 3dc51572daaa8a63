// What the engine itself costs: recording, looking a Program up, launching small work, and compiling.
//
//   bench_overhead --benchmark_repetitions=9
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/torch.h"
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using lz::Tensor;

/// Each round is 1000 operations.
void count_operations(benchmark::State &state) {
    state.counters["per_operation"] = benchmark::Counter(
        1000.0, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// 1000 operations on 8 elements: record, look up, launch; from the second time on. Counts the time of one
/// operation.
void small_operations(benchmark::State &state) {
    const Tensor a = lz::rand({8}), b = lz::rand({8});
    lz::sync();
    const auto step = [&] {
        Tensor x = a;
        for (int i = 0; i < 500; ++i) {
            x = x + b;
            x = x * a;
        }
        x.eval();
    };
    step();
    const int64_t compiled = lz::compile_stats().programs_compiled;
    for (auto _ : state)
        step();
    if (lz::compile_stats().programs_compiled != compiled)
        state.SkipWithError("a repeated program was compiled again");
    count_operations(state);
}
BENCHMARK(small_operations)->UseRealTime()->Unit(benchmark::kMicrosecond);

#if LAZULI_BENCH_TORCH
void torch_small_operations(benchmark::State &state) {
    lz::bench::torch::set_threads(lz::num_threads());
    const auto step = lz::bench::torch::small_operations();
    step();
    for (auto _ : state)
        step();
    count_operations(state);
}
BENCHMARK(torch_small_operations)->UseRealTime()->Unit(benchmark::kMicrosecond);
#endif

/// The same with a number in every second operation: a number is an operation of its own in the graph.
void small_operations_with_numbers(benchmark::State &state) {
    const Tensor a = lz::rand({8});
    lz::sync();
    const auto step = [&] {
        Tensor x = a;
        for (int i = 0; i < 500; ++i) {
            x = x + 0.5;
            x = x * a;
        }
        x.eval();
    };
    step();
    for (auto _ : state)
        step();
    count_operations(state);
}
BENCHMARK(small_operations_with_numbers)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// One operation and a sync: the latency of the whole street on a hit.
void one_operation(benchmark::State &state) {
    const Tensor a = lz::rand({8}), b = lz::rand({8});
    (a + b).eval();
    for (auto _ : state)
        (a + b).eval();
}
BENCHMARK(one_operation)->UseRealTime()->Unit(benchmark::kNanosecond);

/// As many nodes as S22 lets a thread record: the sync that finds their Program again, runs it and lets go of
/// them. Recording is not timed.
void longest_program(benchmark::State &state) {
    constexpr int kAdditions = 32000; // two nodes each: the number is one
    const Tensor a = lz::ones({8});
    lz::sync();
    for (auto _ : state) {
        Tensor x = a;
        for (int i = 0; i < kAdditions; ++i)
            x = x + 1;
        const auto start = std::chrono::steady_clock::now();
        x.eval();
        state.SetIterationTime(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
}
BENCHMARK(longest_program)->UseManualTime()->MinWarmUpTime(0.5)->Unit(benchmark::kMillisecond);

/// What is compiled is waited for, so that it can be timed.
const int waits_for_code = ::setenv("LAZULI_QUICK", "0", 1);

/// First compile of a kernel nobody has seen: passes and code generation are timed by the engine itself. A
/// chain of operations that differs each round makes each kernel new. The first round is not timed: it opens
/// LLVM and makes the operands, too (`bench_cold_start` has that).
template <class F>
void first_compile(benchmark::State &state, F &&make) {
    uint64_t round = static_cast<uint64_t>(
        std::chrono::steady_clock::now().time_since_epoch().count()); // kernels of earlier runs are on disk
    make(round++).eval();
    for (auto _ : state) {
        Tensor t = make(round++);
        const lz::CompileStats before = lz::compile_stats();
        t.eval();
        const lz::CompileStats after = lz::compile_stats();
        state.SetIterationTime(after.pass_seconds - before.pass_seconds + after.codegen_seconds -
                               before.codegen_seconds);
        if (after.kernels_compiled == before.kernels_compiled)
            state.SkipWithError("the kernel was in the cache: nothing was compiled");
    }
}

/// A chain of 36 operations that spells the last twelve bits of `round`: each kernel is new, and all are as
/// long.
Tensor spelled(Tensor x, uint64_t round) {
    for (int bit = 0; bit < 12; ++bit) {
        const bool square_first = (round >> bit & 1) != 0;
        if (square_first)
            x = x * x;
        x = lz::abs(x) + x;
        if (!square_first)
            x = x * x;
    }
    return x;
}

void compile_loop(benchmark::State &state) {
    const Tensor a = lz::rand({1000});
    first_compile(state, [&](uint64_t round) { return spelled(lz::tanh(a) * 0.5 + a, round); });
}
BENCHMARK(compile_loop)->UseManualTime()->Iterations(15)->Unit(benchmark::kMillisecond);

void compile_row(benchmark::State &state) {
    const Tensor a = lz::rand({100, 1000});
    first_compile(state, [&](uint64_t round) { return lz::softmax(spelled(a, round), -1); });
}
BENCHMARK(compile_row)->UseManualTime()->Iterations(15)->Unit(benchmark::kMillisecond);

void compile_matmul(benchmark::State &state) {
    const Tensor a = lz::rand({256, 256}), b = lz::rand({256, 256});
    first_compile(state, [&](uint64_t round) { return spelled(lz::matmul(a, b), round); });
}
BENCHMARK(compile_matmul)->UseManualTime()->Iterations(15)->Unit(benchmark::kMillisecond);

/// Steps of 64 sizes that no step had before, and then the same again: `new_ms` and `known_ms` a step. Their
/// difference is what a size costs that is seen for the first time, when its kernels are there already.
template <class F>
void new_sizes(benchmark::State &state, F &&step) {
    constexpr int64_t kSizes = 64;
    using Clock = std::chrono::steady_clock;
    int64_t size = 16;
    for (; size < 24; ++size)
        step(size); // the kernels of their class
    double seconds[2] = {};
    int64_t compiled = 0;
    for (auto _ : state) {
        for (double &spent : seconds) {
            const lz::CompileStats before = lz::compile_stats();
            const Clock::time_point start = Clock::now();
            for (int64_t k = 0; k < kSizes; ++k)
                step(size + k);
            spent += std::chrono::duration<double>(Clock::now() - start).count();
            compiled += lz::compile_stats().programs_compiled - before.programs_compiled;
        }
        size += kSizes;
    }
    const double steps = static_cast<double>(state.iterations() * kSizes);
    state.counters["new_ms"] = seconds[0] * 1e3 / steps;
    state.counters["known_ms"] = seconds[1] * 1e3 / steps;
    state.counters["programs"] = static_cast<double>(compiled) / steps; // a new size
}

/// A training step of a network of three layers (AdamW) on batches of changing sizes.
void new_batch_sizes(benchmark::State &state) {
    namespace nn = lz::nn;
    nn::Sequential net(nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 64), nn::ReLU(), nn::Linear(64, 10));
    lz::optim::AdamW optimizer(net->parameters(), lz::optim::AdamWOptions(1e-3));
    new_sizes(state, [&](int64_t batch) {
        const Tensor x = lz::zeros({batch, 64}), y = lz::zeros({batch}, {.dtype = lz::i64});
        optimizer.zero_grad();
        lz::cross_entropy(net(x), y).backward();
        optimizer.step();
        lz::sync();
    });
}
BENCHMARK(new_batch_sizes)->Iterations(3)->Unit(benchmark::kMillisecond);

/// A token through four layers of a decoder, whose keys and values grow by one.
void new_lengths(benchmark::State &state) {
    constexpr int64_t kLayers = 4, kWidth = 128, kHeads = 4, kHead = kWidth / kHeads;
    std::vector<Tensor> in, out, up, down;
    for (int64_t i = 0; i < kLayers; ++i) {
        in.push_back(lz::randn({kWidth, 3 * kWidth}));
        out.push_back(lz::randn({kWidth, kWidth}));
        up.push_back(lz::randn({kWidth, 4 * kWidth}));
        down.push_back(lz::randn({4 * kWidth, kWidth}));
    }
    lz::sync();
    new_sizes(state, [&](int64_t length) {
        Tensor x = lz::ones({1, kWidth});
        const Tensor cache = lz::ones({kHeads, length, kHead}).eval();
        std::vector<Tensor> all;
        for (size_t i = 0; i < in.size(); ++i) {
            const Tensor parts = lz::matmul(lz::layer_norm(x, {kWidth}), in[i]).view({3, kHeads, 1, kHead});
            const Tensor keys = lz::cat({cache, parts.select(0, 1)}, 1);
            const Tensor values = lz::cat({cache, parts.select(0, 2)}, 1);
            const Tensor scores = lz::matmul(parts.select(0, 0), keys.transpose(1, 2)) * 0.176;
            const Tensor attended = lz::matmul(lz::softmax(scores, -1), values);
            x = x + lz::matmul(attended.reshape({1, kWidth}), out[i]);
            x = x + lz::matmul(lz::gelu(lz::matmul(lz::layer_norm(x, {kWidth}), up[i])), down[i]);
            all.insert(all.end(), {keys, values});
        }
        all.push_back(x);
        lz::eval(all);
    });
}
BENCHMARK(new_lengths)->Iterations(3)->Unit(benchmark::kMillisecond);

Tensor loop_of(uint64_t round) {
    const Tensor a = lz::rand({1000});
    a.eval();
    return spelled(lz::tanh(a) * 0.5 + a, round);
}

/// In a process of its own, which has compiled nothing: prints the seconds that the kernel took and whether
/// it came from disk.
int load_from_disk(uint64_t round) {
    const Tensor t = loop_of(round);
    const lz::CompileStats before = lz::compile_stats();
    t.eval();
    const lz::CompileStats after = lz::compile_stats();
    std::printf("%.9f %d\n", after.codegen_seconds - before.codegen_seconds,
                after.kernels_from_disk > before.kernels_from_disk ? 1 : 0);
    return 0;
}

/// A loop kernel that another process has compiled: read from a cache directory of its own, checked and
/// loaded.
void compile_from_disk(benchmark::State &state) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    const auto round = std::chrono::steady_clock::now().time_since_epoch().count();
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("lazuli-bench-" + std::to_string(round));
    const std::string command = "LAZULI_CACHE_DIR='" + folder.string() + "' '" + program +
                                "' --load-from-disk " + std::to_string(round);
    const auto run = [&](double &seconds) {
        int from_disk = 0;
        FILE *const output = popen(command.c_str(), "r");
        if (!output || std::fscanf(output, "%lf %d", &seconds, &from_disk) != 2)
            from_disk = 0;
        if (output)
            pclose(output);
        return from_disk != 0;
    };
    double seconds = 0;
    run(seconds); // compiles it
    for (auto _ : state) {
        if (!run(seconds)) {
            state.SkipWithError("no kernel came from disk");
            break;
        }
        state.SetIterationTime(seconds);
    }
    std::filesystem::remove_all(folder);
}
BENCHMARK(compile_from_disk)->UseManualTime()->Iterations(15)->Unit(benchmark::kMillisecond);

} // namespace

int main(int argc, char **argv) {
    if (argc == 3 && std::string(argv[1]) == "--load-from-disk")
        return load_from_disk(std::strtoull(argv[2], nullptr, 10));
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 1;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
