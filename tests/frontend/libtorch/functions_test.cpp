// unfold, median, kthvalue and multinomial beside plain loops.
#include "tests/support/caught.h"
#include "tests/support/tensor_values.h"

#include <algorithm>
#include <set>

namespace {

using namespace lz::test;
using lz::Tensor;

TEST(LibTorchFunctions, UnfoldGivesAllWindows) {
    lz::manual_seed(1);
    for (const auto &[extent, size, step] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {7, 3, 2}, {7, 3, 1}, {7, 2, 3}, {8, 2, 3}, {6, 2, 2}, {5, 5, 1}, {4, 1, 1}, {5, 0, 2}}) {
        const Tensor x = lz::randn({2, extent, 3}, lz::f64);
        const Tensor y = x.unfold(1, size, step);
        const int64_t windows = (extent - size) / step + 1;
        ASSERT_EQ(y.sizes(), (lz::Sizes{2, windows, 3, size})) << extent << ' ' << size << ' ' << step;
        const Values from = values(x), found = values(y);
        size_t at = 0;
        for (int64_t n = 0; n < 2; ++n)
            for (int64_t w = 0; w < windows; ++w)
                for (int64_t c = 0; c < 3; ++c)
                    for (int64_t k = 0; k < size; ++k)
                        EXPECT_EQ(found[at++],
                                  from[static_cast<size_t>((n * extent + w * step + k) * 3 + c)]);
    }
    expect_tensor(lz::tensor(3.0).unfold(0, 1, 1), {1}, lz::f32, {3});
    // What several windows have gets the gradient of each.
    const Tensor x = lz::ones({5}, lz::requires_grad());
    x.unfold(0, 3, 1).sum().backward();
    expect_values(x.grad(), {1, 2, 3, 2, 1});
    const Tensor y = lz::ones({5});
    EXPECT_TRUE(caught<lz::IndexError>([&] { y.unfold(0, 6, 1); }).has("unfold: the size is 6; axis 0"));
    EXPECT_TRUE(caught<lz::IndexError>([&] { y.unfold(0, 2, 0); }).has("the step is 0"));
    EXPECT_TRUE(caught<lz::IndexError>([&] { y.unfold(1, 1, 1); }).has("axis 1"));
}

TEST(LibTorchFunctions, MedianIsTheLowerMiddle) {
    lz::manual_seed(2);
    for (const int64_t n : {1, 2, 5, 8, 33}) {
        const Tensor x = lz::randn({3, n}, lz::f64);
        const auto [middle, indices] = x.median(1);
        const Values from = values(x), found = values(middle), at = values(indices);
        for (size_t r = 0; r < 3; ++r) {
            const size_t count = static_cast<size_t>(n);
            Values row(from.begin() + static_cast<std::ptrdiff_t>(r * count),
                       from.begin() + static_cast<std::ptrdiff_t>((r + 1) * count));
            EXPECT_EQ(row[static_cast<size_t>(at[r])], found[r]);
            std::ranges::sort(row);
            EXPECT_EQ(found[r], row[(count - 1) / 2]);
        }
        EXPECT_EQ(x.median(0, true).values.sizes(), (lz::Sizes{1, n}));
    }
    const double nan = std::nan("");
    const auto [middle, indices] = lz::tensor({{3.0, 1.0, 2.0, 2.0}, {nan, 1.0, nan, 0.0}}).median(-1);
    expect_values(middle, {2, nan});
    expect_values(indices, {2, 0});
    expect_tensor(lz::tensor({{5, 1}, {4, 2}}).median(), {}, lz::i64, {2});
    expect_values(lz::zeros({0}).median(), {nan});
    expect_values(lz::tensor(3.0).median(0).values, {3});
    EXPECT_TRUE(caught<lz::IndexError>([] { lz::zeros({2, 0}).median(1); }).has("has no elements"));
    const Tensor x = lz::tensor({1.0, 4.0, 2.0, 3.0}, lz::requires_grad());
    x.median().backward();
    expect_values(x.grad(), {0, 0, 1, 0}); // of 2 and 3 the lower
}

TEST(LibTorchFunctions, KthvalueCountsFromOne) {
    const Tensor x = lz::tensor({{3.0, 1.0, 2.0}, {9.0, 8.0, 7.0}});
    expect_values(x.kthvalue(2).values, {2, 8});
    expect_values(std::get<1>(x.kthvalue(1, 0)), {0, 0, 0});
    EXPECT_EQ(x.kthvalue(3, 1, true).values.sizes(), (lz::Sizes{2, 1}));
    EXPECT_TRUE(caught<lz::IndexError>([&] { x.kthvalue(4); }).has("k is 4; axis 1"));
}

