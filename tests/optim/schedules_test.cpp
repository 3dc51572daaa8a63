// Learning rates beside those of PyTorch, which a script stored (inputs/make_pytorch_optim.py).
#include "support.h"

#include "tests/support/environment.h"
#include "tests/support/files/data.h"

#include <lazuli/io.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

namespace {

using namespace lz::test;
using namespace lz::optim;
using lz::Tensor;

/// Two groups with learning rates 0.1 and 0.05, and momentum.
std::unique_ptr<SGD> two_groups() {
    const Tensor a = leaf(lz::zeros({2})), b = leaf(lz::zeros({2}));
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<Tensor>{a});
    groups.emplace_back(std::vector<Tensor>{b}, SGDOptions(0.05).momentum(0.9));
    return std::make_unique<SGD>(groups, SGDOptions(0.1).momentum(0.9));
}

/// Takes a metric, which all but ReduceLROnPlateau leave alone; and saves and loads.
struct Schedule {
    std::function<void(double)> step;
    std::function<lz::StateDict()> save;
    std::function<void(const lz::StateDict &)> load;
};

template <class S, class... A>
Schedule made(Optimizer &optimizer, A &&...arguments) {
    const auto schedule = std::make_shared<S>(optimizer, std::forward<A>(arguments)...);
    return {[schedule](double metric) {
                if constexpr (std::is_same_v<S, ReduceLROnPlateau>)
                    schedule->step(metric);
                else
                    schedule->step();
            },
            [schedule] { return schedule->state_dict(); },
            [schedule](const lz::StateDict &state) { schedule->load_state_dict(state); }};
}

Schedule chained(Optimizer &o) {
    const auto schedule = std::make_shared<ChainedScheduler>(std::vector<std::shared_ptr<LRScheduler>>{
        std::make_shared<ConstantLR>(o, 0.1, 4), std::make_shared<ExponentialLR>(o, 0.9)});
    return {[schedule](double) { schedule->step(); }, [schedule] { return schedule->state_dict(); },
            [schedule](const lz::StateDict &state) { schedule->load_state_dict(state); }};
}

/// The schedules of the script, by its names.
const std::map<std::string, std::function<Schedule(Optimizer &)>> &makers() {
    using Parts = std::vector<std::shared_ptr<LRScheduler>>;
    static const auto &all = *new std::map<std::string, std::function<Schedule(Optimizer &)>>{
        {"lambda",
         [](Optimizer &o) {
             return made<LambdaLR>(o,
                                   std::vector<LambdaLR::Function>{
                                       [](int64_t epoch) { return std::pow(0.9, epoch); },
                                       [](int64_t epoch) { return 1.0 / static_cast<double>(1 + epoch); }});
         }},
        {"step", [](Optimizer &o) { return made<StepLR>(o, 4, 0.3); }},
        {"multi_step",
         [](Optimizer &o) { return made<MultiStepLR>(o, std::vector<int64_t>{12, 3, 5, 5}, 0.5); }},
        {"constant", [](Optimizer &o) { return made<ConstantLR>(o, 0.25, 6); }},
        {"linear", [](Optimizer &o) { return made<LinearLR>(o, 0.1, 0.8, 7); }},
        {"exponential", [](Optimizer &o) { return made<ExponentialLR>(o, 0.85); }},
        {"cosine", [](Optimizer &o) { return made<CosineAnnealingLR>(o, 8, 0.01); }},
        {"warm_restarts", [](Optimizer &o) { return made<CosineAnnealingWarmRestarts>(o, 3, 2, 0.002); }},
        {"one_cycle",
         [](Optimizer &o) {
             return made<OneCycleLR>(o, OneCycleOptions{.max_lr = {0.5, 1.0}, .total_steps = 25});
         }},
        {"one_cycle_three",
         [](Optimizer &o) {
             return made<OneCycleLR>(o, OneCycleOptions{.max_lr = {0.5},
                                                        .total_steps = 24,
                                                        .pct_start = 0.4,
                                                        .linear = true,
                                                        .base_momentum = 0.7,
                                                        .max_momentum = 0.8,
                                                        .div_factor = 10,
                                                        .final_div_factor = 100,
                                                        .three_phase = true});
         }},
        {"warm_up",
         [](Optimizer &o) {
             return made<SequentialLR>(o,
                                       Parts{std::make_shared<LinearLR>(o, 0.01, 1.0, 5),
                                             std::make_shared<CosineAnnealingLR>(o, 15)},
                                       std::vector<int64_t>{5});
         }},
        {"sequential",
         [](Optimizer &o) {
             return made<SequentialLR>(
                 o,
                 Parts{std::make_shared<ConstantLR>(o, 0.5, 3), std::make_shared<ExponentialLR>(o, 0.9),
                       std::make_shared<CosineAnnealingWarmRestarts>(o, 4), std::make_shared<StepLR>(o, 2)},
                 std::vector<int64_t>{4, 9, 18});
         }},
        {"chained", chained},
        {"plateau",
         [](Optimizer &o) {
             return made<ReduceLROnPlateau>(
                 o, PlateauOptions{.factor = 0.5, .patience = 2, .cooldown = 1, .min_lr = {0.01, 0.02}});
         }},
        {"plateau_max",
         [](Optimizer &o) {
             return made<ReduceLROnPlateau>(
                 o, PlateauOptions{.maximize = true, .patience = 1, .threshold = 0.05, .absolute = true});
         }},
    };
    return all;
}

