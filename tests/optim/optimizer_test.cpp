// Groups, states, counts of kernels, and what is refused.
#include "support.h"

#include "tests/support/environment.h"
#include "tests/support/files/data.h"

#include <lazuli/io.h>
#include <lazuli/io/pytorch.h>

#include <cmath>
#include <filesystem>
#include <limits>

namespace {

using namespace lz::test;
using lz::Tensor;
namespace optim = lz::optim;

Tensor parameter(const lz::Sizes &sizes) {
    return leaf(lz::randn(sizes));
}

/// A gradient for each.
void set_gradients(std::vector<Tensor> &parameters) {
    for (Tensor &p : parameters) {
        Tensor gradient = lz::randn_like(p);
        gradient.eval();
        p.mutable_grad() = gradient;
    }
}

TEST(Optimizers, ParametersWithoutAGradientStayAsTheyAre) {
    std::vector<Tensor> parameters = {parameter({3}), parameter({4})};
    optim::AdamW optimizer(parameters, optim::AdamWOptions(0.1).weight_decay(0.5));
    const std::vector<double> before = doubles(parameters[1]), other = doubles(parameters[0]);
    parameters[0].mutable_grad() = lz::ones({3});
    optimizer.step();
    EXPECT_EQ(doubles(parameters[1]), before);
    EXPECT_NE(doubles(parameters[0]), other);
    EXPECT_FALSE(optimizer.state_dict().contains("state.1.step"));
    optimizer.zero_grad();
    EXPECT_FALSE(parameters[0].grad().defined());
    parameters[0].mutable_grad() = lz::ones({3});
    optimizer.zero_grad(false);
    EXPECT_EQ(doubles(parameters[0].grad()), (std::vector<double>{0, 0, 0}));
}

TEST(Optimizers, GroupsHaveOptionsOfTheirOwn) {
    Tensor a = leaf(lz::ones({2})), b = leaf(lz::ones({2})), c = leaf(lz::ones({2}));
    std::vector<optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<Tensor>{a});
    groups.emplace_back(std::vector<Tensor>{b}, optim::SGDOptions(0.5));
    optim::SGD optimizer(groups, optim::SGDOptions(0.25));
    optimizer.add_param_group({{c}, std::make_unique<optim::SGDOptions>(1.0)});
    ASSERT_EQ(optimizer.param_groups().size(), 3u);
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.25);
    for (Tensor *x : {&a, &b, &c})
        x->mutable_grad() = lz::ones({2});
    optimizer.step();
    EXPECT_EQ(doubles(a)[0], 0.75);
    EXPECT_EQ(doubles(b)[0], 0.5);
    EXPECT_EQ(doubles(c)[0], 0);
    for (auto &group : optimizer.param_groups())
        static_cast<optim::SGDOptions &>(group.options()).lr(2);
    optimizer.step();
    EXPECT_EQ(doubles(a)[0], -1.25);
    EXPECT_EQ(doubles(c)[0], -2);
}

TEST(Optimizers, AClosureIsCalledWithGradientsOn) {
    Tensor w = leaf(lz::full({}, 3.0));
    optim::SGD optimizer({w}, 0.25);
    const lz::NoGradGuard no_grad;
    const Tensor loss = optimizer.step([&] {
        optimizer.zero_grad();
        Tensor loss = w * w;
        loss.backward();
        return loss;
    });
    EXPECT_EQ(loss.item<float>(), 9);
    EXPECT_EQ(w.item<float>(), 1.5);
    EXPECT_FALSE(optimizer.step().defined());
}

/// Of ten shapes, as of a transformer: large and small ones, of odd sizes too.
std::vector<Tensor> many(size_t count) {
    const std::vector<lz::Sizes> shapes = {{64, 64}, {64},   {128, 64}, {128},     {64, 128},
                                           {3, 64},  {7, 5}, {1},       {4, 4, 4}, {2}};
    std::vector<Tensor> parameters;
    for (size_t i = 0; i < count; ++i)
        parameters.push_back(parameter(shapes[i % shapes.size()]));
    return parameters;
}

