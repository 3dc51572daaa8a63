#include "passes/schedule/contraction_tile.h"

#include <gtest/gtest.h>

namespace lz::passes {
namespace {

using ir::ContractionArg;

int64_t ceil_div(int64_t x, int64_t y) {
    return (x + y - 1) / y;
}

void expect_blocks(const ContractionSizes &sizes, const ir::CpuIsa &isa, int threads) {
    const auto [mr, nr, amx] = contraction_tile(sizes.dtype, sizes.accumulate, isa);
    const ContractionBlocks b = contraction_blocks(sizes, {.isa = isa, .threads = threads});
    const int64_t rows = b[ContractionArg::BlockM], columns = b[ContractionArg::BlockN];
    ASSERT_GT(rows, 0);
    ASSERT_EQ(columns % nr, 0);
    ASSERT_EQ(b[ContractionArg::BlockK] % 32, 0);
    ASSERT_GE(b[ContractionArg::PassK], b[ContractionArg::BlockK]);
    ASSERT_EQ(b[ContractionArg::PassK] % b[ContractionArg::BlockK], 0);
    ASSERT_GT(b[ContractionArg::InnerM], 0);
    ASSERT_EQ(b.items, 3 * ceil_div(sizes.m, rows) * ceil_div(sizes.n, columns));
    ASSERT_EQ(b[ContractionArg::RhsOffset] % 64, 0);
    ASSERT_EQ(b[ContractionArg::SumsOffset] % 64, 0);
    ASSERT_GT(b.scratch_bytes, b[ContractionArg::SumsOffset]);
    if (!contraction_reads_in_place(sizes.dtype, sizes.accumulate)) {
        ASSERT_EQ(b[ContractionArg::PackLhs],
                  !(amx && sizes.k > 0 && sizes.k % ir::amx_depth(sizes.dtype) == 0));
        ASSERT_EQ(b[ContractionArg::PackRhs], 1);
    }
    const int64_t bytes = amx ? ir::size_of(sizes.dtype) : ir::size_of(sizes.accumulate);
    ASSERT_GE(b[ContractionArg::SumsOffset] - b[ContractionArg::RhsOffset],
              columns * b[ContractionArg::PassK] * bytes);
    if (sizes.k > b[ContractionArg::BlockK]) { // room for every tile's sums
        const int64_t inner = b[ContractionArg::InnerM],
                      blocks = sizes.k > b[ContractionArg::PassK] ? ceil_div(rows, inner) : 1;
        const int64_t tiles = blocks * ceil_div(inner, mr) * ceil_div(columns, nr);
        ASSERT_GE(b.scratch_bytes - b[ContractionArg::SumsOffset],
                  tiles * mr * nr * ir::size_of(sizes.accumulate));
    }
}

TEST(ContractionTile, BlocksAreWhatTheEmitterExpects) {
    ir::CpuIsa isa = ir::test_target().host().isa;
    using enum ir::DType;
    for (const bool tiles : {false, true})
        for (const auto &[dtype, accumulate] :
             {std::pair{F32, F32}, std::pair{F64, F64}, std::pair{BF16, F32}, std::pair{I8, I32},
              std::pair{I32, I32}, std::pair{I8, I64}}) {
            isa.amx_bf16 = isa.amx_int8 = tiles;
            const auto [mr, nr, amx] = contraction_tile(dtype, accumulate, isa);
            EXPECT_EQ(amx, tiles && (dtype == BF16 || (dtype == I8 && accumulate == I32)));
            for (const int64_t m : {0, 1, 13, 64, 1000, 5000})
                for (const int64_t n : {1, 31, 64, 777, 4096})
                    for (const int64_t k : {0, 1, 33, 512, 513, 4096})
                        for (const int threads : {1, 2, 7, 64})
                            expect_blocks({dtype, accumulate, 3, m, n, k, k, 1, n, 1}, isa, threads);
        }
}

TEST(ContractionTile, LargeProductsHaveAnItemForEachThread) {
    const ir::CpuIsa isa = ir::test_target().host().isa;
    for (const int threads : {2, 8, 64})
        for (const auto &[m, n] : {std::pair{1024, 1024}, std::pair{64, 4096}, std::pair{8192, 128}})
            EXPECT_GE(contraction_blocks({ir::DType::F32, ir::DType::F32, 1, m, n, 512, 512, 1, n, 1},
                                         {.isa = isa, .threads = threads})
                          .items,
                      threads);
}

/// Five items that do not fit two threads become six, not ten; and panels of rhs take half of a cache.
TEST(ContractionTile, OfTileRegistersPanelsOfRhsStayInTheSecondLevelCache) {
    ir::CpuIsa isa = ir::test_target().host().isa;
    isa.amx_bf16 = true;
    const auto blocks = [&](int64_t m, int64_t k, int64_t n, int threads) {
        const ir::CpuLimits cpu{.isa = isa, .threads = threads, .l2_bytes = 2 << 20};
        const ContractionBlocks b =
            contraction_blocks({ir::DType::BF16, ir::DType::F32, 1, m, n, k, k, 1, n, 1}, cpu);
        EXPECT_LE(b[ContractionArg::BlockN] * b[ContractionArg::PassK] * 2, 1 << 20) << m << " " << k;
        return b;
    };
    EXPECT_EQ(blocks(1024, 768, 3072, 1).items, 5);
    EXPECT_EQ(blocks(1024, 768, 3072, 2).items, 6);
    EXPECT_EQ(blocks(2048, 2048, 2048, 2).items, 8);
    EXPECT_EQ(blocks(2048, 2048, 2048, 2)[ContractionArg::InnerM], 32) << "a tile's rows meet all panels";
    EXPECT_EQ(blocks(64, 768, 3072, 2)[ContractionArg::InnerM], 64) << "few rows meet one panel at a time";
    EXPECT_LE(blocks(4096, 10000, 4096, 2)[ContractionArg::BlockK], 512);
}

TEST(ContractionTile, RowsOfRhsThatShareSetsOfACacheArePacked) {
    const ir::CpuIsa isa = ir::test_target().host().isa;
    const auto packs = [&](int64_t m, int64_t k, int64_t n, int64_t l2_bytes) {
        const ir::CpuLimits cpu{.isa = isa, .threads = 1, .l2_bytes = l2_bytes};
        return contraction_blocks({ir::DType::F32, ir::DType::F32, 1, m, n, k, k, 1, n, 1},
                                  cpu)[ContractionArg::PackRhs] != 0;
    };
    const int64_t mr = contraction_tile(ir::DType::F32, ir::DType::F32, isa).mr, small = 512 << 10,
                  large = 2 << 20;
    EXPECT_FALSE(packs(64, 64, 60, small));    // it stays in the first-level cache
    EXPECT_TRUE(packs(256, 256, 256, large));  // 1024 bytes apart: four sets of it for all rows
    EXPECT_FALSE(packs(mr, 768, 3072, small)); // each row is read once
    EXPECT_FALSE(packs(3 * mr, 768, 3072, large));
    EXPECT_TRUE(packs(3 * mr, 768, 3072, small)); // 12 KiB apart: 128 of 384 rows stay
    EXPECT_FALSE(packs(3 * mr, 768, 3080, small));
}

} // namespace
} // namespace lz::passes
