/// Products of bf16 and of bytes by tile registers: with the processor's where it has them, and everywhere
/// with tiles in memory.

#include "amx_emulation.h"
#include "contraction/support.h"
#include "ir/host/amx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string_view>

namespace lz::test {
namespace {

#if LAZULI_CPU_JIT

constexpr Lie kLies[] = {Lie::RowsApart, Lie::RowsTogether, Lie::Spread};
/// Whole tiles, parts of them, and a depth of several blocks.
constexpr Sizes kSizes[] = {{1, 1, 1, 1},     {1, 16, 16, 32},  {1, 17, 33, 31},   {2, 32, 32, 64},
                            {1, 100, 70, 96}, {3, 48, 200, 65}, {1, 40, 36, 1100}, {1, 5, 300, 512}};

ir::CpuIsa tile_isa() {
    ir::CpuIsa isa = codegen::host_isa();
    isa.amx_bf16 = isa.amx_int8 = true;
    return isa;
}

std::vector<uint16_t> random_halves(int64_t count, uint32_t seed) {
    std::vector<uint16_t> values;
    for (const float x : random_values<float>(count, seed))
        values.push_back(ir::float_to_bfloat(x));
    return values;
}

/// What ir::Contraction says of tile registers, with plain loops.
std::vector<uint16_t> in_tile_order(const Sizes &s, const std::vector<uint16_t> &lhs,
                                    const std::vector<uint16_t> &rhs) {
    std::vector<uint16_t> out;
    for (int64_t b = 0; b < s.batches; ++b)
        for (int64_t i = 0; i < s.m; ++i)
            for (int64_t j = 0; j < s.n; ++j) {
                float sum = 0;
                for (int64_t first = 0; first < s.k; first += 32) {
                    float parts[2] = {0, 0};
                    for (int64_t p = first; p < std::min(first + 32, s.k); ++p)
                        parts[p % 2] =
                            std::fma(ir::bfloat_to_float(lhs[static_cast<size_t>((b * s.m + i) * s.k + p)]),
                                     ir::bfloat_to_float(rhs[static_cast<size_t>((b * s.k + p) * s.n + j)]),
                                     parts[p % 2]);
                    sum += parts[0] + parts[1];
                }
                out.push_back(ir::float_to_bfloat(sum));
            }
    return out;
}

void expect_tile_order(bool emulated) {
    for (const Lie l : kLies)
        for (const Lie r : kLies) {
            const ProductKernel kernel(DType::BF16, l, r, tile_isa(), {}, DType::Bool, false, emulated);
            EXPECT_EQ(kernel.mr(), 2 * ir::kAmxRows);
            for (const Sizes &s : kSizes) {
                const auto lhs = random_halves(s.batches * s.m * s.k, 1);
                const auto rhs = random_halves(s.batches * s.k * s.n, 2);
                for (const int threads : {1, 3})
                    EXPECT_EQ(kernel.run<uint16_t>(s, lhs, rhs, {}, threads), in_tile_order(s, lhs, rhs))
                        << s.batches << "x" << s.m << "x" << s.n << "x" << s.k << " lies "
                        << static_cast<int>(l) << static_cast<int>(r);
            }
            EXPECT_TRUE(kernel.scratch_kept());
        }
}

TEST(Amx, EmulatedTilesSumInTheOrderThatIsDocumented) {
    tile_counts() = {};
    expect_tile_order(true);
    EXPECT_GT(tile_counts().dots, 0);
    EXPECT_EQ(tile_counts().mistakes, 0);
}

TEST(Amx, TheProcessorsTilesSumInTheOrderThatIsDocumented) {
    if (!codegen::host_isa().amx_bf16)
        GTEST_SKIP() << "needs a processor with AMX, and a system that allows it";
    expect_tile_order(false);
}

/// Sums of bytes have no order.
template <class T, class Out>
void expect_bytes(DType dtype, DType out) {
    tile_counts() = {};
    for (const Lie l : kLies)
        for (const Lie r : kLies) {
            const ProductKernel kernel(dtype, l, r, tile_isa(), {}, out, false, true);
            EXPECT_EQ(kernel.mr(), 2 * ir::kAmxRows);
            for (const Sizes &s : kSizes) {
                const auto lhs = random_values<T>(s.batches * s.m * s.k, 1),
                           rhs = random_values<T>(s.batches * s.k * s.n, 2);
                ASSERT_EQ((kernel.run<T, Out>(s, lhs, rhs, {}, 2)), (in_order<T, Out>(s, lhs, rhs, false)))
                    << s.batches << "x" << s.m << "x" << s.n << "x" << s.k << " lies " << static_cast<int>(l)
                    << static_cast<int>(r);
            }
            EXPECT_TRUE(kernel.scratch_kept());
        }
    EXPECT_GT(tile_counts().dots, 0);
    EXPECT_EQ(tile_counts().mistakes, 0);
}
TEST(Amx, EmulatedTilesMultiplyBytes) {
    expect_bytes<int8_t, int8_t>(DType::I8, DType::I8);
    expect_bytes<int8_t, int32_t>(DType::I8, DType::I32);
    expect_bytes<uint8_t, uint8_t>(DType::U8, DType::U8);
    expect_bytes<uint8_t, int32_t>(DType::U8, DType::I32);
}

TEST(Amx, NothingFromOutsideOfAnOperandMeetsItsNumbers) {
    // Where a tile goes past the end of a row there is infinity: as padding it would make NaN.
    const Sizes s{1, 35, 37, 33};
    auto lhs = random_halves(s.m * s.k, 1), rhs = random_halves(s.k * s.n, 2);
    for (int64_t p = 0; p < s.k; ++p) // the row after the one that is looked at
        lhs[static_cast<size_t>(17 * s.k + p)] = ir::float_to_bfloat(INFINITY);
    const ProductKernel kernel(DType::BF16, Lie::RowsApart, Lie::RowsTogether, tile_isa(), {}, DType::Bool,
                               false, true);
    const auto out = kernel.run<uint16_t>(s, lhs, rhs);
    for (int64_t i = 0; i < s.m; ++i)
        for (int64_t j = 0; j < s.n; ++j)
            EXPECT_EQ(std::isfinite(ir::bfloat_to_float(out[static_cast<size_t>(i * s.n + j)])), i != 17);
}

TEST(Amx, BlocksDoNotChangeBits) {
    const Sizes s{1, 70, 130, 200};
    const auto lhs = random_halves(s.m * s.k, 1), rhs = random_halves(s.k * s.n, 2);
    const ProductKernel kernel(DType::BF16, Lie::RowsApart, Lie::RowsTogether, tile_isa(), {}, DType::Bool,
                               false, true);
    const auto expected = kernel.run<uint16_t>(s, lhs, rhs);
    for (const auto &[depth, pass] :
         {std::pair{32, 32}, std::pair{32, 96}, std::pair{32, 224}, std::pair{64, 64}, std::pair{64, 128},
          std::pair{160, 160}, std::pair{160, 320}})
        for (const int64_t rows : {16, 70}) {
            const auto change = [&](passes::ContractionBlocks &blocks) {
                const auto set = [&](ContractionArg which, int64_t value) {
                    blocks.args[static_cast<size_t>(which)] = value;
                };
                const int64_t lhs_bytes = ceil_div(rows, 32) * 32 * depth * 2 + 64;
                const int64_t rhs_bytes = 2 * 32 * pass * 2 + 64;
                set(ContractionArg::BlockM, rows);
                set(ContractionArg::BlockN, 64);
                set(ContractionArg::InnerM, 32);
                set(ContractionArg::BlockK, depth);
                set(ContractionArg::PassK, pass);
                set(ContractionArg::RhsOffset, lhs_bytes);
                set(ContractionArg::SumsOffset, lhs_bytes + rhs_bytes);
                blocks.scratch_bytes = lhs_bytes + rhs_bytes + ceil_div(rows, 32) * 2 * 32 * 32 * 4;
            };
            EXPECT_EQ(kernel.run<uint16_t>(s, lhs, rhs, change, 2), expected)
                << depth << " " << pass << " " << rows;
        }
    EXPECT_TRUE(kernel.scratch_kept());
}

TEST(Amx, EpiloguesSeeTheRoundedProduct) {
    const Sizes s{1, 33, 50, 64};
    const auto lhs = random_halves(s.m * s.k, 1), rhs = random_halves(s.k * s.n, 2);
    const auto widen = [](KernelBuilder &b, KValue product, const Access &, const Access &) {
        return b.cast(product, DType::F32);
    };
    const ProductKernel kernel(DType::BF16, Lie::RowsApart, Lie::RowsApart, tile_isa(), widen, DType::F32,
                               false, true);
    std::vector<float> expected;
    for (const uint16_t x : in_tile_order(s, lhs, rhs))
        expected.push_back(ir::bfloat_to_float(x));
    EXPECT_EQ((kernel.run<uint16_t, float>(s, lhs, rhs)), expected);
}

TEST(Amx, RoundingOfSumsIsThatOfEveryIsa) {
    // x + x * y: ties of both signs and what lies beside them, infinities and NaN.
    std::vector<uint16_t> lhs, rhs;
    for (const float y : {0.0f, 0x1p-8f, 0x1.02p-8f, 0x1.fep-9f, 0x1.8p-7f, -0x1p-8f})
        lhs.insert(lhs.end(), {ir::float_to_bfloat(1), ir::float_to_bfloat(y)});
    for (const float x :
         {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f, -1.0f, 0x1.02p0f, -0x1.fep0f, 0x1.fep127f})
        rhs.push_back(ir::float_to_bfloat(x));
    const auto n = static_cast<int64_t>(rhs.size());
    rhs.insert(rhs.end(), rhs.begin(), rhs.begin() + n);
    const Sizes s{1, static_cast<int64_t>(lhs.size()) / 2, n, 2};
    ir::CpuIsa plain = tile_isa();
    plain.avx512_bf16 = false;
    const auto product = [&](const ir::CpuIsa &isa) {
        return ProductKernel(DType::BF16, Lie::RowsApart, Lie::RowsTogether, isa, {}, DType::Bool, false,
                             true)
            .run<uint16_t>(s, lhs, rhs);
    };
    EXPECT_EQ(product(tile_isa()), product(plain));
}

TEST(Amx, ProductsInAscendingOrderUseNone) {
    const ProductKernel kernel(DType::BF16, Lie::RowsApart, Lie::RowsTogether, tile_isa(), {}, DType::Bool,
                               true);
    EXPECT_FALSE(tile_isa().multiplies_tiles(DType::BF16, DType::F32, true));
    EXPECT_NE(kernel.mr(), 2 * ir::kAmxRows);
    const ProductKernel f32(DType::F32, Lie::RowsApart, Lie::RowsTogether, tile_isa());
    EXPECT_FALSE(tile_isa().multiplies_tiles(DType::F32, DType::F32, false));
    EXPECT_NE(f32.mr(), 2 * ir::kAmxRows);
}

/// Subnormals are taken for zero, so that an element is off by less than the smallest normal number for each
/// element of k (S66).
TEST(Semantics, S66_tile_registers_take_subnormals_of_bf16_for_zero) {
    const ProductKernel kernel(DType::BF16, Lie::RowsApart, Lie::RowsTogether, tile_isa(), {}, DType::Bool,
                               false, true);
    const Sizes s{1, 3, 5, 33};
    const std::vector<uint16_t> small(static_cast<size_t>(s.m * s.k), ir::float_to_bfloat(0x1p-130F)),
        one(static_cast<size_t>(s.k * s.n), ir::float_to_bfloat(1));
    for (const uint16_t got : kernel.run<uint16_t>(s, small, one))
        EXPECT_NEAR(static_cast<double>(ir::bfloat_to_float(got)), 33 * 0x1p-130, 33 * 0x1p-126);
}

/// A schedule changes no bit: made for a processor without tile registers, it is none for one that has them.
TEST(Amx, TheSchedulesOfOtherMachinesAreRefused) {
    ir::CpuIsa without = tile_isa();
    without.amx_bf16 = false;
    const ProductKernel kernel(DType::BF16, Lie::RowsApart, Lie::RowsTogether, without);
    EXPECT_THAT([&] { (void)codegen::compile_cpu(kernel.kernel(), tile_isa(), {}, true); },
                testing::ThrowsMessage<ir::Failure>(testing::HasSubstr("tile registers")));
}

TEST(Amx, KernelsOfOtherMachinesHaveOtherKeys) {
    ir::CpuIsa without = tile_isa();
    without.amx_bf16 = false;
    const auto schedule = [](const ir::CpuIsa &isa) {
        return passes::contraction_tile(DType::BF16, DType::F32, isa);
    };
    EXPECT_TRUE(schedule(tile_isa()).amx);
    EXPECT_FALSE(schedule(without).amx);
    EXPECT_EQ(ir::may_use_amx(), ir::may_use_amx());
}

#else
TEST(Amx, NeedsTheJit) {
    GTEST_SKIP() << "built without LLVM (LAZULI_CPU_JIT=OFF)";
}
#endif

} // namespace
} // namespace lz::test
