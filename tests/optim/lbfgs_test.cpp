// L-BFGS beside PyTorch's, which a script stored (inputs/make_pytorch_optim.py), and what it refuses.
#include "tests/support/files/data.h"

#include "support.h"

#include <lazuli/io.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

namespace {

using namespace lz::test;
using lz::Tensor;
namespace optim = lz::optim;

std::map<std::string, optim::LBFGSOptions> all_options() {
    using Options = optim::LBFGSOptions;
    return {
        {"lbfgs", Options(0.01).max_iter(3)},
        {"lbfgs_history", Options(0.02).max_iter(5).history_size(2).max_eval(5)},
        {"lbfgs_wolfe", Options().line_search_fn("strong_wolfe").max_iter(3)},
        {"lbfgs_wolfe_history",
         Options(0.7).line_search_fn("strong_wolfe").max_iter(4).history_size(2).max_eval(11)},
        {"lbfgs_wolfe_far", Options(20).line_search_fn("strong_wolfe").max_iter(8)},
    };
}

/// The parameters that the script begins with.
std::vector<Tensor> initial() {
    std::ifstream file(lz::test::test_data("/inputs/pytorch_optim.txt"));
    std::vector<Tensor> out;
    for (std::string text; out.size() < 2 && std::getline(file, text);) {
        std::istringstream line(text);
        std::string word;
        std::vector<double> values;
        line >> word >> word >> word;
        while (line >> word)
            values.push_back(std::stod(word));
        out.push_back(leaf(lz::tensor<double>(values, out.empty() ? lz::Sizes{3, 4} : lz::Sizes{5})));
    }
    return out;
}

/// The script's function.
Tensor valley_and_bowl(const std::vector<Tensor> &parameters) {
    const Tensor x = parameters[0].flatten(), y = parameters[1];
    const Tensor a = x.slice(0, 1), b = x.slice(0, 0, -1);
    return (100 * (a - b * b).square() + (1 - b).square()).sum() + (y.pow(4) + x.slice(0, 0, 5) * y).sum();
}

struct Case {
    std::map<std::pair<int, size_t>, std::vector<double>> after;
    std::vector<double> losses;
    int64_t evaluations = 0;
};
std::map<std::string, Case> stored() {
    std::ifstream file(lz::test::test_data("/inputs/pytorch_lbfgs.txt"));
    std::map<std::string, Case> out;
    Case *now = nullptr;
    for (std::string text; std::getline(file, text);) {
        std::istringstream line(text);
        std::string kind, word;
        int step = 0;
        size_t index = 0;
        line >> kind;
        std::vector<double> *to = nullptr;
        if (kind == "case") {
            line >> word;
            now = &out[word];
            continue;
        }
        if (kind == "evaluations") {
            line >> now->evaluations;
            continue;
        }
        if (kind == "after") {
            line >> step >> index;
            to = &now->after[{step, index}];
        } else {
            to = &now->losses;
        }
        while (line >> word)
            to->push_back(std::stod(word));
    }
    return out;
}

void expect_near(const Tensor &found, const std::vector<double> &expected) {
    const std::vector<double> values = doubles(found);
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], expected[i], 1e-6 * std::max(1.0, std::fabs(expected[i]))) << "element " << i;
}

TEST(LBFGS, TenStepsAreThoseOfPyTorch) {
    const std::map<std::string, Case> all = stored();
    ASSERT_EQ(all.size(), all_options().size());
    for (const auto &[name, options] : all_options()) {
        SCOPED_TRACE(name);
        ASSERT_TRUE(all.contains(name));
        const Case &expected = all.at(name);
        const std::vector<Tensor> parameters = initial();
        optim::LBFGS optimizer(parameters, options);
        int64_t evaluations = 0;
        for (int step = 1; step <= 10; ++step) {
            SCOPED_TRACE("step " + std::to_string(step));
            const Tensor loss = optimizer.step([&] {
                ++evaluations;
                optimizer.zero_grad();
                Tensor value = valley_and_bowl(parameters);
                value.backward();
                return value;
            });
            const double right = expected.losses[static_cast<size_t>(step) - 1];
            EXPECT_NEAR(loss.item<double>(), right, 1e-6 * std::fabs(right));
            for (size_t i = 0; i < 2; ++i)
                expect_near(parameters[i], expected.after.at({step, i}));
        }
        EXPECT_EQ(evaluations, expected.evaluations);
        EXPECT_EQ(optimizer.state_dict().at("state.0.func_evals").item<int64_t>(), evaluations);
    }
}

