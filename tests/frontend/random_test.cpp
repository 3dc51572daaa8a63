#include "tests/support/tensor_values.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace {

using namespace lz::test;
using lz::Tensor;

TEST(Semantics, S63_the_words_are_those_of_the_published_vectors) {
    // Philox 4x32-10, known answers of the Random123 distribution: counter 0 and key 0.
    const uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    lz::manual_seed(0);
    Values expected;
    for (const uint32_t w : words)
        expected.push_back(static_cast<double>(w >> 8) * 0x1p-24);
    expect_tensor(lz::rand({4}), {4}, lz::f32, expected);
    // f64 has 27 bits of a word of the first draw and 26 of one of the second.
    lz::Generator g(0);
    const Values high = values(lz::rand({2}, g, {.dtype = lz::f64}));
    EXPECT_EQ(std::floor(high[0] * 0x1p27), static_cast<double>(words[0] >> 5));
    EXPECT_EQ(std::floor(high[1] * 0x1p27), static_cast<double>(words[1] >> 5));
}

TEST(Semantics, S63_a_seed_gives_the_same_numbers_and_a_state_can_be_restored) {
    lz::manual_seed(5);
    const Tensor a = lz::randn({7}), b = lz::rand({3});
    lz::manual_seed(5);
    EXPECT_TRUE(lz::equal(a, lz::randn({7})));
    EXPECT_TRUE(lz::equal(b, lz::rand({3})));
    lz::Generator g(9);
    lz::rand({5}, g);
    const lz::Generator::State state = g.get_state();
    EXPECT_EQ(state.seed, 9u);
    EXPECT_EQ(state.offset, 2u); // five words are two blocks of four
    const Tensor c = lz::rand({4}, g);
    g.set_state(state);
    EXPECT_TRUE(lz::equal(c, lz::rand({4}, g)));
    EXPECT_FALSE(lz::equal(c, lz::rand({4}, g)));
}

TEST(Random, UniformNumbersAreInRangeAndEven) {
    lz::manual_seed(1);
    for (const lz::DType dtype : {lz::f16, lz::bf16, lz::f32, lz::f64}) {
        const Values v = values(lz::rand({4000}, {.dtype = dtype}));
        double sum = 0;
        for (const double x : v) {
            ASSERT_GE(x, 0);
            ASSERT_LT(x, 1);
            sum += x;
        }
        EXPECT_NEAR(sum / 4000, 0.5, 0.02) << dtype; // 4 standard errors
    }
    Tensor x = lz::empty({1000});
    x.uniform_(-3, -2);
    EXPECT_GE(x.min().item<double>(), -3);
    EXPECT_LT(x.max().item<double>(), -2);
}

TEST(Random, NormalNumbersHaveTheirMoments) {
    lz::manual_seed(2);
    for (const lz::DType dtype : {lz::f32, lz::f64}) {
        const Tensor x = lz::randn({20000}, {.dtype = dtype});
        EXPECT_NEAR(x.mean().item<double>(), 0, 0.03);
        EXPECT_NEAR(x.var().item<double>(), 1, 0.04);
        EXPECT_NEAR((x * x * x * x).mean().item<double>(), 3, 0.25);
    }
    Tensor y = lz::zeros({20000});
    y.normal_(10, 0.5);
    EXPECT_NEAR(y.mean().item<double>(), 10, 0.02);
    EXPECT_NEAR(lz::std(y).item<double>(), 0.5, 0.02);
}

TEST(Random, NormalNumbersHaveTheirTailsAndDoNotHangTogether) {
    const int64_t n = 1 << 16;
    lz::manual_seed(4);
    const Tensor x = lz::randn({n});
    for (const double z : {0.5, 1.0, 2.0, 3.0, 4.0}) {
        const double p = std::erfc(z / std::sqrt(2.0)) / 2;
        const double bound = 4.5 * std::sqrt(p / static_cast<double>(n)); // standard errors
        EXPECT_NEAR((x > z).to(lz::f64).mean().item<double>(), p, bound) << z;
        EXPECT_NEAR((x < -z).to(lz::f64).mean().item<double>(), p, bound) << z;
    }
    for (const int64_t lag : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, n / 2}) {
        const Tensor a = x.slice(0, 0, n - lag), b = x.slice(0, lag, n);
        const double bound = 4.5 / std::sqrt(static_cast<double>(n - lag));
        EXPECT_NEAR((a * b).mean().item<double>(), 0, bound) << lag;
        EXPECT_NEAR(((a.square() - 1) * (b.square() - 1)).mean().item<double>(), 0, 2 * bound) << lag;
    }
}