/// On a GPU so many segments come in a table in memory; the steps are graphs all the same.
TEST(Optimizers, AStepOfFiveHundredTensorsIsOneKernelInPlaceAndAnotherRateCompilesNothing) {
    LZ_NEEDS_JIT();
    std::vector<Tensor> parameters = many(500);
    optim::AdamW optimizer(parameters, optim::AdamWOptions(1e-3));
    set_gradients(parameters);
    optimizer.step();
    lz::sync();
    const void *const address = parameters[0].data<float>();
    for (int step = 2; step < 6; ++step) {
        auto &options = static_cast<optim::AdamWOptions &>(optimizer.param_groups()[0].options());
        options.lr(1e-3 / step).weight_decay(0.01 * step).eps(1e-8 * step);
        lz::reset_compile_stats();
        optimizer.step();
        if (step == 2) {
            EXPECT_NE(lz::explain().find("became 1 kernel out of"), std::string::npos) << lz::explain();
        }
        lz::sync();
        const lz::CompileStats stats = lz::compile_stats();
        EXPECT_EQ(stats.programs_compiled, 0) << "step " << step;
        EXPECT_EQ(stats.kernels_compiled, 0) << "step " << step;
        EXPECT_EQ(stats.kernel_launches, 1) << "step " << step;
        EXPECT_EQ(parameters[0].data<float>(), address) << "the step was not in place";
    }
}

TEST(Optimizers, NoStepComputesAnythingOrReadsOnTheHost) {
    LZ_NEEDS_JIT();
    Tensor w = parameter({5});
    const Tensor x = lz::randn({5});
    const auto steps = [&](auto &&optimizer) {
        for (int step = 0; step < 2; ++step) {
            optimizer.zero_grad();
            (w * x).sum().backward();
            lz::reset_compile_stats();
            optimizer.step();
            if (step == 1) { // the first one makes the state
                EXPECT_EQ(lz::compile_stats().kernel_launches, 0);
            }
        }
        lz::sync();
    };
    steps(optim::SGD({w}, optim::SGDOptions(0.1).momentum(0.9)));
    steps(optim::Adam({w}));
    steps(optim::AdamW({w}));
    steps(optim::NAdam({w}));
    steps(optim::RMSprop({w}));
    steps(optim::Adagrad({w}));
    steps(optim::Adadelta({w}));
    steps(optim::Lion({w}));
}

// --- states

/// The file of a name that no test shares.
std::string file(const std::string &name) {
    return (std::filesystem::temp_directory_path() / ("lazuli_optim_" + name)).string();
}

TEST(Optimizers, AStateThatWasSavedGoesOnToTheSameBits) {
    std::vector<Tensor> parameters = {parameter({3, 2}), parameter({4})};
    optim::Adam optimizer(parameters, optim::AdamOptions(0.1).amsgrad(true));
    for (int step = 0; step < 3; ++step) {
        set_gradients(parameters);
        optimizer.step();
    }
    std::vector<Tensor> others;
    for (const Tensor &p : parameters)
        others.push_back(leaf(p.detach() + 0));
    optim::Adam other(others, optim::AdamOptions(0.7));
    const std::string path = file("state.safetensors");
    lz::save(optimizer, path);
    lz::load(other, path);
    std::filesystem::remove(path);
    EXPECT_TRUE(static_cast<const optim::AdamOptions &>(other.param_groups()[0].options()).amsgrad());
    EXPECT_EQ(other.param_groups()[0].options().get_lr(), 0.1);
    const lz::StateDict saved = optimizer.state_dict();
    const std::vector<double> mean = doubles(saved.at("state.0.exp_avg"));
    for (int step = 0; step < 3; ++step) {
        set_gradients(parameters);
        for (size_t i = 0; i < 2; ++i)
            others[i].mutable_grad() = parameters[i].grad();
        optimizer.step();
        other.step();
        for (size_t i = 0; i < 2; ++i)
            EXPECT_EQ(doubles(others[i]), doubles(parameters[i]));
    }
    EXPECT_EQ(doubles(saved.at("state.0.exp_avg")), mean) << "later steps show";
}

