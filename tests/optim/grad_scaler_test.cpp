// GradScaler: the scale after each step by PyTorch's rule, what a skipped step leaves alone, and that nothing
// waits.
#include "tests/support/caught.h"

#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

namespace {

using namespace lz::test;
using lz::GradScaler;
using lz::Tensor;
namespace optim = lz::optim;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<float> floats(const Tensor &t) {
    return t.cpu().to(lz::f32).to_vector<float>();
}

Tensor parameter(const lz::TensorOptions &options = {}) {
    return lz::tensor({1.0, -2.0, 3.0}, options).requires_grad_();
}

/// A loss whose gradient is `factor` times 1, 2, 3.
Tensor loss_of(const Tensor &x, double factor) {
    return (x * lz::tensor({1.0, 2.0, 3.0}, {.device = x.device()}) * factor).sum();
}

TEST(GradScaler, GivesTheStepOfTheLossItself) {
    const Tensor x = parameter(), y = parameter();
    optim::AdamW scaled({x}, optim::AdamWOptions(0.1)), plain({y}, optim::AdamWOptions(0.1));
    GradScaler scaler;
    for (int step = 0; step < 3; ++step) {
        scaled.zero_grad();
        plain.zero_grad();
        const Tensor loss = scaler.scale(loss_of(x, 0.5));
        EXPECT_EQ(loss.item<float>(), 65536 * loss_of(x, 0.5).item<float>());
        loss.backward();
        loss_of(y, 0.5).backward();
        scaler.step(scaled);
        plain.step();
        EXPECT_FALSE(scaler.found_inf(scaled).item<bool>());
        scaler.update();
        EXPECT_EQ(floats(x.grad()), floats(y.grad())); // a power of 2 takes no bit
        EXPECT_EQ(floats(x), floats(y));
    }
    EXPECT_EQ(scaler.get_scale().item<float>(), 65536);
}

TEST(GradScaler, SkipsWhatIsInfiniteWithoutLookingAtIt) {
    for (const lz::Device device : {lz::Device::cpu(), lz::Device::cuda(1)}) {
        const Tensor x = parameter({.device = device}), other = parameter({.device = device});
        optim::Adam adam({x, other}, optim::AdamOptions(0.1).amsgrad(true));
        GradScaler scaler({.init_scale = 4, .growth_interval = 2});
        const auto step = [&](double factor) {
            adam.zero_grad();
            (scaler.scale(loss_of(x, factor)) + loss_of(other, 1)).backward();
            scaler.step(adam);
            scaler.update();
        };
        step(1);
        const std::vector<float> before = floats(x), before_other = floats(other);
        const lz::StateDict state = adam.state_dict();
        lz::sync();
        const int64_t launches = lz::compile_stats().kernel_launches;
        step(kInfinity);
        EXPECT_EQ(lz::compile_stats().kernel_launches, launches);
        EXPECT_EQ(floats(x), before);
        EXPECT_EQ(floats(other), before_other); // all of the optimizer's
        for (const char *name : {"state.0.exp_avg", "state.0.exp_avg_sq", "state.1.max_exp_avg_sq"})
            EXPECT_EQ(floats(adam.state_dict().at(name)), floats(state.at(name))) << name;
        EXPECT_EQ(scaler.get_scale().item<float>(), 2);
        EXPECT_EQ(scaler.get_scale().device(), device);
        step(std::nan(""));
        EXPECT_EQ(floats(x), before);
        // Two steps without a skip let the scale grow, one does not.
        const std::vector<std::pair<double, float>> rows = {{1, 1},         {1, 2}, {1, 2},
                                                            {kInfinity, 1}, {1, 1}, {1, 2}};
        for (const auto &[factor, expected] : rows) {
            step(factor);
            EXPECT_EQ(scaler.get_scale().item<float>(), expected);
        }
        EXPECT_NE(floats(x), before);
    }
}

TEST(GradScaler, TheFirstStepMayBeSkippedAndSeveralOptimizersShareAScale) {
    const Tensor x = parameter(), y = parameter({.device = "cuda:1"});
    optim::SGD of_x({x}, optim::SGDOptions(0.5).momentum(0.9)), of_y({y}, optim::SGDOptions(0.5));
    GradScaler scaler({.init_scale = 8});
    (scaler.scale(loss_of(x, kInfinity)) + scaler.scale(loss_of(y, 1)).cpu()).backward();
    scaler.step(of_x);
    scaler.step(of_y);
    scaler.update();
    EXPECT_EQ(floats(x), (std::vector<float>{1, -2, 3}));
    EXPECT_EQ(floats(y), (std::vector<float>{0.5, -3, 1.5})); // which had no part in it
    EXPECT_EQ(scaler.get_scale().item<float>(), 4);
    of_x.zero_grad();
    scaler.scale(loss_of(x, 1)).backward();
    scaler.step(of_x);
    EXPECT_EQ(floats(x), (std::vector<float>{0.5, -3, 1.5}));
}

TEST(GradScaler, UnscalesBeforeClipping) {
    const Tensor x = parameter();
    optim::SGD sgd({x}, optim::SGDOptions(1));
    GradScaler scaler;
    scaler.scale(loss_of(x, 10)).backward();
    scaler.unscale_(sgd);
    const double length = 10 * std::sqrt(14.0);
    EXPECT_NEAR(lz::nn::utils::clip_grad_norm_(x, 1).item<double>(), length, 1e-4);
    scaler.step(sgd);
    EXPECT_NEAR(floats(x)[2], 3 - 30 / length, 1e-5);
}

TEST(GradScaler, IsAFewKernelsForManyParametersAndCompilesOnce) {
    std::vector<Tensor> parameters;
    for (int64_t i = 0; i < 40; ++i)
        parameters.push_back(lz::full({3 + i % 5, 4}, 1.0).eval().detach().requires_grad_());
    Tensor large = lz::full({100000}, 1.0).eval().detach().requires_grad_();
    parameters.push_back(large);
    optim::AdamW adam(parameters, optim::AdamWOptions(0.1));
    GradScaler scaler;
    for (int step = 0; step < 4; ++step) {
        for (Tensor &parameter : parameters)
            parameter.mutable_grad() = lz::full_like(parameter, 65536.0).eval();
        if (step == 2)
            large.mutable_grad() = lz::full_like(large, kInfinity).eval();
        const Tensor loss = scaler.scale(lz::ones({}));
        const std::vector<float> values = floats(parameters[3]);
        lz::sync();
        const lz::CompileStats before = lz::compile_stats();
        scaler.step(adam);
        scaler.update();
        lz::sync();
        if (step > 0) { // the first one makes the state
            EXPECT_LE(lz::compile_stats().kernel_launches - before.kernel_launches, 10);
        }
        if (step > 1) {
            EXPECT_EQ(lz::compile_stats().kernels_compiled, before.kernels_compiled);
        }
        EXPECT_EQ(floats(parameters[3]) == values, step == 2);
    }
}

/// The rules that read the number of their step.
std::vector<std::unique_ptr<optim::Optimizer>> counting(const std::vector<Tensor> &parameters) {
    std::vector<std::unique_ptr<optim::Optimizer>> all;
    all.push_back(std::make_unique<optim::Adam>(parameters, optim::AdamOptions(0.1).amsgrad(true)));
    all.push_back(std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(0.1).betas({0.5, 0.6})));
    all.push_back(std::make_unique<optim::NAdam>(parameters, optim::NAdamOptions(0.1).weight_decay(0.1)));
    all.push_back(std::make_unique<optim::Adagrad>(parameters, optim::AdagradOptions(0.1).lr_decay(0.5)));
    return all;
}

