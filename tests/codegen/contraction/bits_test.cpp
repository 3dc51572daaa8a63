/// Bits of a product depend on its operands and on k alone (S29).

#include "contraction/support.h"
#include "ir/kernel/builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace lz::test {
namespace {

#if LAZULI_CPU_JIT

using passes::ContractionBlocks;

int64_t &arg(ContractionBlocks &blocks, ContractionArg which) {
    return blocks.args[static_cast<size_t>(which)];
}

/// Other blocks than the chosen ones, with the scratch that they need.
void reblock(ContractionBlocks &blocks, const Sizes &s, const ProductKernel &kernel, int64_t m, int64_t n,
             int64_t inner, int64_t k, bool pack) {
    const int64_t mr = kernel.mr(), nr = kernel.nr(), bytes = 8;
    arg(blocks, ContractionArg::BlockM) = m;
    arg(blocks, ContractionArg::BlockN) = n;
    arg(blocks, ContractionArg::InnerM) = inner;
    arg(blocks, ContractionArg::BlockK) = arg(blocks, ContractionArg::PassK) = k;
    arg(blocks, ContractionArg::PackLhs) = arg(blocks, ContractionArg::PackRhs) = pack;
    const int64_t lhs = (ceil_div(inner, mr) * mr * k * bytes + 127) / 64 * 64;
    const int64_t rhs = (ceil_div(n, nr) * nr * k * bytes + 127) / 64 * 64;
    arg(blocks, ContractionArg::RhsOffset) = lhs;
    arg(blocks, ContractionArg::SumsOffset) = lhs + rhs;
    blocks.items = s.batches * ceil_div(s.m, m) * ceil_div(s.n, n);
    blocks.scratch_bytes =
        lhs + rhs + ceil_div(m, inner) * ceil_div(inner, mr) * ceil_div(n, nr) * mr * nr * bytes;
}

/// Few rows read rhs where it is. A large one is asked for ahead, a small one is not: other microkernels.
TEST(Contraction, HowFarRhsIsDoesNotChangeBits) {
    constexpr int64_t kFew = 70, kMany = 8200, kSteps = 65; // 2.1 MB of f32
    const auto check = [&]<class T>(DType dtype, T) {
        const ProductKernel kernel(dtype, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa());
        for (int64_t m = 1; m <= kernel.mr(); ++m) {
            const auto lhs = random_values<T>(m * kSteps, 1), far = random_values<T>(kSteps * kMany, 2);
            auto near = random_values<T>(kSteps * kFew, 3);
            for (int64_t k = 0; k < kSteps; ++k)
                std::copy_n(far.begin() + k * kMany, kFew, near.begin() + k * kFew);
            const auto all = kernel.run<T>({1, m, kMany, kSteps}, lhs, far);
            const auto some = kernel.run<T>({1, m, kFew, kSteps}, lhs, near);
            for (int64_t i = 0; i < m; ++i)
                ASSERT_TRUE(std::equal(some.begin() + i * kFew, some.begin() + (i + 1) * kFew,
                                       all.begin() + i * kMany))
                    << m << " rows, row " << i;
        }
    };
    check(DType::F32, float{});
    check(DType::F64, double{});
}

TEST(Contraction, BlocksDoNotChangeBits) {
    const Sizes s{2, 61, 70, 201};
    const auto lhs = random_values<float>(s.batches * s.m * s.k, 1);
    const auto rhs = random_values<float>(s.batches * s.k * s.n, 2);
    const ProductKernel kernel(DType::F32, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa());
    const auto expected = kernel.run<float>(s, lhs, rhs);
    const int64_t nr = kernel.nr(), mr = kernel.mr();
    for (const bool pack : {false, true})
        for (const int64_t k : {32, 64, 160, 224})
            for (const auto &[m, n, inner] :
                 {std::array{61, static_cast<int>(3 * nr), static_cast<int>(mr)},
                  std::array{20, static_cast<int>(nr), 20}, std::array{33, static_cast<int>(2 * nr), 9},
                  std::array{1, static_cast<int>(nr), 1}}) {
                const auto change = [&](ContractionBlocks &blocks) {
                    reblock(blocks, s, kernel, m, n, inner, k, pack);
                };
                EXPECT_EQ(kernel.run<float>(s, lhs, rhs, change, 3), expected)
                    << "blocks " << m << " " << n << " " << inner << " " << k << " packed " << pack;
            }
    EXPECT_TRUE(kernel.scratch_kept());
}

TEST(Contraction, BlocksDoNotChangeBitsOfBF16) {
    const Sizes s{1, 45, 70, 201};
    std::vector<uint16_t> lhs, rhs;
    for (const float x : random_values<float>(s.m * s.k, 1))
        lhs.push_back(ir::float_to_bfloat(x));
    for (const float x : random_values<float>(s.k * s.n, 2))
        rhs.push_back(ir::float_to_bfloat(x));
    const ProductKernel kernel(DType::BF16, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa());
    const auto expected = kernel.run<uint16_t>(s, lhs, rhs);
    for (const int64_t k : {32, 64, 160})
        for (const int64_t m : {45, 7}) {
            const auto change = [&](ContractionBlocks &blocks) {
                reblock(blocks, s, kernel, m, kernel.nr(), std::min<int64_t>(m, kernel.mr()), k, true);
            };
            EXPECT_EQ(kernel.run<uint16_t>(s, lhs, rhs, change, 2), expected) << m << " " << k;
        }
}

TEST(Contraction, ThreadsDoNotChangeBits) {
    for (const Sizes &s :
         {Sizes{1, 300, 200, 300}, Sizes{1, 2, 700, 400}, Sizes{1, 600, 17, 400}, Sizes{5, 40, 40, 40}}) {
        const ProductKernel kernel(DType::F32, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa());
        const auto lhs = random_values<float>(s.batches * s.m * s.k, 1);
        const auto rhs = random_values<float>(s.batches * s.k * s.n, 2);
        const auto one = kernel.run<float>(s, lhs, rhs, {}, 1);
        for (const int threads : {2, 3, 16, 64})
            EXPECT_EQ(kernel.run<float>(s, lhs, rhs, {}, threads), one) << threads << " threads, " << s.m;
        EXPECT_TRUE(kernel.scratch_kept());
    }
}

template <class T>
void expect_layouts_agree(DType dtype) {
    const Sizes s{1, 45, 77, 131};
    auto lhs = random_values<T>(s.m * s.k, 1), rhs = random_values<T>(s.k * s.n, 2);
    if (dtype == DType::BF16) // no NaN
        for (auto *values : {&lhs, &rhs})
            for (T &v : *values)
                v = static_cast<T>(static_cast<uint64_t>(v) % 0x80 + 0x3f80);
    const ProductKernel plain(dtype, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa());
    const auto expected = plain.run<T>(s, lhs, rhs);
    for (const Lie l : {Lie::RowsApart, Lie::RowsTogether, Lie::Spread})
        for (const Lie r : {Lie::RowsApart, Lie::RowsTogether, Lie::Spread})
            EXPECT_EQ(ProductKernel(dtype, l, r, codegen::host_isa()).run<T>(s, lhs, rhs), expected);
}
TEST(Contraction, LayoutsOfOperandsDoNotChangeBits) {
    expect_layouts_agree<float>(DType::F32);
    expect_layouts_agree<uint16_t>(DType::BF16);
}

/// Against plain loops, for every dtype and several blocks of k; with an infinity that must not meet a zero
/// of the padding.
template <class T, class Sum>
void expect_ascending(DType dtype, const std::function<Sum(T)> &widen, const std::function<T(Sum)> &narrow) {
    const Sizes s{2, 19, 35, 1300};
    std::vector<T> lhs, rhs;
    for (const float x : random_values<float>(s.batches * s.m * s.k, 1))
        lhs.push_back(narrow(static_cast<Sum>(x)));
    for (const float x : random_values<float>(s.batches * s.k * s.n, 2))
        rhs.push_back(narrow(static_cast<Sum>(x)));
    lhs[5] = narrow(std::numeric_limits<Sum>::infinity());
    std::vector<T> expected;
    for (int64_t b = 0; b < s.batches; ++b)
        for (int64_t i = 0; i < s.m; ++i)
            for (int64_t j = 0; j < s.n; ++j) {
                Sum sum = 0;
                for (int64_t k = 0; k < s.k; ++k)
                    sum = std::fma(widen(lhs[static_cast<size_t>((b * s.m + i) * s.k + k)]),
                                   widen(rhs[static_cast<size_t>((b * s.k + k) * s.n + j)]), sum);
                expected.push_back(narrow(sum));
            }
    for (const Lie l : {Lie::RowsApart, Lie::RowsTogether, Lie::Spread}) {
        const ProductKernel kernel(dtype, l, Lie::RowsTogether, codegen::host_isa(), {}, DType::Bool, true);
        for (const int threads : {1, 5})
            EXPECT_EQ(kernel.run<T>(s, lhs, rhs, {}, threads), expected) << ir::name(dtype);
    }
}

TEST(Contraction, AFixedOrderIsOneFusedMultiplyAddAfterTheOther) {
    expect_ascending<float, float>(DType::F32, [](float x) { return x; }, [](float x) { return x; });
    expect_ascending<double, double>(DType::F64, [](double x) { return x; }, [](double x) { return x; });
    expect_ascending<uint16_t, float>(DType::F16, ir::half_to_float, ir::float_to_half);
    expect_ascending<uint16_t, float>(DType::BF16, ir::bfloat_to_float, ir::float_to_bfloat);
}

KValue bias_relu_residual(KernelBuilder &b, KValue product, const Access &vector, const Access &matrix) {
    const KValue biased = b.add(product, b.load(vector));
    const KValue active = b.maximum(biased, b.constant(DType::F32, 0));
    return b.fma(active, b.constant(DType::F32, 0.5), b.load(matrix));
}

TEST(Contraction, AnEpilogueGivesTheBitsOfASeparateKernel) {
    const Sizes s{1, 61, 70, 300};
    const auto lhs = random_values<float>(s.m * s.k, 1), rhs = random_values<float>(s.k * s.n, 2);
    const auto bias = random_values<float>(s.n, 3), residual = random_values<float>(s.m * s.n, 4);
    const ProductKernel plain(DType::F32, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa());
    const ProductKernel fused(DType::F32, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa(),
                              bias_relu_residual, DType::F32);
    auto expected = plain.run<float>(s, lhs, rhs);
    for (size_t i = 0; i < expected.size(); ++i)
        expected[i] =
            std::fma(std::max(expected[i] + bias[i % static_cast<size_t>(s.n)], 0.0f), 0.5f, residual[i]);
    for (const int threads : {1, 2})
        EXPECT_EQ(fused.run<float>(s, lhs, rhs, {}, threads, bias, residual), expected);
    EXPECT_TRUE(fused.scratch_kept());
}

TEST(Contraction, AnEpilogueWithTranscendentalsIsCloseToF64) {
    const Sizes s{1, 40, 48, 64};
    const auto tanh_of = [](KernelBuilder &b, KValue product, const Access &vector, const Access &) {
        return b.tanh(b.add(product, b.load(vector)));
    };
    const auto lhs = random_values<float>(s.m * s.k, 1), rhs = random_values<float>(s.k * s.n, 2);
    const auto bias = random_values<float>(s.n, 3);
    const std::vector<float> none(static_cast<size_t>(s.m * s.n));
    const ProductKernel plain(DType::F32, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa());
    const ProductKernel fused(DType::F32, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa(), tanh_of,
                              DType::F32);
    const auto product = plain.run<float>(s, lhs, rhs),
               out = fused.run<float>(s, lhs, rhs, {}, 1, bias, none);
    for (size_t i = 0; i < out.size(); ++i) {
        const double exact = std::tanh(static_cast<double>(product[i] + bias[i % static_cast<size_t>(s.n)]));
        ASSERT_NEAR(out[i], exact, std::abs(exact) * 0x1p-22); // 2 ULP
    }
}

TEST(Contraction, AnEpilogueMayCast) {
    const Sizes s{1, 20, 40, 16};
    const auto widen = [](KernelBuilder &b, KValue product, const Access &, const Access &) {
        return b.cast(product, DType::F64);
    };
    const auto lhs = random_values<float>(s.m * s.k, 1), rhs = random_values<float>(s.k * s.n, 2);
    const ProductKernel plain(DType::F32, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa());
    const ProductKernel cast(DType::F32, Lie::RowsApart, Lie::RowsTogether, codegen::host_isa(), widen,
                             DType::F64);
    const auto narrow = plain.run<float>(s, lhs, rhs);
    EXPECT_EQ((cast.run<float, double>(s, lhs, rhs)), std::vector<double>(narrow.begin(), narrow.end()));
}

#if defined(__x86_64__)
/// The host's ISA without what it has beyond AVX2 and FMA, which it has to have.
ir::CpuIsa avx2_of(ir::CpuIsa isa) {
    isa.features =
        "+64bit,+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+popcnt,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3";
    isa.vector_bytes = 32;
    isa.vector_registers = 16;
    isa.avx512 = isa.avx512_bf16 = isa.avx512_vnni = isa.amx_bf16 = isa.amx_int8 = false;
    return isa;
}

/// The host's ISA without what it has beyond AVX2 or SSE2, for which all vectors are narrower.
TEST(Contraction, NarrowerVectorsGiveTheSameBits) {
    ir::CpuIsa isa = codegen::host_isa();
    if (!isa.fma || isa.vector_bytes < 32)
        GTEST_SKIP() << "needs a host with AVX2 and FMA";
    const Sizes s{1, 61, 70, 300};
    const auto lhs = random_values<float>(s.m * s.k, 1), rhs = random_values<float>(s.k * s.n, 2);
    const ProductKernel wide(DType::F32, Lie::RowsApart, Lie::RowsApart, isa);
    isa = avx2_of(isa);
    const ProductKernel avx2(DType::F32, Lie::RowsApart, Lie::RowsApart, isa);
    EXPECT_EQ(avx2.run<float>(s, lhs, rhs), wide.run<float>(s, lhs, rhs));
    isa.features = "+64bit,+cx16,+sse,+sse2";
    isa.vector_bytes = 16;
    isa.fma = false;
    const ProductKernel sse2(DType::F32, Lie::RowsApart, Lie::RowsApart, isa);
    const auto separate = sse2.run<float>(s, lhs, rhs), fused = wide.run<float>(s, lhs, rhs);
    for (size_t i = 0; i < fused.size(); ++i)
        ASSERT_NEAR(separate[i], fused[i], 300 * 0x1p-20);
    // Where the order is fixed, multiply-adds are fused without an instruction for it, too.
    const ProductKernel fixed(DType::F32, Lie::RowsApart, Lie::RowsApart, isa, {}, DType::Bool, true);
    EXPECT_EQ(fixed.run<float>(s, lhs, rhs), fused);
}

template <class T>
void expect_integer_products(DType dtype) {
    std::mt19937 random(3);
    const auto numbers = [&](int64_t count) {
        std::vector<T> all;
        for (int64_t i = 0; i < count; ++i) // the least one often: pairs of it are the corner of VPMADDWD
            all.push_back(random() % 4 == 0 ? std::numeric_limits<T>::min() : static_cast<T>(random()));
        return all;
    };
    for (const Lie l : {Lie::RowsApart, Lie::RowsTogether, Lie::Spread})
        for (const Lie r : {Lie::RowsApart, Lie::RowsTogether, Lie::Spread}) {
            const ProductKernel kernel(dtype, l, r, avx2_of(codegen::host_isa()), {}, DType::I32);
            for (const Sizes &s : {Sizes{1, 6, 16, 1}, {1, 5, 9, 2}, {2, 13, 40, 31}, {1, 61, 70, 1501}}) {
                const auto lhs = numbers(s.batches * s.m * s.k), rhs = numbers(s.batches * s.k * s.n);
                std::vector<int32_t> expected;
                for (int64_t b = 0; b < s.batches; ++b)
                    for (int64_t i = 0; i < s.m; ++i)
                        for (int64_t j = 0; j < s.n; ++j) {
                            uint32_t sum = 0; // which wraps
                            for (int64_t k = 0; k < s.k; ++k)
                                sum += static_cast<uint32_t>(
                                    int{lhs[static_cast<size_t>((b * s.m + i) * s.k + k)]} *
                                    int{rhs[static_cast<size_t>((b * s.k + k) * s.n + j)]});
                            expected.push_back(static_cast<int32_t>(sum));
                        }
                EXPECT_EQ((kernel.template run<T, int32_t>(s, lhs, rhs)), expected)
                    << ir::name(dtype) << ", " << s.m << " x " << s.k << " x " << s.n;
                EXPECT_TRUE(kernel.scratch_kept());
            }
        }
}

TEST(Contraction, IntegersAreMultipliedInPairsWithAvx2) {
    const ir::CpuIsa isa = codegen::host_isa();
    if (!isa.fma || isa.vector_bytes < 32)
        GTEST_SKIP() << "needs a host with AVX2 and FMA";
    expect_integer_products<int8_t>(DType::I8);
    expect_integer_products<uint8_t>(DType::U8);
    expect_integer_products<int16_t>(DType::I16);
}
#endif

#else
TEST(ContractionBits, NeedTheJit) {
    GTEST_SKIP() << "built without LLVM (LAZULI_CPU_JIT=OFF)";
}
#endif

} // namespace
} // namespace lz::test