TEST(Optimizers, StatesThatPyTorchSavedLoad) {
    const auto path = [](const std::string &name) {
        return lz::test::test_data("/inputs/optimizers/") + name + ".pt";
    };
    std::vector<Tensor> parameters = {parameter({3, 4}), parameter({5})};
    optim::AdamW adamw(parameters);
    lz::load(adamw, path("adamw_amsgrad"));
    const auto &options = static_cast<const optim::AdamWOptions &>(adamw.param_groups()[0].options());
    EXPECT_EQ(options.lr(), 0.05);
    EXPECT_EQ(options.weight_decay(), 0.3);
    EXPECT_EQ(options.betas(), optim::Betas(0.5, 0.6));
    EXPECT_TRUE(options.amsgrad());
    const lz::StateDict theirs = lz::load(path("adamw_amsgrad")), ours = adamw.state_dict();
    EXPECT_EQ(ours.at("state.0.step").item<int>(), 10);
    EXPECT_EQ(ours.at("state.1.step").item<int>(), 8);
    int compared = 0;
    for (const auto &[name, value] : theirs)
        if (name.starts_with("state.")) {
            ++compared;
            EXPECT_EQ(doubles(ours.at(name)), doubles(value)) << name;
        }
    EXPECT_EQ(compared, 8);
    const auto loads = [&](auto &&optimizer, const std::string &name) {
        optimizer.load_state_dict(lz::io::load_pytorch(path(name)).state_dict());
        for (const auto &[key, value] : lz::load(path(name)))
            if (key.starts_with("state.")) {
                EXPECT_EQ(doubles(optimizer.state_dict().at(key)), doubles(value)) << key;
            }
        set_gradients(parameters);
        optimizer.step();
        EXPECT_TRUE(std::isfinite(doubles(parameters[0])[0]));
    };
    loads(optim::SGD(parameters), "sgd_momentum");
    loads(optim::NAdam(parameters), "nadam");
    loads(optim::RMSprop(parameters), "rmsprop_both");
    // Of another optimizer: all that is wrong, and nothing is loaded.
    optim::SGD sgd(parameters, 0.125);
    const Caught caught_error = caught<lz::StateError>([&] { lz::load(sgd, path("adamw_amsgrad")); });
    EXPECT_TRUE(caught_error.has("this SGD: missing: \"param_groups.0.momentum\", "
                                 "\"param_groups.0.dampening\"; unexpected: "))
        << caught_error.what;
    EXPECT_TRUE(caught_error.has("\"state.0.exp_avg\"")) << caught_error.what;
    EXPECT_TRUE(caught_error.has("nothing was loaded")) << caught_error.what;
    EXPECT_EQ(sgd.param_groups()[0].options().get_lr(), 0.125);
}

