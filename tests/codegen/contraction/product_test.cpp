#include "contraction/support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace lz::test {
namespace {

#if LAZULI_CPU_JIT

constexpr Lie kLies[] = {Lie::RowsApart, Lie::RowsTogether, Lie::Spread};
constexpr Sizes kSizes[] = {{1, 1, 1, 1},      {1, 2, 3, 4},    {1, 17, 65, 33},
                            {2, 64, 64, 64},   {1, 13, 31, 70}, {1, 29, 47, 130},
                            {3, 100, 33, 257}, {1, 1, 200, 77}, {1, 200, 1, 77}};

template <class T>
void expect_in_order(DType dtype) {
    const ir::CpuIsa isa = codegen::host_isa();
    for (const Lie l : kLies)
        for (const Lie r : kLies) {
            const ProductKernel kernel(dtype, l, r, isa);
            for (const Sizes &s : kSizes) {
                const auto lhs = random_values<T>(s.batches * s.m * s.k, 1);
                const auto rhs = random_values<T>(s.batches * s.k * s.n, 2);
                EXPECT_EQ(kernel.run<T>(s, lhs, rhs), in_order(s, lhs, rhs, isa.fma))
                    << ir::name(dtype) << " " << s.batches << "x" << s.m << "x" << s.n << "x" << s.k
                    << " lies " << static_cast<int>(l) << static_cast<int>(r);
            }
            EXPECT_TRUE(kernel.scratch_kept());
        }
}

TEST(Contraction, F32IsSummedInOrderInEveryLayout) {
    expect_in_order<float>(DType::F32);
}
TEST(Contraction, F64IsSummedInOrderInEveryLayout) {
    expect_in_order<double>(DType::F64);
}
/// The host's ISA, and less and less of it: what other products of such numbers it has.
std::vector<ir::CpuIsa> lesser_isas(DType dtype) {
    std::vector<ir::CpuIsa> isas = {codegen::host_isa()};
    const auto without = [&](auto change) {
        isas.push_back(isas.back());
        change(isas.back());
    };
    if (ir::size_of(dtype) == 1) {
        without([](ir::CpuIsa &isa) { isa.amx_int8 = isa.amx_bf16 = false; });
        without([](ir::CpuIsa &isa) { isa.avx512_vnni = false; });
    }
    without([](ir::CpuIsa &isa) {
        isa.avx512 = isa.avx512_bf16 = false;
        isa.vector_bytes = std::min(isa.vector_bytes, 32);
        isa.vector_registers = 16;
    });
    without([](ir::CpuIsa &isa) { isa.vector_bytes = std::min(isa.vector_bytes, 16); });
    return isas;
}

template <class T, class Out = T>
void expect_wrapping(DType dtype, DType out) {
    for (const ir::CpuIsa &isa : lesser_isas(dtype))
        for (const Lie l : kLies)
            for (const Lie r : kLies) {
                if (l != r && !(isa == codegen::host_isa()))
                    continue; // kernels of many microkernels: two operands that lie alike say as much
                const ProductKernel kernel(dtype, l, r, isa, {}, out);
                std::vector<Sizes> sizes(std::begin(kSizes), std::end(kSizes));
                sizes.push_back({1, 18, 70, 1100}); // several blocks of k
                for (const Sizes &s : sizes) {
                    const auto lhs = random_values<T>(s.batches * s.m * s.k, 1);
                    const auto rhs = random_values<T>(s.batches * s.k * s.n, 2);
                    ASSERT_EQ((kernel.run<T, Out>(s, lhs, rhs)), (in_order<T, Out>(s, lhs, rhs, false)))
                        << ir::name(dtype) << " in " << ir::name(out) << " " << s.batches << "x" << s.m << "x"
                        << s.n << "x" << s.k << " lies " << static_cast<int>(l) << static_cast<int>(r)
                        << ", registers of " << isa.vector_bytes << " bytes, vnni " << isa.avx512_vnni
                        << ", amx " << isa.amx_int8;
                }
                EXPECT_TRUE(kernel.scratch_kept());
            }
}

TEST(Contraction, IntegersWrapInEveryLayout) {
    expect_wrapping<int64_t>(DType::I64, DType::I64);
    expect_wrapping<int32_t>(DType::I32, DType::I32);
    expect_wrapping<int16_t>(DType::I16, DType::I16);
    expect_wrapping<int8_t>(DType::I8, DType::I8);
    expect_wrapping<uint8_t>(DType::U8, DType::U8);
}
TEST(Contraction, BytesAreSummedIn32Bits) {
    expect_wrapping<int8_t, int32_t>(DType::I8, DType::I32);
    expect_wrapping<uint8_t, int32_t>(DType::U8, DType::I32);
}
TEST(Contraction, IntegersAreSummedInWiderOnes) {
    expect_wrapping<int16_t, int32_t>(DType::I16, DType::I32);
    expect_wrapping<int8_t, int16_t>(DType::I8, DType::I16);
    expect_wrapping<int8_t, int64_t>(DType::I8, DType::I64);
    expect_wrapping<int32_t, int64_t>(DType::I32, DType::I64);
}
/// What the processor's instructions saturate or wrap at: all numbers are the largest that there are.
TEST(Contraction, ProductsOfTheLargestIntegersAreExact) {
    const auto check = []<class T>(DType dtype, T x, T y) {
        for (const ir::CpuIsa &isa : lesser_isas(dtype)) {
            const ProductKernel kernel(dtype, Lie::RowsApart, Lie::RowsTogether, isa, {}, DType::I32);
            for (const int k : {1, 2, 3, 4, 64, 700}) {
                const Sizes s{1, 15, 34, k};
                const std::vector<T> lhs(static_cast<size_t>(s.m * s.k), x),
                    rhs(static_cast<size_t>(s.k * s.n), y);
                ASSERT_EQ((kernel.run<T, int32_t>(s, lhs, rhs)), (in_order<T, int32_t>(s, lhs, rhs, false)))
                    << ir::name(dtype) << " " << k << " " << isa.vector_bytes;
            }
        }
    };
    check(DType::I8, int8_t{-128}, int8_t{-128});
    check(DType::I8, int8_t{-128}, int8_t{127});
    check(DType::U8, uint8_t{255}, uint8_t{255});
    check(DType::I16, int16_t{-32768}, int16_t{-32768});
}

/// Halves are summed in f32: against a sum in f64, half a unit of the result's last place, and of f32 for
/// each step.
void expect_half(DType dtype, float (*widen)(uint16_t), uint16_t (*narrow)(float), double unit) {
    for (const Lie l : kLies)
        for (const Lie r : kLies) {
            const ProductKernel kernel(dtype, l, r, codegen::host_isa());
            for (const Sizes &s : kSizes) {
                std::vector<uint16_t> lhs, rhs;
                for (const float x : random_values<float>(s.batches * s.m * s.k, 3))
                    lhs.push_back(narrow(x));
                for (const float x : random_values<float>(s.batches * s.k * s.n, 4))
                    rhs.push_back(narrow(x));
                const auto got = kernel.run<uint16_t>(s, lhs, rhs);
                size_t at = 0;
                for (int64_t b = 0; b < s.batches; ++b)
                    for (int64_t i = 0; i < s.m; ++i)
                        for (int64_t j = 0; j < s.n; ++j, ++at) {
                            double sum = 0, size = 0;
                            for (int64_t p = 0; p < s.k; ++p) {
                                const double x = widen(lhs[static_cast<size_t>((b * s.m + i) * s.k + p)]);
                                const double y = widen(rhs[static_cast<size_t>((b * s.k + p) * s.n + j)]);
                                sum += x * y;
                                size += std::abs(x * y);
                            }
                            const double bound =
                                std::abs(sum) * unit + size * static_cast<double>(s.k) * 0x1p-23 + 1e-7;
                            ASSERT_NEAR(widen(got[at]), sum, bound) << s.m << "x" << s.n << "x" << s.k;
                        }
            }
            EXPECT_TRUE(kernel.scratch_kept());
        }
}
TEST(Contraction, F16IsSummedInF32) {
    expect_half(DType::F16, ir::half_to_float, ir::float_to_half, 0x1p-11);
}
TEST(Contraction, BF16IsSummedInF32) {
    expect_half(DType::BF16, ir::bfloat_to_float, ir::float_to_bfloat, 0x1p-8);
}

/// Elements of operands are narrower than those of the result, in which the sums lie from the first pass on.
TEST(Contraction, SumsOfBF16MayBeStoredAsTheyAre) {
    for (const bool dots : {true, false}) {
        ir::CpuIsa isa = codegen::host_isa();
        isa.amx_bf16 = false;
        isa.avx512_bf16 = isa.avx512_bf16 && dots;
        const ProductKernel kernel(DType::BF16, Lie::RowsApart, Lie::RowsTogether, isa, {}, DType::F32);
        for (const Sizes &s : {Sizes{1, 3, 5, 2}, Sizes{2, 30, 70, 33}, Sizes{1, 17, 40, 1100}}) {
            std::vector<uint16_t> lhs, rhs;
            for (const float x : random_values<float>(s.batches * s.m * s.k, 1))
                lhs.push_back(ir::float_to_bfloat(x));
            for (const float x : random_values<float>(s.batches * s.k * s.n, 2))
                rhs.push_back(ir::float_to_bfloat(x));
            const std::vector<float> got = kernel.run<uint16_t, float>(s, lhs, rhs);
            for (int64_t b = 0; b < s.batches; ++b)
                for (int64_t i = 0; i < s.m; ++i)
                    for (int64_t j = 0; j < s.n; ++j) {
                        double sum = 0, size = 0;
                        for (int64_t p = 0; p < s.k; ++p) {
                            const auto x = static_cast<double>(
                                ir::bfloat_to_float(lhs[static_cast<size_t>((b * s.m + i) * s.k + p)]));
                            const auto y = static_cast<double>(
                                ir::bfloat_to_float(rhs[static_cast<size_t>((b * s.k + p) * s.n + j)]));
                            sum += x * y;
                            size += std::abs(x * y);
                        }
                        ASSERT_NEAR(got[static_cast<size_t>((b * s.m + i) * s.n + j)], sum,
                                    size * static_cast<double>(s.k) * 0x1p-23);
                    }
        }
        EXPECT_TRUE(kernel.scratch_kept());
    }
}

TEST(Semantics, S66_subnormals_count_in_products_of_bf16) {
    const auto bits = [](float x) { return ir::float_to_bfloat(x); };
    const float small = 0x1p-130F; // a subnormal of bf16
    for (const bool dots : {true, false}) {
        ir::CpuIsa isa = codegen::host_isa();
        isa.amx_bf16 = false; // tile registers take them for zero: contraction/amx_test.cpp
        isa.avx512_bf16 = isa.avx512_bf16 && dots;
        const ProductKernel kernel(DType::BF16, Lie::RowsApart, Lie::RowsTogether, isa);
        for (const int64_t k : {1, 2, 33}) {
            std::vector<uint16_t> lhs(static_cast<size_t>(3 * k), bits(small)),
                rhs(static_cast<size_t>(k * 5), bits(1));
            // Operands, the sum, and a partial sum that others cancel.
            for (const uint16_t got : kernel.run<uint16_t>({1, 3, 5, k}, lhs, rhs))
                ASSERT_EQ(got, bits(small * static_cast<float>(k))) << k;
            std::ranges::fill(lhs, bits(0x1p-70F));
            std::ranges::fill(rhs, bits(0x1p-60F));
            for (const uint16_t got : kernel.run<uint16_t>({1, 3, 5, k}, lhs, rhs))
                ASSERT_EQ(got, bits(small * static_cast<float>(k))) << k;
        }
    }
}

TEST(Contraction, AProductOverNothingIsZero) {
    const ProductKernel kernel(DType::F32, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa());
    EXPECT_EQ(kernel.run<float>({2, 15, 33, 0}, {}, {}), std::vector<float>(2 * 15 * 33, 0.0f));
}

TEST(Contraction, NoRowsAreNoItems) {
    const ProductKernel kernel(DType::F32, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa());
    EXPECT_TRUE(kernel.run<float>({1, 0, 8, 8}, {}, random_values<float>(64, 1)).empty());
    EXPECT_EQ(kernel.items(), 0);
}

TEST(Contraction, NaNAndInfinityStayInTheirRow) {
    const Sizes s{1, 17, 40, 9};
    const ProductKernel kernel(DType::F32, Lie::RowsApart, Lie::RowsApart, codegen::host_isa());
    auto lhs = random_values<float>(s.m * s.k, 1);
    lhs[static_cast<size_t>(16 * s.k + 3)] = NAN;
    const auto out = kernel.run<float>(s, lhs, random_values<float>(s.k * s.n, 2));
    for (int64_t i = 0; i < s.m; ++i)
        for (int64_t j = 0; j < s.n; ++j)
            EXPECT_EQ(std::isnan(out[static_cast<size_t>(i * s.n + j)]), i == 16);
}

#else
TEST(Contraction, NeedsTheJit) {
    GTEST_SKIP() << "built without LLVM (LAZULI_CPU_JIT=OFF)";
}
#endif

} // namespace
} // namespace lz::test