TEST(GradScaler, SkippedStepsDoNotCount) {
    const std::vector<double> factors = {1, kInfinity, 0.5, std::nan(""), kInfinity, 2, 1};
    for (const lz::Device device : {lz::Device::cpu(), lz::Device::cuda(1)})
        for (size_t which = 0; which < counting({parameter()}).size(); ++which) {
            // Two parameters, of which one is not there at first; and the same without the skipped steps.
            const Tensor x = parameter({.device = device}), late = parameter({.device = device});
            const Tensor y = parameter({.device = device}), late_y = parameter({.device = device});
            const auto scaled = std::move(counting({x, late})[which]);
            const auto plain = std::move(counting({y, late_y})[which]);
            GradScaler scaler({.init_scale = 4, .growth_interval = 100});
            for (size_t step = 0; step < factors.size(); ++step) {
                const double factor = factors[step];
                scaled->zero_grad();
                Tensor loss = scaler.scale(loss_of(x, factor));
                if (step > 1)
                    loss = loss + scaler.scale(loss_of(late, 3));
                loss.backward();
                scaler.step(*scaled);
                scaler.update();
            }
            for (size_t step = 0; step < factors.size(); ++step) {
                if (!std::isfinite(factors[step]))
                    continue;
                plain->zero_grad();
                Tensor loss = loss_of(y, factors[step]);
                if (step > 1)
                    loss = loss + loss_of(late_y, 3);
                loss.backward();
                plain->step();
            }
            EXPECT_EQ(floats(x), floats(y)) << which;
            EXPECT_EQ(floats(late), floats(late_y)) << which;
            const lz::StateDict state = scaled->state_dict(), expected = plain->state_dict();
            EXPECT_EQ(state.keys(), expected.keys());
            EXPECT_EQ(state.at("state.0.step").item<double>(), 4);
            EXPECT_EQ(state.at("state.1.step").item<double>(), 3);
            if (state.contains("state.0.mu_product")) {
                EXPECT_DOUBLE_EQ(state.at("state.0.mu_product").item<double>(),
                                 expected.at("state.0.mu_product").item<double>());
            }
            // What was loaded counts on, and a step without a scaler, too.
            scaled->load_state_dict(state);
            for (const auto &[optimizer, from] : {std::pair(scaled.get(), x), std::pair(plain.get(), y)}) {
                optimizer->zero_grad();
                loss_of(from, 1).backward();
                optimizer->step();
            }
            EXPECT_EQ(floats(x), floats(y)) << which;
        }
}

