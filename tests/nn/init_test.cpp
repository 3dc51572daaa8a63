// New values of parameters: bounds, moments and structure from their definitions.
#include "support.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace {

using namespace lz::test;
using lz::Tensor;
namespace init = lz::nn::init;

/// A parameter, as a layer has it.
Tensor parameter(const lz::Sizes &sizes, lz::DType dtype = lz::f32) {
    return lz::empty(sizes, {.dtype = dtype, .requires_grad = true});
}

/// Of so many numbers the mean is off by 5 deviations of it at most, and the deviation by 3 %.
void expect_moments(const Tensor &t, double mean, double std) {
    const Tensor v = t.detach().to(lz::f64);
    const auto n = static_cast<double>(v.numel());
    EXPECT_NEAR(v.mean().item<double>(), mean, 5 * std / std::sqrt(n));
    EXPECT_NEAR(v.std().item<double>(), std, 0.03 * std);
}

void expect_within(const Tensor &t, double low, double high) {
    EXPECT_GE(t.min().item<double>(), low);
    EXPECT_LE(t.max().item<double>(), high);
}

TEST(Init, ReturnsTheParameterWhichStaysALeaf) {
    const Tensor weight = parameter({3, 4});
    const Tensor same = init::uniform_(weight, 2, 3);
    EXPECT_TRUE(same.same_tensor(weight));
    EXPECT_TRUE(weight.is_leaf() && weight.requires_grad());
    expect_within(weight, 2, 3);
    EXPECT_TRUE(lz::GradMode::is_enabled());
    EXPECT_EQ(floats(init::ones_(weight)), std::vector<float>(12, 1));
    EXPECT_EQ(floats(init::zeros_(weight)), std::vector<float>(12, 0));
    EXPECT_EQ(floats(init::constant_(weight, 2.5)), std::vector<float>(12, 2.5));
}

TEST(Init, FansAreInAndOutTimesWhatLiesBehind) {
    const auto [in, out] = init::_calculate_fan_in_and_fan_out(parameter({6, 4, 3, 5}));
    EXPECT_EQ(in, 60);
    EXPECT_EQ(out, 90);
    EXPECT_EQ(init::_calculate_fan_in_and_fan_out(parameter({7, 2})), (std::tuple<int64_t, int64_t>(2, 7)));
    const Caught error =
        caught<lz::ShapeError>([] { (void)init::_calculate_fan_in_and_fan_out(parameter({7})); });
    EXPECT_TRUE(error.has("_calculate_fan_in_and_fan_out: the tensor has 1 axes; it takes 2 or more"))
        << error.what;
    EXPECT_EQ(error.line, static_cast<uint32_t>(__LINE__ - 3));
}

TEST(Init, GainsAreThoseOfPyTorch) {
    EXPECT_EQ(init::calculate_gain("linear"), 1);
    EXPECT_EQ(init::calculate_gain("conv_transpose2d"), 1);
    EXPECT_EQ(init::calculate_gain("sigmoid"), 1);
    EXPECT_DOUBLE_EQ(init::calculate_gain("tanh"), 1.6666666666666667);
    EXPECT_DOUBLE_EQ(init::calculate_gain("relu"), 1.4142135623730951);
    EXPECT_DOUBLE_EQ(init::calculate_gain("leaky_relu"), 1.4141428569978354);
    EXPECT_DOUBLE_EQ(init::calculate_gain("leaky_relu", 0.2), 1.3867504905630728);
    EXPECT_EQ(init::calculate_gain("selu"), 0.75);
    EXPECT_TRUE(caught<lz::StateError>([] { init::calculate_gain("swish"); }).has("\"swish\" is unknown"));
}

TEST(Init, RandomOnesHaveTheirBoundsAndMoments) {
    lz::manual_seed(3);
    const Tensor weight = parameter({40, 20, 5, 5}); // fans 500 and 1000
    expect_moments(init::normal_(weight, 2, 0.5), 2, 0.5);
    const auto expect_uniform = [&](double bound) {
        expect_within(weight, -bound, bound);
        EXPECT_GT(weight.max().item<double>(), 0.99 * bound);
        expect_moments(weight, 0, bound / std::numbers::sqrt3);
    };
    init::uniform_(weight, -3, 3);
    expect_uniform(3);
    init::xavier_uniform_(weight, 2);
    expect_uniform(2 * std::sqrt(6.0 / 1500));
    expect_moments(init::xavier_normal_(weight), 0, std::sqrt(2.0 / 1500));
    init::kaiming_uniform_(weight, std::sqrt(5.0));
    expect_uniform(1 / std::sqrt(500.0));
    init::kaiming_uniform_(weight, 0, "fan_out", "relu");
    expect_uniform(std::sqrt(6.0 / 1000));
    expect_moments(init::kaiming_normal_(weight, 0, "fan_in", "tanh"), 0, 5.0 / 3 / std::sqrt(500.0));
    EXPECT_EQ(init::kaiming_normal_(parameter({0, 4})).numel(), 0);
}