TEST(Optimizers, AStateThatDoesNotFitSaysAllThatIsWrongAndLoadsNothing) {
    std::vector<Tensor> parameters = {parameter({3, 2}), parameter({4})};
    optim::Adam optimizer(parameters, 0.5);
    set_gradients(parameters);
    optimizer.step();
    const lz::StateDict right = optimizer.state_dict();
    lz::StateDict wrong = right;
    wrong.insert_or_assign("state.0.exp_avg", lz::zeros({2, 3}));
    wrong.insert_or_assign("state.1.exp_avg_sq", lz::zeros({5}));
    wrong.insert_or_assign("param_groups.0.lr", lz::zeros({2}));
    wrong.insert("state.7.step", lz::zeros({}));
    wrong.insert("model.weight", lz::zeros({}));
    wrong.erase("state.1.exp_avg");
    wrong.erase("param_groups.0.eps");
    const uint32_t line = __LINE__ + 1;
    const Caught error = caught<lz::StateError>([&] { optimizer.load_state_dict(wrong); });
    for (const char *part :
         {"missing: \"param_groups.0.eps\", \"state.1.exp_avg\"",
          "unexpected: \"state.7.step\", \"model.weight\"",
          "\"param_groups.0.lr\" (f32[2] where one number is needed)",
          "\"state.0.exp_avg\" (f32[2, 3] where the parameter has [3, 2])",
          "\"state.1.exp_avg_sq\" (f32[5] where the parameter has [4])", "nothing was loaded"})
        EXPECT_TRUE(error.has(part)) << part << "\n" << error.what;
    EXPECT_EQ(error.line, line);
    const lz::StateDict now = optimizer.state_dict();
    for (const auto &[name, value] : right)
        EXPECT_EQ(doubles(now.at(name)), doubles(value)) << name;
    lz::StateDict fewer = right;
    fewer.insert_or_assign("param_groups.0.params", lz::tensor({0}));
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    optimizer.load_state_dict(fewer);
                }).has("(1 parameters where the optimizer has 2)"));
    lz::StateDict negative = right;
    negative.insert_or_assign("param_groups.0.lr", lz::full({}, -1.0));
    EXPECT_TRUE(caught<lz::IndexError>([&] { optimizer.load_state_dict(negative); }).has("lr is -1"));
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.5);
}

// --- what is refused

TEST(Optimizers, WhatCannotBeOptimizedIsRefused) {
    Tensor a = parameter({3}), b = parameter({4});
    const auto refused = [](auto &&f, const char *what) {
        const Caught error = caught<lz::StateError>(f);
        EXPECT_TRUE(error.has(what)) << error.what;
        EXPECT_TRUE(error.has("optimizer_test.cpp:")) << error.what;
    };
    refused([&] { optim::SGD(std::vector<Tensor>{}, 0.1); }, "SGD: there are no parameters to optimize");
    refused([&] { optim::SGD({a, b, a}, 0.1); },
            "parameter 2 of group 0 is parameter 0 of group 0 as well; each can be told once");
    refused([&] { optim::SGD({a, b * 2}, 0.1); },
            "parameter 1 of group 0 was computed from tensors that require grad");
    refused([&] { optim::SGD({Tensor(), a}, 0.1); }, "parameter 0 of group 0 is an empty tensor");
    optim::SGD optimizer({a}, 0.1);
    refused([&] { optimizer.add_param_group({{b, a}}); },
            "parameter 1 of group 1 is parameter 0 of group 0 as well");
    refused([&] { optimizer.add_param_group({{b}, optim::AdamOptions()}); },
            "the options of group 1 are those of another optimizer");
    EXPECT_EQ(optimizer.param_groups().size(), 1u);
    optimizer.add_param_group({{b}});
    EXPECT_EQ(optimizer.param_groups().size(), 2u);
}

TEST(Optimizers, NumbersOutOfPyTorchsLimitsAreRefused) {
    Tensor a = parameter({3});
    const auto refused = [](auto &&f, const char *what) {
        const Caught error = caught<lz::IndexError>(f);
        EXPECT_TRUE(error.has(what)) << error.what;
    };
    using namespace optim;
    refused([&] { SGD({a}, -0.5); }, "SGD: lr is -0.5; it must be at least 0");
    refused([&] { SGD({a}, std::numeric_limits<double>::quiet_NaN()); }, "lr is nan");
    refused([&] { SGD({a}, SGDOptions(0.1).momentum(-1)); }, "momentum is -1");
    refused([&] { SGD({a}, SGDOptions(0.1).nesterov(true)); }, "nesterov needs momentum");
    refused([&] { SGD({a}, SGDOptions(0.1).nesterov(true).momentum(0.9).dampening(0.1)); }, "no dampening");
    refused([&] { Adam({a}, AdamOptions().betas({1, 0.9})); }, "Adam: betas[0] is 1; it must be in [0, 1)");
    refused([&] { AdamW({a}, AdamWOptions().betas({0.9, -0.1})); }, "betas[1] is -0.1");
    refused([&] { AdamW({a}, AdamWOptions().eps(-1)); }, "eps is -1");
    refused([&] { NAdam({a}, NAdamOptions().momentum_decay(-1)); }, "momentum_decay is -1");
    refused([&] { RMSprop({a}, RMSpropOptions().alpha(-1)); }, "alpha is -1");
    refused([&] { Adagrad({a}, AdagradOptions().lr_decay(-1)); }, "lr_decay is -1");
    refused([&] { Adadelta({a}, AdadeltaOptions().rho(1.5)); }, "rho is 1.5; it must be in [0, 1]");
    refused([&] { Lion({a}, LionOptions().weight_decay(-1)); }, "weight_decay is -1");
    // Also one that is set later, before anything changes.
    Adam optimizer({a}, 0.1);
    a.mutable_grad() = lz::ones({3});
    const std::vector<double> before = doubles(a);
    optimizer.param_groups()[0].options().set_lr(-1);
    refused([&] { optimizer.step(); }, "lr is -1");
    EXPECT_EQ(doubles(a), before);
}