TEST(Random, EveryReaderSeesTheSameNumbers) {
    for (const lz::DType dtype : {lz::f16, lz::bf16, lz::f32, lz::f64})
        for (const bool normal : {false, true}) {
            const auto drawn = [&] {
                lz::manual_seed(6);
                const lz::Sizes sizes = {37, 53};
                return normal ? lz::randn(sizes, {.dtype = dtype}) : lz::rand(sizes, {.dtype = dtype});
            };
            const Tensor stored = drawn();
            stored.eval();
            const auto expect = [&](const char *reader, const std::function<Tensor(const Tensor &)> &read) {
                EXPECT_TRUE(lz::equal(read(drawn()), read(stored))) << reader << " of " << dtype;
            };
            expect("a copy", [](const Tensor &x) { return x + 1; });
            expect("a transpose", [](const Tensor &x) { return x.t() * 2; });
            expect("a slice", [](const Tensor &x) { return x.slice(0, 3, 30).slice(1, 5, 50) * 2; });
            expect("every third", [](const Tensor &x) { return x.slice(1, 1, 53, 3) + 1; });
            expect("flipped", [](const Tensor &x) { return lz::flip(x, {1}) + 1; });
            expect("sums of rows", [](const Tensor &x) { return x.sum(1); });
            expect("sums of columns", [](const Tensor &x) { return x.sum(0); });
            expect("a softmax", [](const Tensor &x) { return lz::softmax(x, -1); });
            expect("a product", [](const Tensor &x) { return lz::matmul(x, x.t()); });
        }
}

TEST(Random, APartIsFilledLikeAWhole) {
    Tensor x = lz::zeros({5, 9});
    lz::manual_seed(8);
    x.at({lz::Ellipsis, lz::Slice(2, 7)}) = lz::rand({5, 5});
    lz::manual_seed(8);
    const Tensor part = lz::rand({5, 5});
    EXPECT_TRUE(lz::equal(x.slice(1, 2, 7), part));
    EXPECT_EQ((x != 0).sum().item<int64_t>(), (part != 0).sum().item<int64_t>());
}

TEST(Random, IntegersAndChoices) {
    lz::manual_seed(3);
    const Tensor x = lz::randint(-2, 3, {5000});
    EXPECT_EQ(x.dtype(), lz::i64);
    for (int64_t v = -2; v < 3; ++v)
        EXPECT_NEAR((x == v).sum().item<double>(), 1000, 120);
    EXPECT_EQ(x.min().item<int64_t>(), -2);
    EXPECT_EQ(x.max().item<int64_t>(), 2);
    const Tensor wide = lz::randint(int64_t{1} << 60, {100});
    EXPECT_GT(wide.max().item<int64_t>(), int64_t{1} << 58);
    EXPECT_GE(wide.min().item<int64_t>(), 0);
    EXPECT_EQ(lz::randint(5, {2}, {.dtype = lz::f32}).dtype(), lz::f32);
    Values order = values(lz::randperm(50));
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < 50; ++i)
        EXPECT_EQ(order[i], static_cast<double>(i));
    EXPECT_NEAR(lz::bernoulli(lz::full({5000}, 0.3)).mean().item<double>(), 0.3, 0.03);
    expect_values(lz::bernoulli(lz::tensor({0.0, 1.0})), {0, 1});
    Tensor coin = lz::zeros({5000});
    EXPECT_NEAR(coin.bernoulli_(0.75).mean().item<double>(), 0.75, 0.03);
    EXPECT_EQ(lz::bernoulli(lz::ones({3}, {.dtype = lz::i8}), 1.0).dtype(), lz::i8);
}

/// Of n draws those of a weight are within five deviations of n times its part.
void expect_parts(const Tensor &drawn, const std::vector<double> &weights) {
    const double n = static_cast<double>(drawn.numel());
    double all = 0;
    for (const double weight : weights)
        all += weight;
    for (size_t i = 0; i < weights.size(); ++i) {
        const double part = weights[i] / all;
        EXPECT_NEAR((drawn == static_cast<int64_t>(i)).sum().item<double>(), n * part,
                    5 * std::sqrt(n * part * (1 - part)))
            << i;
    }
}

