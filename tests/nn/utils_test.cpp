// Clipping of gradients, by closed forms, without a wait of the host.
#include "support.h"

#include <cmath>
#include <limits>

namespace {

using namespace lz::test;
using lz::Tensor;
namespace utils = lz::nn::utils;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Parameters whose gradients these are.
std::vector<Tensor> with_gradients(std::initializer_list<Tensor> gradients) {
    std::vector<Tensor> out;
    for (const Tensor &gradient : gradients) {
        Tensor parameter = lz::zeros_like(gradient).requires_grad_();
        parameter.mutable_grad() = gradient.clone();
        out.push_back(parameter);
    }
    return out;
}

TEST(ClipGradNorm, ScalesAllGradientsToOneLength) {
    struct Case {
        double norm_type, norm;
    };
    // Of 3, -4, 12.
    for (const auto &[p, expected] :
         {Case{2, 13}, Case{1, 19}, Case{kInfinity, 12}, Case{3, std::cbrt(1819)}}) {
        std::vector<Tensor> parameters = with_gradients({lz::tensor({{3.0, -4.0}}), lz::tensor(12.0)});
        parameters.push_back(lz::ones({2}, {.requires_grad = true})); // without a gradient
        const Tensor norm = utils::clip_grad_norm_(parameters, 6.5, p);
        EXPECT_NEAR(norm.item<double>(), expected, 1e-5 * expected);
        const double factor = 6.5 / (expected + 1e-6);
        EXPECT_NEAR(parameters[0].grad().at({0, 1}).item<double>(), -4 * factor, 1e-5);
        EXPECT_NEAR(parameters[1].grad().item<double>(), 12 * factor, 1e-5);
        EXPECT_FALSE(parameters[2].grad().defined());
        // Below the bound nothing changes.
        const std::vector<float> before = floats(parameters[0].grad());
        utils::clip_grad_norm_(parameters, 100, p);
        EXPECT_EQ(floats(parameters[0].grad()), before);
    }
}

/// PyTorch 2.15: the 0-norm of the gradients' 0-norms.
TEST(ClipGradNorm, OfOrderZeroCountsTheGradientsThatAreNotZero) {
    std::vector<Tensor> parameters =
        with_gradients({lz::tensor({{3.0, -4.0}, {0.0, 1.0}}), lz::zeros({5}), lz::tensor(12.0)});
    EXPECT_EQ(utils::clip_grad_norm_(parameters, 1, 0).item<double>(), 2);
    EXPECT_NEAR(parameters[0].grad().at({0, 1}).item<double>(), -4 / (2 + 1e-6), 1e-6);
    EXPECT_NEAR(parameters[2].grad().item<double>(), 12 / (2 + 1e-6), 1e-6);
}

TEST(ClipGradNorm, IsRecordedAndWaitsForNothing) {
    const Tensor x = lz::ones({4}, {.requires_grad = true});
    x.eval();
    lz::sync();
    const lz::CompileStats before = lz::compile_stats();
    (x * 3).sum().backward();
    utils::clip_grad_norm_(x, 1);
    utils::clip_grad_value_(x, 10);
    EXPECT_EQ(lz::compile_stats().kernel_launches, before.kernel_launches);
    // The gradient, its norm and the scaled one are one program.
    EXPECT_NEAR(x.grad().sum().item<double>(), 2, 1e-5);
    Tensor bad = lz::ones({2}, {.requires_grad = true});
    bad.mutable_grad() = lz::tensor({1.0, kInfinity}, {.dtype = lz::f32});
    EXPECT_TRUE(std::isinf(utils::clip_grad_norm_(bad, 1).item<double>()));
}

TEST(ClipGradNorm, IsAFewKernelsForManyParameters) {
    std::vector<Tensor> parameters;
    for (int64_t i = 0; i < 40; ++i) {
        Tensor parameter = lz::ones({3 + i % 5, 4}, {.requires_grad = true});
        parameter.mutable_grad() = lz::full_like(parameter, 2.0).eval();
        parameters.push_back(parameter);
    }
    // And one that is too large to be copied for it.
    Tensor large = lz::ones({100000}, {.requires_grad = true});
    large.mutable_grad() = lz::full_like(large, 0.5).eval();
    parameters.push_back(large);
    lz::sync();
    const lz::CompileStats before = lz::compile_stats();
    const Tensor norm = utils::clip_grad_norm_(parameters, 1);
    lz::sync();
    // Joined, both reduced, their norms joined and reduced, and all multiplied.
    EXPECT_LE(lz::compile_stats().kernel_launches - before.kernel_launches, 8);
    const double expected = std::sqrt(4.0 * 4 * 8 * (3 + 4 + 5 + 6 + 7) + 0.25 * 100000);
    EXPECT_NEAR(norm.item<double>(), expected, 1e-3);
    EXPECT_NEAR(large.grad().at({7}).item<double>(), 0.5 / expected, 1e-7);
}

TEST(ClipGradNorm, SpansDevicesAndHalfTypes) {
    std::vector<Tensor> parameters =
        with_gradients({lz::tensor({300.0}, {.dtype = lz::f16, .device = "cuda:1"}),
                        lz::tensor({400.0}, {.dtype = lz::f32})});
    const Tensor norm = utils::clip_grad_norm_(parameters, 5);
    EXPECT_EQ(norm.device(), lz::Device::cuda(1));
    EXPECT_NEAR(norm.item<double>(), 500, 1e-3); // the square of 300 is more than f16 has
    EXPECT_EQ(parameters[0].grad().dtype(), lz::f16);
    EXPECT_NEAR(parameters[0].grad().item<double>(), 3, 2e-3);
    EXPECT_NEAR(parameters[1].grad().item<double>(), 4, 1e-5);
}

TEST(ClipGradNorm, RefusesAnInfiniteNormWhereItIsToldTo) {
    const std::vector<Tensor> parameters =
        with_gradients({lz::tensor({1.0, std::numeric_limits<double>::quiet_NaN()}), lz::tensor({2.0})});
    const uint32_t line = __LINE__ + 1;
    const Caught error = caught<lz::StateError>([&] { utils::clip_grad_norm_(parameters, 1, 2, true); });
    EXPECT_TRUE(error.has("the norm of the gradients is nan")) << error.what;
    EXPECT_EQ(error.line, line);
    EXPECT_EQ(floats(parameters[1].grad()), (std::vector<float>{2}));
    EXPECT_TRUE(
        caught<lz::StateError>([&] { utils::clip_grad_norm_(parameters, -1); }).has("max_norm is -1"));
    EXPECT_EQ(utils::clip_grad_norm_(std::vector<Tensor>(), 1).item<double>(), 0);
}

TEST(ClipGradValue, CutsEachNumber) {
    const std::vector<Tensor> parameters =
        with_gradients({lz::tensor({-3.0, 0.25, 7.0}), lz::tensor({-0.5})});
    utils::clip_grad_value_(parameters, 0.5);
    EXPECT_EQ(floats(parameters[0].grad()), (std::vector<float>{-0.5, 0.25, 0.5}));
    EXPECT_EQ(floats(parameters[1].grad()), (std::vector<float>{-0.5}));
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    utils::clip_grad_value_(parameters, std::nan(""));
                }).has("clip_value is nan"));
}

} // namespace
