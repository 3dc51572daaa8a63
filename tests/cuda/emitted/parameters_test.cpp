// A launch has 4096 bytes of parameters with drivers before 12.1, and 32764 from then on.
#include "emitted/emitted.h"

#include "kernels.h"

#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

/// p - 0.5 * g of so many tensors, in one launch.
std::vector<Launch> merged_update(int tensors) {
    std::vector<Launch> segments;
    for (int t = 0; t < tensors; ++t)
        segments.push_back(elementwise(
            {DType::F32, DType::F32}, t % 3 == 0 ? 300 : 1 + t, 64,
            [](KernelBuilder &b, auto &x) { return b.sub(x[0], b.mul(x[1], b.constant(DType::F32, 0.5))); }));
    return segments;
}

TEST(EmittedParameters, WhatALaunchCannotTakeIsReadFromMemory) {
    if (!why_not_run().empty())
        GTEST_SKIP() << why_not_run();
    struct Case {
        int tensors;
        int64_t parameter_bytes;
        SegmentTier tier;
    };
    for (const Case &c : {Case{1, 4096, SegmentTier::One}, Case{12, 4096, SegmentTier::Table},
                          Case{12, 32764, SegmentTier::Table}, Case{100, 32764, SegmentTier::Large},
                          Case{100, 4096, SegmentTier::Memory}, Case{700, 32764, SegmentTier::Memory}}) {
        SCOPED_TRACE(testing::Message() << c.tensors << " tensors, " << c.parameter_bytes << " bytes");
        const std::vector<Launch> update =
            scheduled(merged_update(c.tensors), {.parameter_bytes = c.parameter_bytes});
        for (const Launch &l : update)
            ASSERT_EQ(l.kernel.phases[0].cuda().segments, c.tier);
        if (c.tensors > 100)
            continue;
        const std::vector<Outcome> found = run_cuda(update);
        for (size_t s = 0; s < update.size(); ++s)
            ASSERT_EQ(cuda_difference(update[s], run_interpreted(update[s], 1 + s), found[s]), "")
                << "segment " << s;
    }
}

} // namespace
} // namespace lz::test