TEST(GradScaler, StepsThatAreReplayedSkipAndCountAsTheFunctionDoes) {
    const std::vector<double> factors = {1, 1, kInfinity, 1, 1, 0.5, std::nan(""), 1, 2, kInfinity, 1, 1};
    for (size_t which = 0; which < counting({parameter()}).size(); ++which) {
        std::vector<std::vector<float>> found[2];
        for (const bool compiled : {false, true}) {
            // Numbers of f32 and of bf16 parameters are not the same ones.
            const Tensor x = parameter(), half = parameter({.dtype = lz::bf16});
            const auto optimizer = std::move(counting({x, half})[which]);
            GradScaler scaler({.init_scale = 4, .growth_interval = 3});
            const auto once = [&](const Tensor &factor) {
                optimizer->zero_grad();
                const Tensor loss = (x * x * factor).sum() + (half * factor.to(lz::bf16)).sum().to(lz::f32);
                scaler.scale(loss).backward();
                scaler.step(*optimizer);
                scaler.update();
                return loss.detach();
            };
            const auto step = lz::compile(once);
            for (size_t i = 0; i < factors.size(); ++i) {
                if (i == 8)
                    optimizer->param_groups()[0].options().set_lr(0.02);
                const Tensor factor = lz::tensor(factors[i], {.dtype = lz::f32});
                (void)(compiled ? step(factor) : once(factor));
                found[compiled].push_back(floats(x));
                found[compiled].push_back(floats(half));
                found[compiled].push_back(floats(scaler.get_scale()));
            }
            const lz::StateDict state = optimizer->state_dict();
            EXPECT_EQ(state.at("state.0.step").item<double>(), 9);
            for (const auto &[name, value] : state)
                found[compiled].push_back(floats(value));
            EXPECT_GE(step.stats().replays, compiled ? 8 : 0) << which << step.explain();
        }
        EXPECT_EQ(found[0], found[1]) << which;
    }
}

TEST(GradScaler, ParametersThatSitOutAStepKeepTheirCounts) {
    // Both are skipped together, then one has no gradient while the other is skipped.
    const std::vector<std::pair<double, bool>> steps = {{kInfinity, true}, {1, true}, {kInfinity, false},
                                                        {1, false},        {1, true}, {kInfinity, true},
                                                        {2, true}};
    for (size_t which = 0; which < counting({parameter()}).size(); ++which) {
        const Tensor x = parameter(), late = parameter(), y = parameter(), late_y = parameter();
        const auto scaled = std::move(counting({x, late})[which]);
        const auto plain = std::move(counting({y, late_y})[which]);
        GradScaler scaler({.init_scale = 1});
        for (const auto &[factor, both] : steps) {
            scaled->zero_grad();
            plain->zero_grad();
            scaler.scale(both ? loss_of(x, factor) + loss_of(late, factor) : loss_of(x, factor)).backward();
            scaler.step(*scaled);
            scaler.update(1.0);
            if (std::isfinite(factor)) {
                (both ? loss_of(y, factor) + loss_of(late_y, factor) : loss_of(y, factor)).backward();
                plain->step();
            }
        }
        EXPECT_EQ(floats(x), floats(y)) << which;
        EXPECT_EQ(floats(late), floats(late_y)) << which;
        EXPECT_EQ(scaled->state_dict().at("state.0.step").item<double>(), 4);
        EXPECT_EQ(scaled->state_dict().at("state.1.step").item<double>(), 3);
    }
}

