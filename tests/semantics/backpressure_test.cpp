// A host that is faster than its devices waits for them: by the number of runs, and by their memory.
#include "support.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace {

using namespace lz::test;
using lz::Tensor;

constexpr int64_t kMiB = int64_t{1} << 20;

/// A stream whose every program waits until the host is `lag` programs ahead, or at its end: a slow device,
/// whatever the machine does.
class SlowStream {
public:
    SlowStream(const lz::Device &device, int lag) : stream_(device), lag_(lag) {}
    ~SlowStream() { finish(); }
    /// Before the program's own work.
    void begin_program() {
        stream_.add_callback([this] {
            while (!finished_ && enqueued_ < started_ + lag_)
                ;
            ++started_;
        });
    }
    void enqueued() { most_ = std::max(most_, ++enqueued_ - started_); }
    void finish() {
        finished_ = true;
        try {
            stream_.synchronize();
        } catch (const lz::Error &error) {
            ADD_FAILURE() << error.what();
        }
    }
    const lz::Stream &stream() const { return stream_; }
    /// How far the host has been ahead.
    int most_ahead() const { return most_; }

private:
    lz::Stream stream_;
    const int lag_;
    std::atomic<int> enqueued_{0}, started_{0};
    std::atomic<bool> finished_{false};
    int most_ = 0;
};

void start() {
    lz::sync();
    lz::cuda::synchronize(kGpu3);
    lz::empty_cache(kGpu3);
}

TEST(Semantics, S22_a_host_is_a_bounded_number_of_programs_ahead_of_a_device) {
    LZ_NEEDS_GPUS(4);
    start();
    SlowStream slow(kGpu3, 12);
    Tensor x = lz::zeros({kMiB / 4}, {.device = kGpu3}).eval();
    for (int i = 0; i < 300; ++i) {
        const lz::StreamGuard guard(slow.stream());
        slow.begin_program();
        x = x.flip({0}) + 1;
        x.eval();
        slow.enqueued();
    }
    slow.finish();
    EXPECT_LE(slow.most_ahead(), 17);
    EXPECT_GE(slow.most_ahead(), 11) << "the device was not slow";
    EXPECT_EQ(x.min().item<double>(), 300);
    EXPECT_EQ(x.max().item<double>(), 300);
}

TEST(Semantics, S22_a_host_waits_for_memory_that_a_device_is_not_done_with) {
    LZ_NEEDS_GPUS(4);
    start();
    const int64_t before = lz::memory_allocated(kGpu3);
    lz::reset_peak_memory_stats(kGpu3);
    SlowStream slow(kGpu3, 3);
    Tensor sum = lz::zeros({}, {.device = kGpu3}).eval();
    for (int i = 1; i <= 200; ++i) {
        const Tensor batch = lz::full({40 * kMiB / 4}, i, {.dtype = lz::f32, .device = kGpu3}).eval();
        const lz::StreamGuard guard(slow.stream());
        slow.begin_program();
        sum = sum + batch.max(); // which the batch outlives; six of them fit the memory
        sum.eval();
        slow.enqueued();
    }
    slow.finish();
    EXPECT_LE(lz::max_memory_reserved(kGpu3), 256 * kMiB);
    EXPECT_LE(slow.most_ahead(), 7);
    EXPECT_EQ(sum.item<double>(), 200 * 201 / 2);
    EXPECT_LE(lz::memory_allocated(kGpu3) - before, kMiB);
}

} // namespace