struct Case {
    std::vector<double> metrics;
    std::vector<double> lr[2], momentum[2];
};

std::map<std::string, Case> stored() {
    std::ifstream file(lz::test::test_data("/inputs/pytorch_lr.txt"));
    std::map<std::string, Case> out;
    Case *now = nullptr;
    for (std::string text; std::getline(file, text);) {
        std::istringstream line(text);
        std::string kind, name;
        size_t group = 0;
        line >> kind;
        if (kind == "case") {
            line >> name;
            now = &out[name];
            continue;
        }
        if (kind != "metrics")
            line >> group;
        std::vector<double> &to = kind == "metrics" ? now->metrics
                                  : kind == "lr"    ? now->lr[group]
                                                    : now->momentum[group];
        for (std::string word; line >> word;)
            to.push_back(std::stod(word));
    }
    return out;
}

const SGDOptions &options_of(Optimizer &optimizer, size_t group) {
    return static_cast<const SGDOptions &>(optimizer.param_groups()[group].options());
}

void expect_rates(Optimizer &optimizer, const Case &expected, size_t step) {
    for (size_t g = 0; g < 2; ++g) {
        const double lr = expected.lr[g].at(step), momentum = expected.momentum[g].at(step);
        // Relative to the first rate where cosines cancel.
        EXPECT_NEAR(options_of(optimizer, g).lr(), lr, 1e-12 * std::max(lr, 1e-3 * expected.lr[g][0]))
            << "group " << g << ", step " << step;
        EXPECT_NEAR(options_of(optimizer, g).momentum(), momentum, 1e-12)
            << "group " << g << ", step " << step;
    }
}

TEST(Schedules, RatesAreThoseOfPyTorch) {
    const std::map<std::string, Case> all = stored();
    ASSERT_EQ(all.size(), makers().size());
    ASSERT_GE(all.size(), 15u);
    for (const auto &[name, expected] : all) {
        SCOPED_TRACE(name);
        const auto optimizer = two_groups();
        const Schedule schedule = makers().at(name)(*optimizer);
        ASSERT_EQ(expected.lr[0].size(), 25u);
        expect_rates(*optimizer, expected, 0);
        for (size_t step = 1; step < 25; ++step) {
            schedule.step(expected.metrics[step - 1]);
            expect_rates(*optimizer, expected, step);
        }
    }
}