TEST(GradScaler, SavesAndLoadsUnderPyTorchsNames) {
    const Tensor x = parameter();
    optim::SGD sgd({x}, optim::SGDOptions(0.1));
    GradScaler scaler({.init_scale = 32, .growth_interval = 3});
    scaler.scale(loss_of(x, 1)).backward();
    scaler.step(sgd);
    scaler.update();
    const lz::StateDict state = scaler.state_dict();
    EXPECT_EQ(state.keys(), (std::vector<std::string>{"scale", "growth_factor", "backoff_factor",
                                                      "growth_interval", "_growth_tracker"}));
    EXPECT_EQ(state.at("_growth_tracker").item<int>(), 1);
    EXPECT_EQ(state.at("_growth_tracker").dtype(), lz::i32);
    GradScaler other;
    other.load_state_dict(state);
    EXPECT_EQ(other.get_scale().item<float>(), 32);
    EXPECT_EQ(other.state_dict().at("growth_interval").item<int>(), 3);
    lz::StateDict lacking = state;
    lacking.erase("scale");
    EXPECT_TRUE(caught<lz::StateError>([&] { other.load_state_dict(lacking); }).has("\"scale\""));
    EXPECT_EQ(other.get_scale().item<float>(), 32);
}

TEST(GradScaler, DoesNothingWhereItIsNotEnabled) {
    const Tensor x = parameter();
    optim::SGD sgd({x}, optim::SGDOptions(0.5));
    GradScaler scaler({.enabled = false});
    const Tensor loss = loss_of(x, 1);
    EXPECT_TRUE(scaler.scale(loss).same_tensor(loss));
    loss.backward();
    scaler.unscale_(sgd);
    scaler.step(sgd);
    scaler.update();
    EXPECT_EQ(floats(x), (std::vector<float>{0.5, -3, 1.5}));
    EXPECT_TRUE(scaler.state_dict().empty());
}

TEST(GradScaler, RefusesCallsOutOfOrder) {
    const Tensor x = parameter();
    optim::SGD sgd({x}, optim::SGDOptions(0.5));
    GradScaler scaler;
    const auto refuses = [](const char *words, auto &&call) {
        const Caught error = caught<lz::StateError>(call);
        EXPECT_TRUE(error.has(words)) << error.what;
    };
    refuses("update is called without a step", [&] { scaler.update(); });
    refuses("no loss was scaled", [&] { scaler.step(sgd); });
    const Tensor loss = scaler.scale(loss_of(x, 1));
    refuses("have no gradients", [&] { scaler.step(sgd); });
    loss.backward();
    scaler.unscale_(sgd);
    const uint32_t line = __LINE__ + 1;
    const Caught twice = caught<lz::StateError>([&] { scaler.unscale_(sgd); });
    EXPECT_TRUE(twice.has("unscale_ was called for this optimizer")) << twice.what;
    EXPECT_EQ(twice.line, line);
    scaler.step(sgd);
    refuses("step was called", [&] { scaler.step(sgd); });
    refuses("it comes before", [&] { scaler.unscale_(sgd); });
    refuses("growth_factor is 1", [] { GradScaler({.growth_factor = 1}); });
    refuses("backoff_factor is 1", [] { GradScaler({.backoff_factor = 1}); });
    refuses("the new scale is 0", [&] { scaler.update(0.0); });
    EXPECT_TRUE(
        caught<lz::DTypeError>([&] { scaler.scale(lz::tensor(1.0, {.dtype = lz::f16})); }).has("f16"));
    refuses("the flag is f32", [&] { sgd.step_unless(lz::tensor(1.0)); });
    scaler.update(16.0);
    EXPECT_EQ(scaler.get_scale().item<float>(), 16);
}

TEST(GradScaler, TrainsInF16FromAScaleThatIsFarTooLarge) {
    lz::manual_seed(10);
    const Tensor x = lz::randn({64, 8}), y = (x.sum(1) > 0).to(lz::i64);
    lz::nn::Sequential net(lz::nn::Linear(8, 16), lz::nn::Tanh(), lz::nn::Linear(16, 2));
    optim::AdamW adam(net->parameters(), optim::AdamWOptions(0.02));
    GradScaler scaler({.init_scale = 0x1p40});
    Tensor loss;
    for (int step = 0; step < 100; ++step) {
        adam.zero_grad();
        {
            const lz::AutocastGuard half(lz::f16);
            loss = lz::cross_entropy(net(x), y);
        }
        scaler.scale(loss).backward();
        scaler.step(adam);
        scaler.update();
        lz::sync();
    }
    EXPECT_LT(scaler.get_scale().item<float>(), 0x1p30);
    EXPECT_LT(loss.item<float>(), 0.1f);
}

} // namespace
