/// How long steps are said to take, and how they share a device.

#include "passes/streams/estimates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace lz::passes {
namespace {

using namespace ir;

const Device kGpu{DeviceKind::Cuda, 0};

/// A byte of memory and an operation take 1 s, a byte of a link 2, between GPUs 4; no kernel less than 10.
DeviceInfo round_numbers() {
    DeviceInfo info;
    info.device = kGpu;
    info.memory_bandwidth = info.flops = 1;
    info.link_bandwidth = 0.5;
    info.peer_bandwidth = 0.25;
    info.wave_seconds = 10;
    return info;
}

StepCost of_kernel(int64_t read, int64_t written, int64_t flops, const DeviceInfo &device = round_numbers()) {
    Step step;
    step.bytes = read + written;
    step.flops = flops;
    return estimate(step, device);
}

TEST(Estimates, AKernelNeedsTheDeviceOrAPartOfItForAWave) {
    const StepCost bytes = of_kernel(30, 10, 5), operations = of_kernel(3, 1, 50), small = of_kernel(3, 1, 2);
    EXPECT_EQ(bytes.seconds, 40);
    EXPECT_EQ(bytes.part, 1);
    EXPECT_EQ(operations.seconds, 50);
    EXPECT_EQ(small.seconds, 10);
    EXPECT_DOUBLE_EQ(small.part, 0.4);
    EXPECT_EQ(small.resource, Resource::Compute);
    DeviceInfo host = round_numbers();
    host.device = kCpu;
    EXPECT_EQ(of_kernel(3, 1, 2, host).seconds, 4) << "the CPU's kernels have no waves";
}

TEST(Estimates, CopiesHaveEnginesOfTheirOwn) {
    Step copy;
    copy.kind = StepKind::Copy;
    copy.copy.bytes = 6;
    copy.bytes = 12;
    const Device other{DeviceKind::Cuda, 1};
    const auto expect = [&](Device from, Device to, double seconds, Resource unit) {
        const StepCost cost = estimate(copy, round_numbers(), from, to);
        EXPECT_EQ(cost.seconds, seconds);
        EXPECT_EQ(cost.resource, unit);
    };
    expect(kCpu, kGpu, 12, Resource::CopyIn);
    expect(kGpu, kCpu, 12, Resource::CopyOut);
    expect(kGpu, other, 24, Resource::CopyPeer);
    expect(kGpu, kGpu, 12, Resource::Compute);
    Step event;
    event.kind = StepKind::RecordEvent;
    EXPECT_EQ(estimate(event, round_numbers()).resource, Resource::None);
}

/// Looked at moment by moment.
TEST(Estimates, WhatRunsAtATimeNeedsNoMoreThanOneDeviceAndNothingWaitsWithoutNeed) {
    std::mt19937 random(5);
    for (int round = 0; round < 50; ++round) {
        struct Run {
            double begin, end, part;
        };
        std::vector<Run> runs;
        EngineTimes times;
        double ready = 0, last = 0;
        for (int k = 0; k < 40; ++k) {
            ready += static_cast<double>(random() % 8);
            const StepCost cost = of_kernel(static_cast<int64_t>(random() % 20), 0, 0);
            const double begin = times.begin(kGpu, cost, ready);
            EXPECT_GE(begin, std::max(ready, last));
            const auto used = [&](double at) {
                double sum = 0;
                for (const Run &run : runs)
                    sum += run.begin <= at && at < run.end ? run.part : 0;
                return sum;
            };
            EXPECT_LE(used(begin) + cost.part, 1 + 1e-6);
            if (begin > std::max(ready, last)) { // just before there was no room
                EXPECT_GT(used(begin - 0.5) + cost.part, 1 - 1e-6) << "round " << round << ", kernel " << k;
            }
            runs.push_back({begin, begin + cost.seconds, cost.part});
            last = begin;
        }
    }
    EngineTimes times;
    const StepCost whole = of_kernel(100, 0, 0);
    EXPECT_EQ(times.begin(kGpu, whole, 0), 0);
    EXPECT_EQ(times.begin({DeviceKind::Cuda, 1}, whole, 0), 0) << "another device";
    EXPECT_EQ(times.begin(kGpu, {5, 1, Resource::CopyIn}, 0), 0) << "another engine";
    EXPECT_EQ(times.begin(kGpu, whole, 1), 100);
}

} // namespace
} // namespace lz::passes
