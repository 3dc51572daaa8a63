// S27 for sizes: what was compiled for some of them serves others.
#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace {

using lz::Tensor;

/// Of one program for lengths 2 to 257: f computes, and has to give `expected`.
template <class F, class G>
void expect_few_programs(F &&f, G &&expected) {
    constexpr int64_t most = 8;
    lz::sync();
    const lz::CompileStats before = lz::compile_stats();
    for (int64_t n = 2; n < 258; ++n)
        EXPECT_EQ(f(n).template item<double>(), expected(n)) << "length " << n;
    const lz::CompileStats after = lz::compile_stats();
    EXPECT_LE(after.programs_compiled - before.programs_compiled, most);
    EXPECT_GE(after.programs_resized - before.programs_resized, 256 - most);
}

TEST(Sizes, S27_sums_of_256_lengths_are_a_few_programs) {
    expect_few_programs([](int64_t n) { return (lz::arange(n) * 2 + 1).sum(); },
                        [](int64_t n) { return static_cast<double>(n * n); });
}

TEST(Sizes, S27_products_of_256_batches_are_a_few_programs) {
    const Tensor w = lz::ones({24, 40});
    expect_few_programs(
        [&](int64_t n) {
            const Tensor x = lz::arange(n).to(lz::f32).view({n, 1}).expand({n, 24}).contiguous();
            return lz::relu(lz::matmul(x, w) - 24).sum().to(lz::f64);
        },
        [](int64_t n) { return static_cast<double>(40 * 24 * (n - 1) * (n - 2) / 2); });
}

TEST(Sizes, S27_joins_of_growing_lengths_are_a_few_programs) {
    Tensor kept = lz::ones({1, 8});
    expect_few_programs(
        [&](int64_t) {
            kept = lz::cat({kept, lz::ones({1, 8})}, 0);
            return lz::softmax(kept, -1).sum(0).max() * 8;
        },
        [](int64_t n) { return static_cast<double>(n); });
}

TEST(Sizes, S27_training_steps_of_256_batches_are_a_few_programs) {
    const Tensor w = lz::zeros({4, 2}), label = (lz::arange(2) == 0).to(lz::f32);
    expect_few_programs(
        [&](int64_t n) {
            const Tensor x = lz::arange(n).to(lz::f32).view({n, 1}).expand({n, 4}).contiguous();
            const Tensor off = lz::softmax(lz::matmul(x, w), -1) - label; // a half
            return (w - 0.5 * lz::matmul(x.t(), off) / static_cast<double>(n)).max().to(lz::f64);
        },
        [](int64_t n) { return static_cast<double>(n - 1) / 8; });
}

TEST(Sizes, WhatFailsInAnotherSizeNamesTheLineOfItsRecording) {
    const Tensor table = lz::arange(10);
    for (int64_t n = 3; n < 12; ++n) {
        std::vector<int64_t> indices(static_cast<size_t>(n), 2);
        indices.back() = n == 9 ? 77 : 3;
        const Tensor index = lz::tensor(indices);
        const Tensor picked = table.index_select(0, index) + 1;
        if (n != 9) {
            EXPECT_EQ(picked.sum().item<int64_t>(), 3 * (n - 1) + 4);
            continue;
        }
        try {
            (void)picked.sum().item<int64_t>();
            FAIL() << "77 is no index";
        } catch (const lz::IndexError &error) {
            EXPECT_NE(std::string(error.what()).find("sizes_test.cpp"), std::string::npos) << error.what();
        }
    }
}

} // namespace
