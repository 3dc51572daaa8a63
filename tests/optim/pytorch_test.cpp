// Ten steps of each optimizer beside those of PyTorch, which a script stored (inputs/make_pytorch_optim.py).
#include "tests/support/files/data.h"

#include "support.h"

#include <lazuli/io.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

namespace {

using namespace lz::test;
using lz::Tensor;
namespace optim = lz::optim;
using Parameters = std::vector<Tensor>;
using Maker = std::function<std::unique_ptr<optim::Optimizer>(const Parameters &)>;

template <class Optimizer, class Options>
Maker made(const Options &options) {
    return [options](const Parameters &parameters) -> std::unique_ptr<optim::Optimizer> {
        return std::make_unique<Optimizer>(parameters, options);
    };
}

/// The optimizers of the script, by its names.
const std::map<std::string, Maker> &makers() {
    using namespace optim;
    constexpr double kEps = 0x1p-10;
    static const auto &all = *new std::map<std::string, Maker>{
        {"sgd", made<SGD>(SGDOptions(0.1))},
        {"sgd_decay", made<SGD>(SGDOptions(0.1).weight_decay(0.2).maximize(true))},
        {"sgd_momentum", made<SGD>(SGDOptions(0.05).momentum(0.9).dampening(0.3))},
        {"sgd_nesterov", made<SGD>(SGDOptions(0.05).momentum(0.8).nesterov(true).weight_decay(0.1))},
        {"adam", made<Adam>(AdamOptions(0.1))},
        {"adam_decay",
         made<Adam>(AdamOptions(0.02).betas({0.4, 0.9}).eps(1e-3).weight_decay(0.2).maximize(true))},
        {"adam_amsgrad", made<Adam>(AdamOptions(0.1).betas({0.8, 0.7}).amsgrad(true))},
        {"adamw", made<AdamW>(AdamWOptions(0.1))},
        {"adamw_amsgrad", made<AdamW>(AdamWOptions(0.05).weight_decay(0.3).amsgrad(true).betas({0.5, 0.6}))},
        {"adamw_maximize", made<AdamW>(AdamWOptions(0.05).weight_decay(0).maximize(true))},
        {"nadam", made<NAdam>(NAdamOptions(0.1))},
        {"nadam_decay", made<NAdam>(NAdamOptions(0.1).weight_decay(0.2).momentum_decay(0.1).maximize(true))},
        {"nadam_decoupled",
         made<NAdam>(NAdamOptions(0.1).weight_decay(0.2).decoupled_weight_decay(true).betas({0.7, 0.9}))},
        {"rmsprop", made<RMSprop>(RMSpropOptions(0.05))},
        {"rmsprop_momentum", made<RMSprop>(RMSpropOptions(0.05).momentum(0.9).alpha(0.8).weight_decay(0.1))},
        {"rmsprop_centered",
         made<RMSprop>(RMSpropOptions(0.02).centered(true).alpha(0.9).eps(1e-3).maximize(true))},
        {"rmsprop_both",
         made<RMSprop>(RMSpropOptions(0.02).centered(true).momentum(0.5).alpha(0.9).eps(1e-2))},
        {"adagrad", made<Adagrad>(AdagradOptions(0.1))},
        {"adagrad_decay", made<Adagrad>(AdagradOptions(0.1)
                                            .lr_decay(0.1)
                                            .weight_decay(0.2)
                                            .initial_accumulator_value(0.5)
                                            .eps(1e-3)
                                            .maximize(true))},
        {"adadelta", made<Adadelta>(AdadeltaOptions(1.0))},
        {"adadelta_decay",
         made<Adadelta>(AdadeltaOptions(0.5).rho(0.6).eps(1e-3).weight_decay(0.2).maximize(true))},
        {"lion", made<Lion>(LionOptions(0.02))},
        {"lion_decay", made<Lion>(LionOptions(0.02).betas({0.5, 0.7}).weight_decay(0.5).maximize(true))},
        // Of bf16.
        {"sgd_half", made<SGD>(SGDOptions(0.125).momentum(0.8).dampening(0.25).weight_decay(0.0625))},
        {"adam_half",
         made<Adam>(AdamOptions(0.1).betas({0.8, 0.7}).eps(kEps).weight_decay(0.125).amsgrad(true))},
        {"adamw_half", made<AdamW>(AdamWOptions(0.1).eps(kEps))},
        {"nadam_half", made<NAdam>(NAdamOptions(0.1).eps(kEps).weight_decay(0.125))},
        {"rmsprop_half",
         made<RMSprop>(RMSpropOptions(0.03125).centered(true).momentum(0.5).alpha(0.9).eps(0x1p-7))},
        {"adagrad_half",
         made<Adagrad>(AdagradOptions(0.1).weight_decay(0.25).initial_accumulator_value(0.5).eps(kEps))},
        {"adadelta_half", made<Adadelta>(AdadeltaOptions(0.5).rho(0.6).eps(kEps).weight_decay(0.25))},
        {"lion_half", made<Lion>(LionOptions(0.03125).betas({0.6, 0.75}).weight_decay(0.5))},
    };
    return all;
}

struct Stored {
    lz::Sizes sizes;
    std::vector<double> values;
};
struct Case {
    std::string name, dtype;
    std::map<std::pair<int, int>, std::vector<double>> after; // of (step, parameter)
    std::map<std::string, Stored> state;
};
struct File {
    std::vector<Stored> initial;
    std::map<std::pair<int, int>, std::vector<double>> gradients; // of (step, parameter)
    std::vector<Case> cases;
};

std::vector<double> values_of(std::istringstream &line) {
    std::vector<double> out;
    for (std::string word; line >> word;)
        out.push_back(std::stod(word));
    return out;
}
lz::Sizes sizes_of(std::istringstream &line) { // [2,3]
    std::string text;
    line >> text;
    lz::Sizes out;
    std::istringstream in(text.substr(1));
    for (int64_t extent = 0; in >> extent; in.ignore(1))
        out.push_back(extent);
    return out;
}

File stored() {
    std::ifstream file(lz::test::test_data("/inputs/pytorch_optim.txt"));
    File out;
    for (std::string text; std::getline(file, text);) {
        std::istringstream line(text);
        std::string kind, word;
        int step = 0, index = 0;
        line >> kind;
        if (kind == "initial") {
            line >> index;
            lz::Sizes sizes = sizes_of(line);
            out.initial.push_back({sizes, values_of(line)});
        } else if (kind == "gradient") {
            line >> step >> index;
            out.gradients[{step, index}] = values_of(line);
        } else if (kind == "case") {
            Case &made = out.cases.emplace_back();
            line >> made.name >> made.dtype;
        } else if (kind == "after") {
            line >> step >> index;
            out.cases.back().after[{step, index}] = values_of(line);
        } else {
            line >> word;
            lz::Sizes sizes = sizes_of(line);
            out.cases.back().state[word] = {sizes, values_of(line)};
        }
    }
    return out;
}

/// How many elements were compared, and how many of them differed.
struct Counts {
    int64_t all = 0, other = 0;
};

void expect_near(const Tensor &found, const std::vector<double> &expected, double tolerance,
                 const std::string &what, Counts &counts) {
    const std::vector<double> values = doubles(found);
    ASSERT_EQ(values.size(), expected.size()) << what;
    for (size_t i = 0; i < values.size(); ++counts.all, counts.other += values[i] != expected[i], ++i)
        EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::fabs(expected[i])))
            << what << ", element " << i;
}