TEST(Schedules, GoOnFromTheirStates) {
    const std::map<std::string, Case> all = stored();
    for (const auto &[name, expected] : all) {
        SCOPED_TRACE(name);
        const auto optimizer = two_groups(), other = two_groups();
        const Schedule schedule = makers().at(name)(*optimizer), resumed = makers().at(name)(*other);
        for (size_t step = 1; step < 11; ++step)
            schedule.step(expected.metrics[step - 1]);
        resumed.load(schedule.save());
        other->load_state_dict(optimizer->state_dict());
        for (size_t step = 11; step < 25; ++step) {
            resumed.step(expected.metrics[step - 1]);
            expect_rates(*other, expected, step);
        }
        lz::StateDict wrong = schedule.save();
        wrong.insert("other", lz::zeros({}));
        EXPECT_TRUE(caught<lz::StateError>([&] { resumed.load(wrong); }).has("unexpected: \"other\""));
    }
}

TEST(Schedules, StatesThatPyTorchSavedLoad) {
    const std::map<std::string, Case> all = stored();
    for (const std::string name : {"warm_up", "one_cycle", "plateau", "chained"}) {
        SCOPED_TRACE(name);
        const auto optimizer = two_groups(), other = two_groups();
        const Schedule schedule = makers().at(name)(*optimizer), loaded = makers().at(name)(*other);
        for (size_t step = 0; step < 24; ++step)
            schedule.step(all.at(name).metrics[step]);
        loaded.load(lz::load(lz::test::test_data("/inputs/optimizers/schedule_") + name + ".pt"));
        const lz::StateDict expected = schedule.save(), found = loaded.save();
        for (const auto &[key, value] : expected) {
            const std::vector<double> a = doubles(found.at(key)), b = doubles(value);
            ASSERT_EQ(a.size(), b.size()) << key;
            for (size_t i = 0; i < a.size(); ++i)
                EXPECT_NEAR(a[i], b[i], 1e-12) << key;
        }
    }
}

TEST(Schedules, AScheduleGoesOnWhereTheOptimizerKnowsItsFirstRates) {
    const auto optimizer = two_groups();
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    StepLR(*optimizer, 2, 0.5, 3);
                }).has("group 0 has no initial learning rate to go on from at epoch 3"));
    StepLR first(*optimizer, 2, 0.5);
    for (int i = 0; i < 3; ++i)
        first.step();
    EXPECT_EQ(first.last_epoch(), 3);
    const auto other = two_groups();
    other->load_state_dict(optimizer->state_dict());
    StepLR second(*other, 2, 0.5, 3);
    EXPECT_EQ(second.last_epoch(), 4);
    EXPECT_EQ(second.get_last_lr(), (std::vector<double>{0.025, 0.0125}));
}

TEST(Schedules, ASchedulesRatesCompileNothing) {
    LZ_NEEDS_JIT();
    Tensor w = leaf(lz::randn({7}));
    AdamW optimizer({w}, 0.1);
    const std::vector<double> rates(optimizer.param_groups().size(), 0.5);
    OneCycleLR(optimizer, {.max_lr = rates, .total_steps = 10});
    OneCycleLR schedule(optimizer, {.max_lr = 0.5, .total_steps = 10});
    for (int step = 0; step < 10; ++step, schedule.step()) {
        if (step == 2)
            lz::reset_compile_stats();
        optimizer.zero_grad();
        (w * w).sum().backward();
        optimizer.step();
        lz::sync();
    }
    EXPECT_EQ(lz::compile_stats().programs_compiled, 0);
    EXPECT_EQ(lz::compile_stats().kernels_compiled, 0);
    EXPECT_GT(lz::compile_stats().programs_reused, 0);
}