TEST(Init, TruncatedNormalsAreWithinTheirBoundsAndNormalThere) {
    lz::manual_seed(4);
    for (const lz::DType dtype : {lz::f32, lz::f64}) {
        const Tensor weight = init::trunc_normal_(parameter({200, 250}, dtype), 1, 2, 0, 4);
        expect_within(weight, 0, 4);
        // The shares of parts of (0, 4): differences of the distribution function.
        const auto below = [](double x) { return std::erfc(-(x - 1) / 2 / std::numbers::sqrt2) / 2; };
        std::vector<double> sorted = weight.detach().to(lz::f64).to_vector<double>();
        std::ranges::sort(sorted);
        for (const double x : {0.25, 1.0, 2.0, 3.5}) {
            const double share =
                static_cast<double>(std::ranges::lower_bound(sorted, x) - sorted.begin()) / 50000;
            EXPECT_NEAR(share, (below(x) - below(0)) / (below(4) - below(0)), 5 * 0.5 / std::sqrt(50000.0));
        }
    }
    // Without bounds that matter it is the normal one, and never infinite.
    expect_moments(init::trunc_normal_(parameter({300, 300}), 0, 1, -100, 100), 0, 1);
    expect_within(init::trunc_normal_(parameter({50}, lz::bf16), 0, 1, -0.5, 0.5), -0.5, 0.5);
    EXPECT_TRUE(caught<lz::StateError>([] {
                    init::trunc_normal_(parameter({2}), 0, 1, 2, 1);
                }).has("bounds are 2 and 1"));
}

TEST(Init, EyeAndDiracLeaveTheirInputAsItIs) {
    EXPECT_EQ(floats(init::eye_(parameter({2, 3}))), (std::vector<float>{1, 0, 0, 0, 1, 0}));
    // torch.nn.init.dirac_(torch.empty(4, 3, 3), 2): ones at [0, 0, 1], [1, 1, 1], [2, 0, 1], [3, 1, 1].
    std::vector<float> expected(36, 0);
    for (const size_t at : {1u, 13u, 19u, 31u})
        expected[at] = 1;
    EXPECT_EQ(floats(init::dirac_(parameter({4, 3, 3}), 2)), expected);
    const Tensor image = init::dirac_(parameter({2, 3, 3, 2}));
    EXPECT_EQ(image.sum().item<float>(), 2);
    EXPECT_EQ(image.at({1, 1, 1, 1}).item<float>(), 1);
    EXPECT_TRUE(
        caught<lz::ShapeError>([] { init::dirac_(parameter({2, 3})); }).has("2 axes; it takes 3 to 5"));
    EXPECT_TRUE(caught<lz::ShapeError>([] { init::dirac_(parameter({3, 3, 1}), 2); }).has("2 groups"));
    EXPECT_TRUE(
        caught<lz::ShapeError>([] { init::eye_(parameter({3})); }).has("eye_: the tensor has 1 axes"));
}

TEST(Init, OrthogonalOnesAreRotationsOfEveryDirection) {
    lz::manual_seed(5);
    for (const lz::Sizes &sizes : {lz::Sizes{6, 6}, lz::Sizes{9, 4}, lz::Sizes{4, 3, 3}, lz::Sizes{5, 1}}) {
        const Tensor q = init::orthogonal_(parameter(sizes, lz::f64), 2).detach().flatten(1);
        const bool tall = q.size(0) >= q.size(1);
        const Tensor product = tall ? lz::matmul(q.t(), q) : lz::matmul(q, q.t());
        EXPECT_TRUE(product.allclose(4 * lz::eye(product.size(0), {.dtype = lz::f64}), 1e-12, 1e-12)) << q;
    }
    // R = Q^T A has a diagonal above 0 for the A that was drawn, and is triangular.
    lz::manual_seed(6);
    const Tensor q = init::orthogonal_(parameter({7, 5}, lz::f64)).detach();
    lz::manual_seed(6);
    const Tensor a = lz::randn({7, 5}, {.dtype = lz::f64});
    const Tensor r = lz::matmul(q.t(), a);
    EXPECT_GT(r.diagonal().min().item<double>(), 0);
    EXPECT_LT(r.tril(-1).abs().max().item<double>(), 1e-13);
    EXPECT_EQ(init::orthogonal_(parameter({0, 3})).numel(), 0);
    EXPECT_TRUE(caught<lz::ShapeError>([] { init::orthogonal_(parameter({3})); }).has("it takes 2 or more"));
    // The same on a GPU, where it stays.
    lz::manual_seed(6);
    const Tensor there = init::orthogonal_(lz::empty({7, 5}, {.dtype = lz::f64, .device = "cuda:1"}));
    EXPECT_EQ(there.device(), lz::Device::cuda(1));
    EXPECT_EQ(there.cpu().to_vector<double>(), q.to_vector<double>());
}

TEST(Init, SparseOnesHaveAsManyZerosInEachColumn) {
    lz::manual_seed(7);
    const Tensor weight = init::sparse_(parameter({50, 40}), 0.25, 0.1);
    const std::vector<int64_t> zeros = (weight == 0).sum({0}).to_vector<int64_t>();
    EXPECT_EQ(zeros, std::vector<int64_t>(40, 13)); // ceil(12.5)
    EXPECT_NEAR(weight.std().item<double>(), 0.1 * std::sqrt(0.74), 0.006);
    EXPECT_TRUE(caught<lz::StateError>([] { init::sparse_(parameter({2, 2}), 1.5); }).has("out of [0, 1]"));
}

TEST(Init, RefusesWhatHasNoFanAndUnknownNames) {
    const Tensor row = parameter({3});
    const uint32_t line = __LINE__ + 1;
    const Caught error = caught<lz::ShapeError>([&] { init::xavier_normal_(row); });
    EXPECT_TRUE(error.has("xavier_normal_: the tensor has 1 axes; it takes 2 or more")) << error.what;
    EXPECT_EQ(error.line, line);
    EXPECT_TRUE(caught<lz::StateError>([] {
                    init::kaiming_uniform_(parameter({3, 3}), 0, "fan_avg");
                }).has("the mode \"fan_avg\" is unknown"));
    EXPECT_TRUE(caught<lz::StateError>([] { init::ones_(Tensor()); }).has("fill_"));
}

} // namespace
