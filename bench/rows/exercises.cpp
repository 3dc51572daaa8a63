// The exercises of the chapter on GPUs, as benchmarks, with a table at the end: on two virtual GPUs by the
// clock of modelled H200s, or on the CUDA devices that there are.
//
//   bench_exercises [--cuda]
//
// Times on the CPU are this machine's, those of GPUs their own clock's.
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using lz::Tensor;

struct Row {
    std::string what;
    double first_ms, second_ms;
    std::string first, second;
};
std::vector<Row> table;

/// One row of the table: the fastest of several rounds.
void note(const std::string &what, const std::string &first, double first_ms, const std::string &second,
          double second_ms) {
    const auto there =
        std::find_if(table.begin(), table.end(), [&](const Row &row) { return row.what == what; });
    if (there == table.end()) {
        table.push_back({what, first_ms, second_ms, first, second});
    } else {
        there->first_ms = std::min(there->first_ms, first_ms);
        there->second_ms = std::min(there->second_ms, second_ms);
    }
}

template <class F>
double host_ms(F &&work) {
    lz::sync();
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// Milliseconds of the devices' clock from the first to the last of what `work` puts on the first `gpus`.
template <class F>
double device_ms(int gpus, F &&work) {
    lz::sync();
    std::vector<lz::Event> begins, ends;
    for (int i = 0; i < gpus; ++i) {
        lz::cuda::synchronize(i);
        begins.emplace_back(lz::EventOptions{.timing = true}).record(lz::default_stream(i));
    }
    lz::sync();
    work();
    double longest = 0;
    for (int i = 0; i < gpus; ++i)
        ends.emplace_back(lz::EventOptions{.timing = true}).record(lz::default_stream(i));
    const bool one_clock = lz::cuda::get_device_properties(0).is_virtual;
    for (size_t i = 0; i < ends.size(); ++i)
        for (size_t k = 0; k < begins.size(); ++k)
            if (i == k || one_clock) // events of two CUDA devices have no time between them
                longest = std::max(longest, begins[k].elapsed_time(ends[i]));
    return longest;
}

/// Large and small work on the CPU and on a GPU: what is there already is multiplied.
void cpu_or_gpu(benchmark::State &state) {
    const int64_t n = state.range(0);
    const Tensor a = lz::rand({n, n}), b = lz::rand({n, n});
    const Tensor there_a = a.to(lz::Device::cuda(0)), there_b = b.to(lz::Device::cuda(0));
    lz::eval({a, b, there_a, there_b});
    double on_cpu = 0, on_gpu = 0;
    for (auto _ : state) {
        on_cpu = host_ms([&] { lz::matmul(a, b).eval(); });
        Tensor c;
        on_gpu = device_ms(1, [&] { (c = lz::matmul(there_a, there_b)).eval(); });
        state.SetIterationTime(on_gpu * 1e-3);
        note("product of two " + std::to_string(n) + " x " + std::to_string(n), "on the CPU", on_cpu,
             "on a GPU", on_gpu);
    }
    state.counters["cpu_ms"] = on_cpu;
    state.counters["ratio"] = on_cpu / on_gpu;
}
BENCHMARK(cpu_or_gpu)->Arg(16)->Arg(1024)->UseManualTime()->Iterations(3);

/// Parameters of a network on a GPU: one number read, then all of them; and all written.
void parameters(benchmark::State &state) {
    lz::nn::Linear net(1024, 1024);
    net->to(lz::Device::cuda(0));
    const Tensor pinned = lz::rand({1024, 1024}, {.pinned = true});
    lz::eval({net->weight, pinned});
    double one = 0, all = 0, write = 0;
    for (auto _ : state) {
        one = device_ms(1, [&] { benchmark::DoNotOptimize(net->weight.at({3, 5}).item<float>()); });
        all = device_ms(1, [&] { benchmark::DoNotOptimize(net->weight.cpu().to_vector<float>()); });
        write = device_ms(1, [&] {
            const lz::NoGradGuard no_grad;
            net->weight.copy_(pinned);
            net->weight.eval();
        });
        state.SetIterationTime(all * 1e-3);
        note("1024 x 1024 parameters on a GPU", "one read", one, "all read", all);
        note("all of them", "read", all, "written, pinned", write);
    }
    state.counters["one_ms"] = one;
    state.counters["all_ms"] = all;
    state.counters["write_ms"] = write;
}
BENCHMARK(parameters)->UseManualTime()->Iterations(3);

/// 1000 products of 100 x 100 matrices: the norm of each is logged at once, or kept and moved at the end.
void log_norms(benchmark::State &state) {
    constexpr int64_t kProducts = 1000;
    const Tensor many = lz::rand({kProducts, 100, 100}, {.device = lz::Device::cuda(0)}),
                 b = lz::rand({100, 100}, {.device = lz::Device::cuda(0)});
    lz::eval({many, b});
    const auto norm = [&](int64_t i) { return lz::matmul(many.select(0, i), b).norm(); };
    double at_once = 0, at_the_end = 0, difference = 0;
    for (auto _ : state) {
        std::vector<float> first, second;
        at_once = device_ms(1, [&] {
            for (int64_t i = 0; i < kProducts; ++i)
                first.push_back(norm(i).item<float>());
        });
        at_the_end = device_ms(1, [&] {
            std::vector<Tensor> norms;
            for (int64_t i = 0; i < kProducts; ++i)
                norms.push_back(norm(i));
            second = lz::stack(norms).to_vector<float>();
        });
        for (size_t i = 0; i < first.size(); ++i)
            difference = std::max<double>(difference, std::abs(first[i] / second[i] - 1));
        state.SetIterationTime(at_the_end * 1e-3);
        note("1000 products of 100 x 100, norms", "logged at once", at_once, "moved at the end", at_the_end);
    }
    if (difference > 1e-5)
        state.SkipWithError("the two ways differ");
    state.counters["at_once_ms"] = at_once;
    state.counters["ratio"] = at_once / at_the_end;
}
BENCHMARK(log_norms)->UseManualTime()->Iterations(1);

/// Two products on two GPUs at the same time, against one after the other on one.
void two_gpus(benchmark::State &state) {
    if (lz::cuda::device_count() < 2) {
        state.SkipWithError("needs two GPUs");
        return;
    }
    constexpr int64_t n = 1024;
    std::vector<Tensor> a;
    for (int i = 0; i < 4; ++i)
        a.push_back(lz::rand({n, n}, {.device = lz::Device::cuda(i / 2)}));
    const Tensor c = a[2].to(lz::Device::cuda(0)), d = a[3].to(lz::Device::cuda(0));
    lz::eval(a);
    lz::eval({c, d});
    double together = 0, apart = 0;
    for (auto _ : state) {
        Tensor x, y;
        together = device_ms(2, [&] {
            x = lz::matmul(a[0], a[1]);
            y = lz::matmul(a[2], a[3]);
            lz::eval({x, y});
        });
        apart = device_ms(1, [&] {
            x = lz::matmul(a[0], a[1]);
            y = lz::matmul(c, d);
            lz::eval({x, y});
        });
        state.SetIterationTime(together * 1e-3);
        note("two products of 1024 x 1024", "on one GPU", apart, "on two GPUs", together);
    }
    state.counters["one_gpu_ms"] = apart;
    state.counters["ratio"] = apart / together;
}
BENCHMARK(two_gpus)->UseManualTime()->Iterations(3);

} // namespace

int main(int argc, char **argv) {
    const bool on_cuda = argc > 1 && std::string(argv[1]) == "--cuda";
    if (on_cuda)
        std::rotate(argv + 1, argv + 2, argv + argc--);
    else
        lz::use_virtual_gpus(2, {.model = "h200"});
    if (!lz::cuda::is_available()) {
        std::fprintf(stderr, "bench_exercises: %s\n", lz::cuda::availability().c_str());
        return 1;
    }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    std::printf("\non %s\n%-36s %-16s %10s   %-16s %10s %8s\n", lz::cuda::get_device_name().c_str(), "", "",
                "ms", "", "ms", "ratio");
    for (const Row &row : table)
        std::printf("%-36s %-16s %10.4f   %-16s %10.4f %8.1f\n", row.what.c_str(), row.first.c_str(),
                    row.first_ms, row.second.c_str(), row.second_ms, row.first_ms / row.second_ms);
}
