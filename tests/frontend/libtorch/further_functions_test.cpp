// What functions by LibTorch's names refuse, change in place and draw. Their values are beside PyTorch's in
// pytorch_functions_test.cpp.
#include "tests/support/caught.h"
#include "tests/support/tensor_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace torch = lz; // NOLINT

#define TORCH_CHECK LAZULI_CHECK

namespace {

using namespace lz::test;
using torch::Tensor;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(LibTorchFunctions, RefuseWhatDoesNotFit) {
    const Tensor x = torch::arange(6, torch::kFloat).view({2, 3}), row = torch::tensor({1, 2, 3});
    const auto refused = [](auto error, const std::function<void()> &call, const char *words, uint32_t line) {
        const Caught found = caught<decltype(error)>(call);
        EXPECT_TRUE(found.has(words)) << found.what;
        EXPECT_NEAR(found.line, line, 2) << found.what; // a call of two lines
    };
    const torch::ShapeError shape("", {});
    const torch::DTypeError dtype("", {});
    const torch::IndexError index("", {});
    const torch::StateError state("", {});
    refused(
        index, [&] { torch::unique(x, true, false, false, 2); }, "unique: axis 2 is out of range", __LINE__);
    refused(shape, [] { torch::unique_dim(torch::zeros({2, 0}), 0); }, "have no elements", __LINE__);
    refused(dtype, [&] { torch::bincount(x); }, "bincount: takes integers, not f32[2,3]", __LINE__);
    refused(shape, [&] { torch::bincount(row.view({1, 3})); }, "is no row", __LINE__);
    refused(index, [] { torch::bincount(torch::tensor({1, -2})); }, "the number -2 is negative", __LINE__);
    refused(shape, [&] { torch::bincount(row, x); }, "the weights are f32[2,3]", __LINE__);
    refused(shape, [&] { torch::bincount(row, {}, -1); }, "-1 is no number of counts", __LINE__);
    refused(dtype, [&] { torch::histc(row); }, "histc: takes floats", __LINE__);
    refused(index, [&] { torch::histc(x, 3, 2, 1); }, "not in order", __LINE__);
    refused(shape, [&] { torch::histc(x, 0); }, "0 is no number of parts", __LINE__);
    refused(dtype, [&] { torch::searchsorted(row, x); }, "must have the same dtype", __LINE__);
    refused(shape, [&] { torch::searchsorted(x, torch::ones({3, 1})); }, "but for the last axis", __LINE__);
    refused(state, [&] { torch::searchsorted(row, 2, false, false, "up"); }, "the side is \"up\"", __LINE__);
    refused(
        state, [&] { torch::searchsorted(row, 2, false, true, "left"); }, "one of them is enough", __LINE__);
    refused(shape, [&] { torch::bucketize(x, x); }, "bucketize: the boundaries are f32[2,3]", __LINE__);
    refused(dtype, [&] { torch::cdist(x, x.to(torch::kDouble)); }, "cdist: the points are", __LINE__);
    refused(shape, [&] { torch::cdist(x, torch::ones({2, 2})); }, "equally many columns", __LINE__);
    refused(index, [&] { torch::cdist(x, x, -1); }, "p = -1", __LINE__);
    refused(shape, [&] { torch::pad(x, {3, 0}, torch::kReflect); }, "mirrored it is at most 2", __LINE__);
    refused(shape, [&] { torch::pad(x, {0, 4}, torch::kCircular); }, "it is at most 3", __LINE__);
    refused(shape, [&] { torch::pad(x, {1}, torch::kCircular); }, "are not pairs", __LINE__);
    refused(
        shape, [&] { torch::baddbmm(x, torch::ones({2, 1, 2}), torch::ones({2, 2, 2})); },
        "baddbmm: shape [2,3] does not broadcast", __LINE__ - 1);
    refused(
        dtype, [&] { torch::addmv(row.narrow(0, 0, 1), row.view({1, 3}), row, 0.5); }, "beta is 0.5",
        __LINE__);
    refused(shape, [&] { torch::tensordot(x, x, {0}, {1}); }, "axis 0 of the left has 2 elements", __LINE__);
    refused(index, [&] { torch::tensordot(x, x, {0, 0}, {0, 1}); }, "stands twice", __LINE__);
    refused(dtype, [&] { torch::quantile(row, 0.5); }, "quantile: takes f32 or f64", __LINE__);
    refused(index, [&] { torch::quantile(x, 1.5); }, "q is 1.5", __LINE__);
    refused(state, [&] { torch::quantile(x, 0.5, 0, false, "cubic"); }, "\"cubic\"", __LINE__);
    refused(shape, [] { torch::nanquantile(torch::zeros(0), 0.5); }, "nanquantile: f32[0] has no", __LINE__);
    refused(index, [&] { torch::cummax(x, 2); }, "cummax: axis 2 is out of range", __LINE__);
    refused(
        shape, [&] { x.index_copy(0, torch::tensor({0}), x); }, "index_copy: the source has shape", __LINE__);
    refused(dtype, [&] { x.index_fill(0, x, 1); }, "index_fill: the index must be i64 or i32", __LINE__);
    Tensor y = x.clone(), z = row.clone();
    refused(shape, [&] { z.fill_diagonal_(1); }, "has no diagonal", __LINE__);
    refused(index, [&] { y.exponential_(0); }, "exponential_: the rate is 0", __LINE__);
    refused(dtype, [&] { z.exponential_(); }, "exponential_: gives floats", __LINE__);
    refused(index, [&] { z.random_(3, 3); }, "there are no integers to draw", __LINE__);
    refused(
        dtype, [] { (void)torch::zeros(2, torch::kByte).random_(300); }, "do not all fit dtype u8", __LINE__);
    refused(index, [] { torch::normal(0, -1, {2}); }, "normal: the deviation -1", __LINE__);
    refused(shape, [] { torch::normal(torch::ones(2), torch::ones(3)); }, "do not broadcast", __LINE__);
    const Tensor paths = torch::zeros({4, 1, 3}), target = torch::tensor({{1, 2}});
    refused(index, [&] { torch::ctc_loss(paths, target, {4}, {2}, 3); }, "the blank is 3", __LINE__);
    refused(
        shape, [&] { torch::ctc_loss(paths, target, {4, 4}, {2}); }, "the lengths of the inputs", __LINE__);
    expect_values(z, {1, 2, 3});
}

TEST(LibTorchFunctions, SayWhatIsWrongWhenTheyRun) {
    const auto late = [](const char *words, const std::function<Tensor()> &call, uint32_t line) {
        const Tensor made = call();
        const Caught found = caught<lz::StateError>([&] { (void)values(made); });
        EXPECT_TRUE(found.has(words)) << found.what;
        EXPECT_NEAR(found.line, line, 2) << found.what;
    };
    const Tensor x = torch::tensor({1.0, 2.0});
    late(
        "quantile: a number of q is out of [0, 1]",
        [&] { return torch::quantile(x, torch::tensor({0.5, 1.5})); }, __LINE__);
    late("normal: a deviation is negative", [&] { return torch::normal(x, -x); }, __LINE__);
    late(
        "histc: the extremes of the elements are not finite",
        [&] { return torch::histc(torch::tensor({1.0, kNan})); }, __LINE__);
    late(
        "ctc_loss: an input is longer than there are steps",
        [&] { return torch::ctc_loss(torch::zeros({4, 1, 3}), torch::tensor({{1, 2}}), {5}, {2}); },
        __LINE__);
    const Tensor copied = x.index_copy(0, torch::tensor({2}), torch::tensor({1.0}));
    EXPECT_THROW(values(copied), lz::IndexError);
}

TEST(LibTorchFunctions, ChangeInPlace) {
    Tensor x = torch::arange(6, torch::kFloat).view({2, 3});
    const Tensor same = x, a = torch::ones({2, 2}), b = torch::ones({2, 3});
    x.addmm_(a, b, 2, 0.5);
    expect_values(same, {1, 3, 5, 7, 9, 11});
    x.addr_(torch::tensor({1.0, 2.0}), torch::ones(3));
    expect_values(same, {2, 4, 6, 9, 11, 13});
    x.index_fill_(1, torch::tensor({-1}), 0).index_copy_(0, torch::tensor({1}), b.narrow(0, 0, 1));
    expect_values(same, {2, 4, 0, 1, 1, 1});
    x.fill_diagonal_(7);
    expect_values(same, {7, 4, 0, 1, 7, 1});
    x.erfc_();
    EXPECT_EQ(same.max().item<float>(), 1);
    Tensor v = torch::zeros(2), batches = torch::zeros({2, 1, 1}), sum = torch::zeros({1, 1});
    expect_values(v.addmv_(a, torch::ones(2)), {2, 2});
    expect_values(batches.baddbmm_(torch::ones({2, 1, 3}), torch::ones({2, 3, 1})), {3, 3});
    expect_values(sum.addbmm_(torch::ones({2, 1, 3}), torch::ones({2, 3, 1})), {6});
    Tensor w = torch::zeros({2, 2}).requires_grad_();
    w.data().fill_diagonal_(3).index_fill_(0, torch::tensor({1}), 4);
    expect_values(w, {3, 0, 4, 4});
    const Caught leaf = caught<lz::StateError>([&] { w.index_fill_(0, torch::tensor({0}), 1); });
    EXPECT_EQ(leaf.line, __LINE__ - 1U) << leaf.what;
    const Caught error = caught<lz::ShapeError>([&] { x.addmm_(a, torch::ones({2, 2})); });
    EXPECT_TRUE(error.has("addmm_: ") && error.line == __LINE__ - 1) << error.what;
}

TEST(LibTorchFunctions, DrawNumbersInPlace) {
    torch::manual_seed(11);
    Tensor x = torch::empty(20000);
    x.exponential_(2);
    const Values drawn = values(x);
    double sum = 0, least = 1;
    size_t above = 0;
    for (const double v : drawn) {
        sum += v;
        least = std::min(least, v);
        above += v > 1;
    }
    // The mean is 1/2 with a deviation of 1/2 / sqrt(20000); above 1 are exp(-2) of them. Five deviations.
    EXPECT_NEAR(sum / 20000, 0.5, 0.018);
    EXPECT_NEAR(static_cast<double>(above) / 20000, std::exp(-2), 0.013);
    EXPECT_GT(least, 0);
    Tensor bytes = torch::empty(4000, torch::kByte), small = torch::empty(4000, torch::kHalf);
    const Values all = values(bytes.random_());
    EXPECT_EQ(*std::ranges::max_element(all), 255);
    EXPECT_EQ(*std::ranges::min_element(all), 0);
    const Values some = values(small.random_(-3, 4));
    EXPECT_EQ(*std::ranges::max_element(some), 3);
    EXPECT_EQ(*std::ranges::min_element(some), -3);
    const Values few = values(torch::empty(4000, torch::kLong).random_(5));
    EXPECT_EQ(*std::ranges::max_element(few), 4);
    Tensor wide = torch::empty(1000, torch::kLong);
    const Tensor large = wide.random_() > (int64_t{1} << 62);
    EXPECT_NEAR(large.sum().item<double>(), 500, 80);
    EXPECT_EQ((wide < 0).sum().item<int64_t>(), 0);
    wide.random_(INT64_MAX - 1, std::nullopt);
    EXPECT_EQ((wide < INT64_MAX - 1).sum().item<int64_t>(), 0);
    EXPECT_GT((wide == INT64_MAX).sum().item<int64_t>(), 300);
    Tensor flags = torch::empty(1000, torch::kBool);
    EXPECT_NEAR(flags.random_().sum().item<double>(), 500, 80);
    torch::Generator generator(5), again(5);
    Tensor first = torch::empty(8), second = torch::empty(8);
    first.exponential_(1, generator);
    second.exponential_(1, again);
    EXPECT_TRUE(torch::equal(first, second));
}

TEST(LibTorchFunctions, NormalNumbersHaveTheirMeansAndDeviations) {
    torch::manual_seed(3);
    const Tensor mean = torch::tensor({{0.0}, {10.0}}).expand({2, 10000}).clone(),
                 std = torch::full({10000}, 2.0);
    const auto expect = [](const Tensor &x, double m, double s) {
        // A deviation of the mean of s / 100, of the deviation of s / 140: five of them.
        EXPECT_NEAR(x.mean().item<double>(), m, s * 0.05);
        EXPECT_NEAR(x.std().item<double>(), s, s * 0.036);
    };
    const Tensor both = torch::normal(mean, std);
    EXPECT_EQ(both.sizes(), torch::Sizes({2, 10000}));
    expect(both.select(0, 0), 0, 2);
    expect(both.select(0, 1), 10, 2);
    expect(torch::normal(mean.select(0, 1), 3), 10, 3);
    expect(torch::normal(-1, std), -1, 2);
    const Tensor numbers = torch::normal(5, 0.5, {10000}, torch::kDouble);
    EXPECT_EQ(numbers.dtype(), torch::kDouble);
    expect(numbers, 5, 0.5);
    EXPECT_EQ(torch::normal(mean.to(torch::kHalf), 1).dtype(), torch::kHalf);
    torch::manual_seed(9);
    const Tensor x = torch::randn({4});
    torch::manual_seed(9);
    expect_values(torch::normal(0, 1, {4}), values(x));
}

TEST(LibTorchFunctions, ChecksOfAProgramSayItsWords) {
    const int n = 3;
    TORCH_CHECK(n == 3);
    TORCH_CHECK(n == 3, "n is ", n);
    const Caught words =
        caught<torch::Error>([&] { TORCH_CHECK(n > 3, "n is ", n, ", of ", torch::Sizes({2})); });
    EXPECT_TRUE(words.has("n is 3, of [2], at ") && words.line == __LINE__ - 1) << words.what;
    const Caught none = caught<torch::Error>([&] { TORCH_CHECK(n > 3); });
    EXPECT_TRUE(none.has("the program's check `n > 3` does not hold") && none.line == __LINE__ - 1)
        << none.what;
    if (n == 3)
        TORCH_CHECK(true, "one statement");
    else
        FAIL();
}

TEST(LibTorchFunctions, OfLongRowsAreThoseOfPlainLoops) {
    // Longer than a block of a running extreme squared, and than the halvings of one byte.
    constexpr int64_t kCount = 5000;
    torch::manual_seed(7);
    const Tensor x = torch::randint(-1000, 1000, {kCount});
    const std::vector<int64_t> v = x.to_vector<int64_t>();
    std::vector<int64_t> most, where;
    for (int64_t i = 0; i < kCount; ++i) {
        const int64_t now = v[static_cast<size_t>(i)];
        const bool takes = i == 0 || now >= most.back();
        most.push_back(takes ? now : most.back());
        where.push_back(takes ? i : where.back());
    }
    const auto [values, indices] = x.cummax(0);
    EXPECT_EQ(values.to_vector<int64_t>(), most);
    EXPECT_EQ(indices.to_vector<int64_t>(), where);

    const auto [distinct, inverse, counts] = torch::unique(x, true, true, true);
    std::vector<int64_t> sorted = v;
    std::ranges::sort(sorted);
    std::vector<int64_t> once = sorted, places, found;
    once.erase(std::ranges::unique(once).begin(), once.end());
    EXPECT_EQ(distinct.to_vector<int64_t>(), once);
    EXPECT_TRUE(torch::equal(torch::index_select(distinct, 0, inverse), x));
    EXPECT_EQ(counts.sum().item<int64_t>(), kCount);
    for (const int64_t value : once)
        found.push_back(std::ranges::count(v, value));
    EXPECT_EQ(counts.to_vector<int64_t>(), found);

    const Tensor row = std::get<0>(x.sort(0)), wanted = torch::randint(-1100, 1100, {300});
    for (const int64_t value : wanted.to_vector<int64_t>())
        places.push_back(std::ranges::lower_bound(sorted, value) - sorted.begin());
    EXPECT_EQ(torch::searchsorted(row, wanted).to_vector<int64_t>(), places);
    const Tensor bins = torch::bincount(x + 1000);
    EXPECT_EQ(bins.sum().item<int64_t>(), kCount);
    EXPECT_EQ(bins.at({v[0] + 1000}).item<int64_t>(), std::ranges::count(v, v[0]));
}

TEST(LibTorchFunctions, AreAsFewKernelsAsTheirFormulasNeed) {
    const auto kernels = [](const Tensor &x) {
        const std::string text = torch::explain(x);
        const size_t at = text.find("became ");
        return at == std::string::npos ? -1 : std::stoi(text.substr(at + 7));
    };
    torch::manual_seed(2);
    const Tensor x = torch::randn({4096}).eval(), row = std::get<0>(torch::randn({1000}).sort(0)).eval();
    const Tensor points = torch::randn({40, 8}).eval(), image = torch::randn({32, 32}).eval();
    EXPECT_EQ(kernels(torch::searchsorted(row, x)), 1);
    EXPECT_EQ(kernels(torch::erfc(x)), 1);
    EXPECT_EQ(kernels(torch::lgamma(x)), 1);
    EXPECT_EQ(kernels(torch::digamma(x)), 1);
    EXPECT_EQ(kernels(torch::cdist(points, points, 1)), 1);
    EXPECT_EQ(kernels(torch::pad(image, {2, 2, 1, 1}, torch::kReflect)), 1);
    EXPECT_EQ(kernels(torch::kron(points, image)), 1);
    EXPECT_EQ(kernels(torch::empty({4096}).exponential_()), 1);
    EXPECT_EQ(kernels(torch::normal(x, 2)), 1);
}

} // namespace