TEST(LibTorchFunctions, MultinomialDrawsByWeight) {
    lz::manual_seed(4);
    constexpr int64_t kSamples = 20000;
    const Tensor weights = lz::tensor({1.0, 0.0, 3.0, 6.0});
    const Tensor drawn = lz::multinomial(weights, kSamples, /*replacement=*/true);
    EXPECT_EQ(drawn.sizes(), lz::Sizes{kSamples});
    EXPECT_EQ(drawn.dtype(), lz::i64);
    std::vector<double> counts(4);
    for (const double i : values(drawn))
        counts[static_cast<size_t>(i)] += 1;
    EXPECT_EQ(counts[1], 0);
    // Five deviations of a count: sqrt(n p (1 - p)).
    for (const auto &[i, p] : std::vector<std::pair<size_t, double>>{{0, 0.1}, {2, 0.3}, {3, 0.6}})
        EXPECT_NEAR(counts[i], kSamples * p, 5 * std::sqrt(kSamples * p * (1 - p))) << i;

    // Without replacement: each once, and the first one by weight.
    const Tensor rows = weights.expand({4000, 4});
    const Values orders = values(lz::multinomial(rows, 3));
    double first = 0;
    for (size_t r = 0; r < 4000; ++r) {
        const std::set<double> row(orders.begin() + static_cast<std::ptrdiff_t>(3 * r),
                                   orders.begin() + static_cast<std::ptrdiff_t>(3 * r + 3));
        EXPECT_EQ(row, (std::set<double>{0, 2, 3}));
        first += orders[3 * r] == 3;
    }
    EXPECT_NEAR(first, 4000 * 0.6, 5 * std::sqrt(4000 * 0.6 * 0.4));
    // One seed, the same numbers.
    lz::Generator a(5), b(5);
    EXPECT_EQ(values(lz::multinomial(weights, 9, true, a)), values(lz::multinomial(weights, 9, true, b)));
    EXPECT_EQ(lz::multinomial(lz::ones({2, 5}, lz::f64), 2).sizes(), (lz::Sizes{2, 2}));
    EXPECT_EQ(weights.multinomial(9, true).sizes(), (lz::Sizes{9}));
}

TEST(LibTorchFunctions, ATensorThatIsResetIsEmptyAndItsOtherHandlesAreNot) {
    Tensor a = lz::ones({2});
    const Tensor b = a;
    a.reset();
    EXPECT_FALSE(a.defined());
    EXPECT_EQ(values(b), (Values{1, 1}));
    a.reset();
    EXPECT_FALSE(a.defined());
}

TEST(LibTorchFunctions, MultinomialChecksWeightsWhenItRuns) {
    const auto refuses = [](const Tensor &weights, int64_t samples, const char *words) {
        const Tensor drawn = lz::multinomial(weights, samples);
        const uint32_t line = __LINE__ - 1;
        const Caught error = caught<lz::StateError>([&] { (void)drawn.to_vector<int64_t>(); });
        EXPECT_TRUE(error.has(words)) << error.what;
        EXPECT_EQ(error.line, line) << error.what;
    };
    refuses(lz::tensor({1.0, -1.0}), 1, "multinomial: a weight is negative, infinite or NaN");
    refuses(lz::tensor({1.0, std::nan("")}), 1, "multinomial: a weight is negative");
    refuses(lz::tensor({1.0, HUGE_VAL}), 1, "multinomial: a weight is negative");
    refuses(lz::tensor({0.0, 0.0}), 1, "multinomial: too few weights of a row are above 0");
    refuses(lz::tensor({{1.0, 1.0}, {1.0, 0.0}}), 2, "multinomial: too few weights");
    EXPECT_TRUE(caught<lz::ShapeError>([] { lz::multinomial(lz::ones({2}), 3); }).has("3 samples of 2"));
    EXPECT_TRUE(caught<lz::ShapeError>([] { lz::multinomial(lz::ones({2, 2, 2}), 1); }).has("f32[2,2,2]"));
    EXPECT_TRUE(caught<lz::DTypeError>([] { lz::multinomial(lz::arange(3), 1); }).has("must be floats"));
}

} // namespace