TEST(Optimizers, AGradientThatIsNotAsItsParameterIsRefusedBeforeAnythingChanges) {
    Tensor a = parameter({3}), b = leaf(lz::randn({4}).to(lz::bf16));
    optim::Adam optimizer({a, b}, 0.1);
    a.mutable_grad() = lz::ones({3});
    const std::vector<double> before = doubles(a);
    b.mutable_grad() = lz::ones({4});
    EXPECT_TRUE(caught<lz::DTypeError>([&] {
                    optimizer.step();
                }).has("the gradient of parameter 1 of group 0 is f32[4]"));
    b.mutable_grad() = lz::ones({1}, {.dtype = lz::bf16});
    EXPECT_TRUE(caught<lz::ShapeError>([&] { optimizer.step(); }).has("bf16[1]"));
    b.mutable_grad() = lz::ones({4}, {.dtype = lz::bf16, .device = "cuda:1"});
    EXPECT_TRUE(caught<lz::DeviceError>([&] { optimizer.step(); }).has("on cuda:1"));
    EXPECT_EQ(doubles(a), before);
    EXPECT_EQ(optimizer.state_dict().keys().front(), "param_groups.0.lr");
}

TEST(Optimizers, AModuleThatMovedAfterAStepIsRefusedOnce) {
    lz::nn::Linear net(3, 1);
    optim::Adam optimizer(net->parameters(), 0.1);
    net(lz::ones({2, 3})).sum().backward();
    optimizer.step();
    optimizer.zero_grad();
    net->to("cuda:0");
    net(lz::ones({2, 3}, {.device = "cuda:0"})).sum().backward();
    const Caught error = caught<lz::DeviceError>([&] { optimizer.step(); });
    EXPECT_TRUE(error.has("parameter 0 of group 0") && error.has("remembered") && error.has("on cuda:0"))
        << error.what;
    lz::sync(); // and nothing else
}

TEST(Optimizers, ParametersMayBeOnSeveralDevices) {
    const std::vector<double> values = {1, -2, 3}, gradient = {0.5, 0.25, -1};
    std::vector<std::vector<double>> results;
    std::vector<Tensor> parameters;
    for (const lz::Device &device : {lz::Device::cpu(), lz::Device::cuda(0), lz::Device::cuda(1)})
        parameters.push_back(leaf(lz::tensor<double>(values, {.device = device}).to(lz::f32)));
    optim::AdamW optimizer(parameters, 0.1);
    for (int step = 0; step < 4; ++step) {
        for (Tensor &p : parameters)
            p.mutable_grad() = lz::tensor<double>(gradient, {.device = p.device()}).to(lz::f32);
        optimizer.step();
    }
    EXPECT_EQ(parameters[2].device(), lz::Device::cuda(1));
    EXPECT_EQ(doubles(parameters[1]), doubles(parameters[0])); // to the bit, S29
    EXPECT_EQ(doubles(parameters[2]), doubles(parameters[0]));
    // A state goes where its parameter is.
    const lz::StateDict state = optimizer.state_dict();
    EXPECT_EQ(state.at("state.2.exp_avg").device(), lz::Device::cuda(1));
    std::vector<Tensor> on_cpu;
    for (const Tensor &p : parameters)
        on_cpu.push_back(leaf(p.detach().cpu() + 0));
    optim::AdamW other(on_cpu, 0.5);
    other.load_state_dict(state);
    EXPECT_EQ(other.state_dict().at("state.2.exp_avg").device(), lz::Device::cpu());
}