TEST(Random, SamplesWithReplacementFollowTheWeights) {
    lz::manual_seed(8);
    const std::vector<std::vector<double>> all = {{1},
                                                  {0, 1},
                                                  {1, 0},
                                                  {0, 0, 3, 0},
                                                  {1, 2, 3, 4},
                                                  {0, .1, 0, .7, 0, 0, .2, 0},
                                                  {1e-30, 1, 1e-30},
                                                  {1e300, 3e300},
                                                  {1e-300, 3e-300}};
    for (const std::vector<double> &weights : all)
        for (const lz::DType dtype : {lz::f64, lz::f32}) {
            if (dtype == lz::f32 &&
                std::ranges::any_of(weights, [](double w) { return w != 0 && (w > 1e30 || w < 1e-35); }))
                continue;
            const Tensor w = lz::tensor(weights, {.dtype = dtype});
            expect_parts(lz::multinomial(w, 20000, true), weights);
            expect_parts(lz::multinomial(lz::stack({w, w}), 10000, true), weights);
        }
    const Tensor rows = lz::multinomial(lz::tensor({{1.0, 0.0, 0.0}, {0.0, 0.0, 2.0}}), 50, true);
    EXPECT_EQ(rows.sizes(), lz::Sizes({2, 50}));
    EXPECT_TRUE(lz::equal(rows, lz::tensor({{0}, {2}}).expand({2, 50})));
    EXPECT_EQ(rows.dtype(), lz::i64);
    const Tensor many = lz::multinomial(lz::ones({100'000}), 100'000, true);
    EXPECT_NEAR(many.to(lz::f64).mean().item<double>(), 49'999.5, 5 * 28868 / std::sqrt(1e5));
    EXPECT_GT(many.max().item<int64_t>(), 99'900);
    EXPECT_LT(many.min().item<int64_t>(), 100);
}

TEST(Random, SamplesWithoutReplacementAreDifferentOnes) {
    lz::manual_seed(9);
    int64_t first = 0;
    for (int i = 0; i < 400; ++i) {
        const Values drawn = values(lz::multinomial(lz::tensor({1.0, 3.0, 0.0, 4.0}), 3));
        EXPECT_EQ(std::set<double>(drawn.begin(), drawn.end()), (std::set<double>{0, 1, 3}));
        first += drawn[0] == 3;
    }
    EXPECT_NEAR(static_cast<double>(first), 200, 5 * 10);
    for (const bool replacement : {true, false}) {
        expect_error<lz::Error>([&] { values(lz::multinomial(lz::tensor({0.0, 0.0}), 1, replacement)); },
                                {"multinomial", "above 0"});
        expect_error<lz::Error>([&] { values(lz::multinomial(lz::tensor({1.0, -1.0}), 1, replacement)); },
                                {"multinomial", "negative"});
        expect_error<lz::Error>([&] { values(lz::multinomial(lz::tensor({1.0, NAN}), 1, replacement)); },
                                {"multinomial", "NaN"});
    }
    expect_error<lz::Error>([] { values(lz::multinomial(lz::tensor({1.0, 0.0}), 2)); },
                            {"multinomial", "as many as samples"});
}

TEST(Random, AnotherSeedOrOffsetDoesNotCompile) {
    const auto run = [](uint64_t seed) {
        lz::manual_seed(seed);
        return lz::rand({64}).sum().item<double>();
    };
    lz::sync(); // nothing else is pending
    const double first = run(11);
    const lz::CompileStats before = lz::compile_stats();
    EXPECT_NE(run(12), first);
    EXPECT_EQ(run(11), first);
    EXPECT_EQ(lz::compile_stats().programs_compiled, before.programs_compiled);
}

TEST(Random, ProbabilitiesOutOfRangeAreTheNearestOnes) {
    expect_values(lz::bernoulli(lz::tensor({-0.5, 0.0, NAN, 1.0, 1.5})), {0, 0, 0, 1, 1});
}

TEST(Random, WhatCannotBeDrawnIsSaid) {
    expect_error<lz::DTypeError>([] { lz::rand({2}, {.dtype = lz::i32}); }, {"rand", "i32"});
    expect_error<lz::IndexError>([] { lz::randint(3, 3, {2}); }, {"randint", "3"});
    expect_error<lz::DTypeError>([] { lz::bernoulli(lz::tensor({1, 0})); }, {"bernoulli", "i64"});
    expect_error<lz::IndexError>([] { lz::bernoulli(lz::ones({2}), 1.5); }, {"bernoulli", "1.5"});
    Tensor x = lz::ones({2}), n = lz::tensor({1});
    expect_error<lz::IndexError>([&] { x.uniform_(2, 1); }, {"uniform_"});
    expect_error<lz::IndexError>([&] { x.normal_(0, -1); }, {"normal_", "-1"});
    expect_error<lz::DTypeError>([&] { n.normal_(); }, {"normal_", "i64"});
    expect_values(x, {1, 1});
}

} // namespace
