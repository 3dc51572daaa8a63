// Batches are fetched from pinned memory while the devices compute: two virtual GPUs, timed by the clock of
// the hardware that they model.
//
//   overlap [timeline.svg]     LAZULI_VIRTUAL_MODEL=<another> models other hardware than the H200
#include <lazuli/lazuli.h>

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr int64_t kRows = 512, kFeatures = 2048;
constexpr int kBatches = 8;

struct Trainer {
    lz::Device device;
    lz::Tensor weight, total;
};

/// Scores of all batches, spread over the GPUs. `prefetch`: a batch is on its way while the one before is
/// computed with, which needs nothing but not waiting; else each copy and each step is waited for.
double milliseconds(std::vector<Trainer> &trainers, const std::vector<lz::Tensor> &batches, bool prefetch) {
    const lz::Event begin({.timing = true}), end({.timing = true});
    for (Trainer &t : trainers)
        t.total = lz::zeros({}, {.device = t.device});
    lz::sync();
    begin.record(lz::default_stream(trainers[0].device));
    for (size_t i = 0; i < batches.size(); ++i) {
        Trainer &t = trainers[i % trainers.size()];
        const lz::Tensor x = batches[i].to(t.device, {.non_blocking = true});
        if (!prefetch)
            lz::cuda::synchronize(t.device);
        t.total = t.total + lz::relu(lz::matmul(x, t.weight)).mean();
        if (!prefetch)
            lz::cuda::synchronize(t.device);
    }
    // The end of both GPUs' work.
    for (const Trainer &t : trainers)
        lz::default_stream(trainers[0].device).wait_stream(lz::default_stream(t.device));
    end.record(lz::default_stream(trainers[0].device));
    return begin.elapsed_time(end);
}

} // namespace

int main(int argc, char **argv) try {
    lz::use_virtual_gpus(2, {.model = "h200"});
    std::cout << "on " << lz::cuda::device_count() << " of " << lz::cuda::get_device_name() << '\n';

    lz::manual_seed(3);
    std::vector<Trainer> trainers;
    for (const lz::Device &device : lz::try_all_gpus())
        trainers.push_back({device, lz::randn({kFeatures, kFeatures}, {.device = device}) * 0.02, {}});
    std::vector<lz::Tensor> batches;
    for (int i = 0; i < kBatches; ++i)
        batches.push_back(lz::randn({kRows, kFeatures}, {.pinned = true}));
    lz::sync();

    for (const bool prefetch : {false, true})
        milliseconds(trainers, batches, prefetch); // compiles
    const double alone = milliseconds(trainers, batches, false);
    const double first = trainers[0].total.item<double>();
    double together = 0;
    if (argc > 1) {
        lz::Profiler profiler;
        together = milliseconds(trainers, batches, true);
        profiler.save(argv[1]);
    } else {
        together = milliseconds(trainers, batches, true);
    }
    const bool same = trainers[0].total.item<double>() == first;

    std::cout << std::fixed << std::setprecision(3);
    std::cout << "one after the other: " << alone << " ms\n";
    std::cout << "prefetched:          " << together << " ms\n";
    std::cout << std::setprecision(2) << "that is " << alone / together << " times as fast, with "
              << (same ? "the same" : "another") << " result\n";
    return same ? 0 : 1;
} catch (const lz::Error &error) {
    std::cerr << "overlap: " << error.what() << '\n';
    return 1;
}
