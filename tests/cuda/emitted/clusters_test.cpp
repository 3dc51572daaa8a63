/// Rows of clusters of blocks, against the interpreter of Kernel IR.

#include "emitted/emitted.h"
#include "kernels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

namespace lz::test {
namespace {

using namespace ir;

class EmittedClusters : public testing::Test {
protected:
    void SetUp() override {
        if (!why_not_run().empty())
            GTEST_SKIP() << why_not_run();
    }
};

/// In registers of its blocks, or in shared memory where addresses are not aligned; in that alone where a
/// thread has too few registers; else, and where no cluster is as large, in a temporary.
TEST_F(EmittedClusters, RowsOfMoreElementsThanABlockHoldsAreAClusters) {
    struct Case {
        DType t, accumulate;
        int64_t length;
        RowTier tier;
        int blocks;
    };
    const auto expect = [](const Case &c, const CudaLimits &limits) {
        const Launch l =
            scheduled(row_kernel(c.t, c.accumulate, 2, c.length, (c.length + 11) / 8 * 8), limits);
        const CudaSchedule &cuda = l.kernel.phases[0].cuda();
        const std::string what = fmt::format("rows of {} {}", c.length, name(c.t));
        EXPECT_EQ(cuda.tier, c.tier) << what;
        EXPECT_EQ(cuda.cluster_blocks, c.blocks) << what;
        expect_bits(l, what, {.most_blocks = 1, .corners = false});
    };
    constexpr DType f32 = DType::F32, f64 = DType::F64, bf16 = DType::BF16, i32 = DType::I32;
    for (const Case &c : {Case{f32, f32, 32768, RowTier::Registers, 1},
                          {f32, f32, 32769, RowTier::Registers, 2},
                          {f32, f32, 65536, RowTier::Registers, 2},
                          {bf16, f32, 65544, RowTier::Registers, 4},
                          {i32, i32, 100000, RowTier::Registers, 4},
                          {f32, f32, 262144, RowTier::Registers, 8},
                          {f32, f32, 262145, RowTier::Shared, 8},
                          {f32, f32, 400000, RowTier::Memory, 1},
                          {f64, f64, 16384, RowTier::Registers, 1},
                          {f64, f64, 30000, RowTier::Registers, 2},
                          {f32, f64, 60000, RowTier::Registers, 4},
                          {f64, f64, 140000, RowTier::Shared, 8}})
        expect(c, {});
    expect({f32, f32, 100000, RowTier::Memory, 1}, {.cluster_blocks = 2});
    expect({f32, f32, 60000, RowTier::Registers, 2}, {.cluster_blocks = 2});
}

/// Two rows of f32 take all registers that 256 threads may keep; of two of f64 nothing is kept, and where
/// they are few the blocks of a cluster read them again, each a part.
TEST_F(EmittedClusters, RowsOfTwoOperandsHaveHalfTheThreadsOrAreReadAgain) {
    struct Case {
        DType t;
        int64_t rows, length;
        RowTier tier;
        int threads, blocks;
    };
    constexpr DType f32 = DType::F32, f64 = DType::F64;
    for (const Case &c : {Case{f32, 2, 16384, RowTier::Registers, 256, 1},
                          {f32, 2, 20000, RowTier::Registers, 256, 2},
                          {f32, 2, 131072, RowTier::Registers, 256, 8},
                          {f32, 2, 131080, RowTier::Shared, 512, 4},
                          {f64, 2, 70000, RowTier::Shared, 512, 2},
                          {f64, 133, 70000, RowTier::Memory, 256, 1}}) {
        const Launch l = scheduled(two_operands(c.t, c.rows, c.length));
        const CudaSchedule &cuda = l.kernel.phases[0].cuda();
        const std::string what = fmt::format("{} rows of {} {}", c.rows, c.length, name(c.t));
        EXPECT_EQ(cuda.tier, c.tier) << what;
        EXPECT_EQ(cuda.row_threads, c.threads) << what;
        EXPECT_EQ(cuda.cluster_blocks, c.blocks) << what;
        if (c.rows < 10)
            expect_bits(l, what, {.most_blocks = 1, .corners = false});
    }
}

/// Rows of a cluster, and of a table of segments.
TEST_F(EmittedClusters, SegmentsOfRowsOfAClusterComeAsTables) {
    std::vector<Launch> segments;
    for (const auto &[rows, length] : {std::pair{2, 40000}, {3, 65536}, {0, 50000}, {1, 33000}})
        segments.push_back(scheduled(row_kernel(DType::F32, DType::F32, rows, length, length)));
    for (const SegmentTier tier : {SegmentTier::Table, SegmentTier::Memory}) {
        for (Launch &l : segments) {
            l.kernel.phases[0].on_cuda() = segments[0].kernel.phases[0].cuda();
            l.kernel.phases[0].on_cuda().segments = tier;
        }
        for (const int shift : {0, 1}) {
            const auto found = run_cuda(segments, {.shift = shift, .most_blocks = 2, .corners = false});
            for (size_t s = 0; s < segments.size(); ++s)
                EXPECT_EQ(cuda_difference(segments[s], run_interpreted(segments[s], 1 + s, false), found[s]),
                          "")
                    << name(tier) << ", segment " << s << "\n"
                    << cuda_text(segments[s]);
        }
    }
}

} // namespace
} // namespace lz::test