TEST(LBFGS, GoesOnFromAState) {
    const auto step = [](optim::Optimizer &optimizer, const std::vector<Tensor> &parameters) {
        optimizer.step([&] {
            optimizer.zero_grad();
            Tensor value = valley_and_bowl(parameters);
            value.backward();
            return value;
        });
    };
    const std::vector<Tensor> parameters = initial();
    std::vector<Tensor> others = initial();
    const auto options = optim::LBFGSOptions().line_search_fn("strong_wolfe").max_iter(3);
    optim::LBFGS optimizer(parameters, options), other(others, options);
    for (int i = 0; i < 3; ++i)
        step(optimizer, parameters);
    for (size_t i = 0; i < 2; ++i)
        others[i].set_data(parameters[i].detach());
    other.load_state_dict(optimizer.state_dict());
    for (int i = 0; i < 3; ++i) {
        step(optimizer, parameters);
        step(other, others);
        for (size_t j = 0; j < 2; ++j)
            EXPECT_EQ(doubles(others[j]), doubles(parameters[j]));
    }
    // And what PyTorch saved after ten steps.
    lz::load(other, lz::test::test_data("/inputs/optimizers/lbfgs.pt"));
    EXPECT_EQ(other.state_dict().at("state.0.func_evals").item<int64_t>(),
              stored().at("lbfgs_wolfe").evaluations);
    EXPECT_TRUE(other.state_dict().contains("state.0.old_stps.1"));
    step(other, others);
    lz::StateDict wrong = optimizer.state_dict();
    wrong.insert_or_assign("state.0.d", lz::zeros({3}));
    wrong.erase("state.0.t");
    const Caught error = caught<lz::StateError>([&] { other.load_state_dict(wrong); });
    EXPECT_TRUE(error.has("missing: \"state.0.t\"; wrong: \"state.0.d\" (has other than 17 elements)"))
        << error.what;
}

TEST(LBFGS, AClosureThatThrowsChangesNothing) {
    const std::vector<Tensor> parameters = initial();
    const auto options = optim::LBFGSOptions().line_search_fn("strong_wolfe");
    optim::LBFGS optimizer(parameters, options);
    const std::vector<double> before = doubles(parameters[0]);
    int calls = 0;
    const auto closure = [&] {
        if (++calls == 4)
            throw std::runtime_error("the user's");
        optimizer.zero_grad();
        Tensor value = valley_and_bowl(parameters);
        value.backward();
        return value;
    };
    EXPECT_THROW(optimizer.step(closure), std::runtime_error);
    EXPECT_EQ(calls, 4);
    EXPECT_EQ(doubles(parameters[0]), before);
    EXPECT_FALSE(optimizer.state_dict().contains("state.0.n_iter"));
    optimizer.step(closure);
    EXPECT_NE(doubles(parameters[0]), before);
}

TEST(LBFGS, WhatMakesNoSenseIsRefused) {
    Tensor a = leaf(lz::ones({2})), b = leaf(lz::ones({2}, {.dtype = lz::f64}));
    const Tensor c = leaf(lz::ones({2}, {.device = "cuda:1"}));
    optim::LBFGS optimizer({a});
    EXPECT_TRUE(caught<lz::StateError>([&] { optimizer.step(); }).has("needs a closure"));
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    optimizer.step([] { return Tensor(); });
                }).has("the closure has to return the loss"));
    EXPECT_TRUE(caught<lz::DTypeError>([&] { optim::LBFGS({a, b}); }).has("f32 and f64"));
    EXPECT_TRUE(caught<lz::DeviceError>([&] { optim::LBFGS({a, c}); }).has("cuda:1"));
    EXPECT_TRUE(caught<lz::IndexError>([&] {
                    optim::LBFGS({a}, optim::LBFGSOptions().line_search_fn("armijo"));
                }).has("line_search_fn is \"armijo\""));
    EXPECT_TRUE(caught<lz::IndexError>([&] {
                    optim::LBFGS({a}, optim::LBFGSOptions().max_iter(0));
                }).has("max_iter is 0"));
    optimizer.add_param_group({{leaf(lz::ones({1}))}});
    EXPECT_TRUE(
        caught<lz::StateError>([&] { optimizer.step([] { return Tensor(); }); }).has("there are 2 groups"));
}

} // namespace