TEST(Optimizers, TenStepsAreThoseOfPyTorch) {
    const File file = stored();
    ASSERT_EQ(file.initial.size(), 2u);
    std::map<std::string, int> seen;
    Counts floats, halves;
    for (const Case &stored : file.cases) {
        SCOPED_TRACE(stored.name + " of " + stored.dtype);
        ASSERT_TRUE(makers().contains(stored.name));
        ++seen[stored.name];
        const bool half = stored.dtype == "bfloat16";
        const lz::DType dtype = half ? lz::bf16 : lz::f32;
        // bf16: the same roundings, but for PyTorch's that contracts a product and a sum here and there.
        const double tolerance = half ? 0x1p-7 : 1e-6;
        Parameters parameters;
        for (const auto &[sizes, values] : file.initial)
            parameters.push_back(leaf(lz::tensor<double>(values, sizes).to(dtype)));
        const auto optimizer = makers().at(stored.name)(parameters);
        for (int step = 1; step <= 10; ++step) {
            for (int i = 0; i < 2; ++i) {
                const auto gradient = file.gradients.find({step, i});
                Tensor &parameter = parameters[static_cast<size_t>(i)];
                parameter.mutable_grad() =
                    gradient == file.gradients.end()
                        ? Tensor()
                        : lz::tensor<double>(gradient->second, parameter.sizes()).to(dtype);
            }
            optimizer->step();
            for (int i = 0; i < 2; ++i)
                if (const auto after = stored.after.find({step, i}); after != stored.after.end())
                    expect_near(parameters[static_cast<size_t>(i)], after->second, tolerance,
                                "parameter " + std::to_string(i) + " after step " + std::to_string(step),
                                half ? halves : floats);
        }
        const lz::StateDict state = optimizer->state_dict();
        for (const auto &[name, value] : stored.state) {
            ASSERT_TRUE(state.contains(name)) << name;
            EXPECT_EQ(state.at(name).sizes(), value.sizes) << name;
            expect_near(state.at(name), value.values, tolerance, name, half ? halves : floats);
        }
        size_t entries = 0;
        for (const auto &[name, value] : state)
            entries += name.starts_with("state.") ? 1 : 0;
        EXPECT_EQ(entries, stored.state.size());
    }
    EXPECT_GT(floats.all, 1000);
    EXPECT_GT(halves.all, 500);
    EXPECT_LE(halves.other * 100, halves.all);
    EXPECT_EQ(seen.size(), makers().size());
    EXPECT_GE(seen.size(), 31u);
}

// State dicts as torch.save wrote them after ten steps, of every optimizer that PyTorch has: the next step is
// the one that PyTorch takes.
TEST(Optimizers, GoOnFromTheFilesOfPyTorch) {
    const lz::StateDict all = lz::load(lz::test::test_data("/inputs/optimizers/continued.pt"));
    std::vector<std::string> names;
    for (const auto &[name, value] : all)
        if (name.ends_with(".after.0"))
            names.push_back(name.substr(0, name.find('.')));
    ASSERT_EQ(names.size(), 14u);
    for (const std::string &name : names) {
        SCOPED_TRACE(name);
        const lz::StateDict file = all.part(name);
        Parameters parameters;
        for (const auto &[number, value] : file.part("before"))
            parameters.push_back(value.to(lz::get_default_device()).detach().requires_grad_());
        const auto optimizer = makers().at(name)(parameters);
        optimizer->param_groups()[0].options().set_lr(7); // the file's counts
        optimizer->load_state_dict(file.part("optimizer"));
        for (size_t i = 0; i < parameters.size(); ++i)
            parameters[i].mutable_grad() =
                file.at("gradients." + std::to_string(i)).to(lz::get_default_device());
        optimizer->step();
        Counts counts;
        for (size_t i = 0; i < parameters.size(); ++i)
            expect_near(parameters[i], doubles(file.at("after." + std::to_string(i))), 1e-6,
                        "parameter " + std::to_string(i), counts);
        EXPECT_EQ(counts.all, 17);
    }
}

} // namespace