TEST(Optimizers, OptionsThatACompiledStepChangesAreChangedAtEachCall) {
    const Tensor x = lz::ones({1, 4});
    const auto bits = [&](auto change, bool compiled, const std::string &where = "") {
        lz::manual_seed(1);
        std::vector<Tensor> parameters = {parameter({4, 3})};
        optim::SGD optimizer(parameters, 0.5);
        const auto step = [&](double lr) {
            optimizer.zero_grad();
            lz::matmul(x, parameters[0]).square().sum().backward();
            change(optimizer, lr, false);
            optimizer.step();
            change(optimizer, lr, true);
        };
        const auto replayed = lz::compile(step);
        for (int i = 0; i < 14; ++i)
            compiled ? replayed(0.01 + 0.001 * i) : step(0.01 + 0.001 * i);
        if (compiled) {
            EXPECT_EQ(replayed.stats().replays, 0);
            EXPECT_TRUE(replayed.stats().why.starts_with(
                "it changes an optimizer's options, which can be done outside" + where))
                << replayed.stats().why;
        }
        return doubles(parameters[0]);
    };
    const auto by_base = [](optim::Optimizer &o, double lr, bool after) {
        if (!after)
            o.param_groups()[0].options().set_lr(lr);
    };
    const auto as_libtorch = [](optim::Optimizer &o, double, bool after) {
        auto &options = static_cast<optim::SGDOptions &>(o.param_groups()[0].options());
        if (after)
            options.lr(options.lr() * 0.75);
    };
    const auto by_other_options = [](optim::Optimizer &o, double lr, bool after) {
        if (!after)
            o.param_groups()[0].set_options(std::make_unique<optim::SGDOptions>(lr));
    };
    EXPECT_EQ(bits(by_base, true, ", at optimizer_test.cpp:"), bits(by_base, false));
    EXPECT_EQ(bits(as_libtorch, true, ", at optimizer_test.cpp:"), bits(as_libtorch, false));
    EXPECT_EQ(bits(by_other_options, true), bits(by_other_options, false));
    // To look at them is no change.
    std::vector<Tensor> parameters = {parameter({2})};
    optim::SGD other(parameters, 0.5);
    const auto looks = lz::compile([&](const Tensor &in) {
        other.zero_grad();
        (in * parameters[0]).sum().backward();
        other.step();
        return in * other.param_groups()[0].options().get_lr();
    });
    for (int i = 0; i < 6; ++i)
        looks(lz::ones({2}));
    EXPECT_GT(looks.stats().replays, 0) << looks.stats().why;
}

TEST(Optimizers, CompiledStepsSeeGroupsThatAreAddedAndParametersThatNobodyUses) {
    std::vector<Tensor> used = {parameter({3})}, unused = {parameter({2})}, later = {parameter({3})};
    optim::SGD optimizer(std::vector{used[0], unused[0]}, 0.1);
    const auto step = lz::compile([&](const Tensor &x) {
        optimizer.zero_grad();
        (x * used[0] * later[0]).square().sum().backward();
        optimizer.step();
    });
    for (int i = 0; i < 6; ++i)
        step(lz::ones({3}));
    EXPECT_GT(step.stats().replays, 2) << step.stats().why;
    const std::vector<double> before = doubles(later[0]);
    optimizer.add_param_group({later});
    for (int i = 0; i < 6; ++i)
        step(lz::ones({3}));
    EXPECT_NE(doubles(later[0]), before);
    EXPECT_GT(step.stats().replays, 4) << step.stats().why;
}

} // namespace
