// Many devices by the virtual clock of modelled hardware (nothing here depends on this machine's speed but
// that it runs): what the compiler's transfers, streams and syncs let overlap.
//
//   bench_devices
//
// The model is a GPU whose kernels and copies take milliseconds for small tensors, so that little is computed
// in earnest: 2 GB/s of memory, 1 GB/s of link. A batch is copied in the time in which it is read and written
// once.
#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace {

using lz::Tensor;

constexpr int64_t kElements = 1 << 18;

const lz::Device kGpus[] = {lz::Device::cuda(0), lz::Device::cuda(1)};

/// Milliseconds of the virtual clock from the first to the last of what `work` puts on the GPUs.
template <class F>
double virtual_ms(F &&work) {
    lz::sync();
    std::vector<lz::Event> begins, ends;
    for (const lz::Device &gpu : kGpus) {
        lz::cuda::synchronize(gpu);
        begins.emplace_back(lz::EventOptions{.timing = true}).record(lz::default_stream(gpu));
    }
    lz::sync();
    work();
    for (const lz::Device &gpu : kGpus)
        ends.emplace_back(lz::EventOptions{.timing = true}).record(lz::default_stream(gpu));
    double longest = 0;
    for (const lz::Event &end : ends)
        for (const lz::Event &begin : begins)
            longest = std::max(longest, begin.elapsed_time(end));
    return longest;
}

/// Ten kernels, each of which needs the whole result of the one before.
Tensor chain(Tensor x) {
    for (int i = 0; i < 10; ++i)
        x = x * 0.5 + x.sum() * 1e-6;
    return x;
}

/// Two independent chains on two GPUs in one program; `ratio` against one after the other.
void two_chains(benchmark::State &state) {
    const Tensor a = lz::rand({kElements}, {.device = kGpus[0]}),
                 b = lz::rand({kElements}, {.device = kGpus[1]});
    lz::eval({a, b});
    double together = 0, apart = 0;
    for (auto _ : state) {
        Tensor x, y;
        together = virtual_ms([&] {
            x = chain(a);
            y = chain(b);
            lz::eval({x, y});
        });
        apart = 0;
        for (const Tensor *start : {&a, &b})
            apart += virtual_ms([&] {
                x = chain(*start);
                x.eval();
            });
        state.SetIterationTime(together * 1e-3);
    }
    state.counters["together_ms"] = together;
    state.counters["one_after_the_other_ms"] = apart;
    state.counters["ratio"] = apart / together;
}
BENCHMARK(two_chains)->UseManualTime()->Iterations(5);

/// Batches from pinned memory, a program for each: `ratio` against waiting for each copy and each kernel.
void prefetch(benchmark::State &state) {
    constexpr int kBatches = 24;
    std::vector<Tensor> batches;
    for (int i = 0; i < kBatches; ++i)
        batches.push_back(lz::rand({kElements}, {.pinned = true}));
    for (const Tensor &batch : batches)
        batch.eval();
    const auto loop = [&](bool wait) {
        std::vector<Tensor> kept;
        for (const Tensor &batch : batches) {
            const Tensor x = batch.to(kGpus[0], {.non_blocking = true});
            x.eval();
            if (wait)
                lz::cuda::synchronize(kGpus[0]);
            kept.push_back(lz::tanh(x * 2) + 1);
            kept.back().eval();
            if (wait)
                lz::cuda::synchronize(kGpus[0]);
        }
    };
    double overlapped = 0, waited = 0;
    for (auto _ : state) {
        overlapped = virtual_ms([&] { loop(false); });
        waited = virtual_ms([&] { loop(true); });
        state.SetIterationTime(overlapped * 1e-3);
    }
    state.counters["overlapped_ms"] = overlapped;
    state.counters["without_overlap_ms"] = waited;
    state.counters["ratio"] = waited / overlapped;
}
BENCHMARK(prefetch)->UseManualTime()->Iterations(5);

} // namespace

int main(int argc, char **argv) {
    const std::filesystem::path model = std::filesystem::temp_directory_path() / "lazuli_bench_devices.json";
    std::ofstream(model) << R"({"name": "slow", "memory_bandwidth": 2e9, "flops": 1e12, "link_bandwidth": 1e9,
                                "pageable_bandwidth": 1e9, "peer_bandwidth": 1e9})";
    lz::use_virtual_gpus(2, {.model = model.string()});
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    std::filesystem::remove(model);
}