TEST(Schedules, WhatMakesNoSenseIsRefused) {
    const auto optimizer = two_groups(), other = two_groups();
    Optimizer &o = *optimizer;
    const auto out_of_range = [](auto &&f, const char *what) {
        const Caught error = caught<lz::IndexError>(f);
        EXPECT_TRUE(error.has(what)) << error.what;
        EXPECT_TRUE(error.has("schedules_test.cpp:")) << error.what;
    };
    const auto refused = [](auto &&f, const char *what) {
        const Caught error = caught<lz::StateError>(f);
        EXPECT_TRUE(error.has(what)) << error.what;
        EXPECT_TRUE(error.has("schedules_test.cpp:")) << error.what;
    };
    out_of_range([&] { StepLR(o, 0); }, "StepLR: step_size is 0; it must be at least 1");
    out_of_range([&] { ConstantLR(o, 1.5); }, "factor is 1.5");
    out_of_range([&] { LinearLR(o, 0); }, "start_factor is 0; it must be in (0, 1]");
    out_of_range([&] { LinearLR(o, 0.5, 2); }, "end_factor is 2");
    out_of_range([&] { CosineAnnealingLR(o, 0); }, "T_max is 0");
    out_of_range([&] { CosineAnnealingWarmRestarts(o, 0); }, "T_0 is 0");
    out_of_range([&] { CosineAnnealingWarmRestarts(o, 2, 0); }, "T_mult is 0");
    out_of_range([&] { OneCycleLR(o, {.max_lr = {1}}); }, "total_steps is 0");
    out_of_range([&] { OneCycleLR(o, {.max_lr = {1}, .total_steps = 3, .pct_start = 2}); }, "pct_start is 2");
    out_of_range([&] { ReduceLROnPlateau(o, {.factor = 1}); }, "factor is 1; it must be below 1");
    refused([&] { ReduceLROnPlateau(o, {.min_lr = {0, 0, 0}}); }, "min_lr has 3 rates");
    refused([&] { OneCycleLR(o, {.max_lr = {1, 2, 3}, .total_steps = 3}); }, "max_lr has 3 rates");
    refused([&] { LambdaLR(o, LambdaLR::Function()); }, "a function is empty");
    refused([&] { LambdaLR(o, std::vector<LambdaLR::Function>(3)); }, "3 functions for 2 groups");
    refused([&] { ChainedScheduler({}); }, "there are no schedules");
    const auto step = std::make_shared<StepLR>(o, 2);
    refused([&] { SequentialLR(*other, {step}, {}); }, "schedule 0 is of another optimizer");
    refused([&] { SequentialLR(o, {step}, {3}); }, "1 schedules need 0 milestones, and there are 1");
    Adagrad adagrad({leaf(lz::ones({1}))});
    refused([&] { OneCycleLR(adagrad, {.max_lr = {1}, .total_steps = 3}); }, "neither momentum nor betas");
    OneCycleLR cycle(adagrad, {.max_lr = {1}, .total_steps = 2, .cycle_momentum = false});
    cycle.step();
    cycle.step();
    refused([&] { cycle.step(); }, "this would be step 3, and total_steps is 2");
}

TEST(Schedules, MilestonesOfAStateMayComeInAnyOrder) {
    std::vector<Tensor> parameters = {leaf(lz::ones({2}))};
    SGD one(parameters, 0.5), other(parameters, 0.5);
    MultiStepLR schedule(one, {2, 4, 4}, 0.5), loaded(other, {1, 2, 3}, 0.5);
    lz::StateDict state;
    for (const auto &[name, tensor] : schedule.state_dict())
        state.insert(name, name == "milestones" ? lz::tensor({4.0, 4.0, 2.0}, {.dtype = lz::f64}) : tensor);
    loaded.load_state_dict(state);
    EXPECT_EQ(doubles(loaded.state_dict().at("milestones")), (std::vector<double>{2, 4, 4}));
    for (int i = 0; i < 6; ++i) {
        schedule.step();
        loaded.step();
        EXPECT_EQ(loaded.get_last_lr(), schedule.get_last_lr()) << i;
    }
}

} // namespace
