// Every call of a backend fails in turn during a training step, on the CPU and on GPUs. A call that is
// refused once is made again: all of parameters, gradients, what the optimizer remembers and the scaler are
// as after the step. From a call on that is refused for ever, each parameter is as before the step or as
// after it.
#include "frontend/engine/engine.h"
#include "refused_steps.h"

#include <map>
#include <memory>
#include <string>

namespace {

using namespace lz;
using namespace lz::test;

/// Two layers and AdamW, always the same ones.
struct Training {
    explicit Training(const Device &device) : device(device) {
        const auto made = [&](const Sizes &sizes, double step) {
            int64_t count = 1;
            for (const int64_t n : sizes)
                count *= n;
            return leaf(lz::sin(lz::arange(count).to(f32) * step).reshape(sizes).to(device));
        };
        parameters = {made({6, 5}, 0.7), made({6}, 0.3), made({2, 6}, 0.9), made({2}, 0.2)};
        x = lz::cos(lz::arange(20).to(f32)).reshape({4, 5}).to(device);
        x.eval();
        optimizer = std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(0.1).amsgrad(true));
    }
    void step() {
        optimizer->zero_grad();
        const Tensor hidden = lz::tanh(lz::linear(x, parameters[0], parameters[1]));
        lz::linear(hidden, parameters[2], parameters[3]).square().sum().backward();
        optimizer->step();
        lz::sync();
    }
    /// The parameter, and what is remembered of it.
    std::vector<std::vector<double>> all_of(size_t i) const {
        std::vector<std::vector<double>> out = {doubles(parameters[i])};
        const StateDict state = optimizer->state_dict();
        for (const char *name : {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"})
            out.push_back(doubles(state.at("state." + std::to_string(i) + "." + name)));
        return out;
    }
    StateDict save() const {
        StateDict all = optimizer->state_dict();
        for (size_t i = 0; i < 4; ++i)
            all.insert("parameter." + std::to_string(i), parameters[i].detach());
        for (auto &[name, tensor] : all)
            tensor = tensor.cpu();
        lz::eval(all.values());
        return all;
    }
    void load(StateDict all) {
        for (size_t i = 0; i < 4; ++i) {
            const std::string name = "parameter." + std::to_string(i);
            parameters[i].set_data(all.at(name).to(device));
            all.erase(name);
        }
        optimizer->load_state_dict(all);
    }

    Device device;
    std::vector<Tensor> parameters;
    Tensor x;
    std::unique_ptr<optim::AdamW> optimizer;
};

/// A step as programs write it: modules, a loss, AdamW and a scaler.
struct WholeStep {
    explicit WholeStep(const Device &device) {
        manual_seed(3);
        net->push_back(nn::Linear(5, 6));
        net->push_back(nn::Tanh());
        net->push_back(nn::Linear(6, 3));
        net->to(device);
        x = lz::cos(lz::arange(20).to(f32)).reshape({4, 5}).to(device);
        target = lz::tensor({0, 2, 1, 2}).to(device);
        x.eval();
        target.eval();
        optimizer = std::make_unique<optim::AdamW>(net->parameters(), optim::AdamWOptions(0.1));
    }
    void step() {
        optimizer->zero_grad();
        scaler.scale(nn::functional::cross_entropy(net(x), target)).backward();
        scaler.step(*optimizer);
        scaler.update();
        lz::sync();
    }
    /// All of it, by name. (Gradients of a step that failed are for `zero_grad`.)
    std::map<std::string, std::vector<double>> all(bool gradients = true) const {
        std::map<std::string, std::vector<double>> out;
        for (const auto &[name, parameter] : net->named_parameters()) {
            out[name] = doubles(parameter);
            if (gradients)
                out[name + ".grad"] = doubles(parameter.grad());
        }
        for (const auto &[name, tensor] : optimizer->state_dict())
            out["optimizer." + name] = doubles(tensor);
        for (const auto &[name, tensor] : scaler.state_dict())
            out["scaler." + name] = doubles(tensor);
        return out;
    }

    nn::Sequential net;
    Tensor x, target;
    std::unique_ptr<optim::AdamW> optimizer;
    GradScaler scaler{{.init_scale = 8, .growth_interval = 3}}; // the third step changes the scale
};

class EveryDevice : public testing::TestWithParam<const char *> {};

TEST_P(EveryDevice, AStepOfWhichACallIsRefusedOnceIsDoneAndNoTensorIsBehindAnother) {
    const Device device(GetParam());
    if (const std::string &why = engine::Engine::get().why_no_gpu(); device.is_cuda() && !why.empty())
        GTEST_SKIP() << why;
    lz::sync();
    runtime::FaultInjectingBackend &faulty = device.is_cuda() ? *faulty_gpus()[0] : *faulty_cpu();
    WholeStep undisturbed(device);
    undisturbed.step();
    undisturbed.step();
    const auto before = undisturbed.all();
    faulty.fail_at(0);
    undisturbed.step();
    const int64_t calls = faulty.calls();
    const auto after = undisturbed.all();
    undisturbed.step();
    const auto later = undisturbed.all();
    ASSERT_GT(calls, 2);
    ASSERT_NE(before.at("scaler.scale"), after.at("scaler.scale"));
    for (const auto &[name, values] : before)
        if (name.starts_with("0.") || name.find(".exp_avg") != std::string::npos) {
            ASSERT_NE(values, after.at(name)) << name << " does not change, and this test would not see it";
        }
    for (const bool cold : {false, true})
        for (int64_t n = 1; n <= calls + (cold ? 20 : 0); n += cold ? 3 : 1) {
            SCOPED_TRACE(testing::Message() << "call " << n << " of " << calls << (cold ? ", cold" : ""));
            WholeStep training(device);
            training.step();
            training.step();
            if (cold) { // memory is asked for, and every kernel loaded
                lz::empty_cache(device);
                engine::Engine::get().clear_caches();
            }
            faulty.fail_at(n);
            EXPECT_NO_THROW(training.step());
            // The last call may be for memory that the first model had to get and this one finds.
            EXPECT_TRUE(cold || faulty.calls() >= n || n == calls);
            faulty.fail_at(0);
            EXPECT_EQ(training.all(), after);
            training.step();
            EXPECT_EQ(training.all(), later) << "and it goes on";
            if (HasFailure())
                return;
        }
}

TEST_P(EveryDevice, AStepOfAnyKindOfWhichACallIsRefusedOnceIsDone) {
    const Device device(GetParam());
    if (const std::string &why = engine::Engine::get().why_no_gpu(); !why.empty())
        GTEST_SKIP() << why;
    lz::sync();
    for (const Kind kind : {Kind::Sgd, Kind::Momentum, Kind::TwoDevices, Kind::ManyTensors}) {
        PlainStep undisturbed(kind, device); // opens its devices
        undisturbed.step();
        undisturbed.step();
        const auto before = undisturbed.all();
        const auto backends = undisturbed.backends();
        undisturbed.step();
        const auto after = undisturbed.all();
        undisturbed.step();
        const auto later = undisturbed.all();
        for (const auto &[name, values] : before) {
            ASSERT_TRUE(!name.starts_with("parameter.") || values != after.at(name))
                << name << " does not change, and this test would not see it";
        }
        for (size_t b = 0; b < backends.size(); ++b) {
            int64_t refused = 0; // until a step has no call of this number
            for (int64_t n = 1; refused == n - 1; ++n) {
                SCOPED_TRACE(testing::Message()
                             << "kind " << static_cast<int>(kind) << ", device " << b << ", call " << n);
                PlainStep training(kind, device);
                training.step();
                training.step();
                backends[b]->fail_at(n);
                EXPECT_NO_THROW(training.step());
                refused += backends[b]->calls() >= n;
                backends[b]->fail_at(0);
                EXPECT_EQ(training.all(), after);
                training.step();
                EXPECT_EQ(training.all(), later) << "and it goes on";
                if (HasFailure()) {
                    forget_errors();
                    return;
                }
            }
            EXPECT_GT(refused, 0);
        }
    }
}

TEST_P(EveryDevice, AStepThatIsRefusedForGoodIsAsIfItHadNotBeenOrIsDone) {
    const Device device(GetParam());
    if (const std::string &why = engine::Engine::get().why_no_gpu(); device.is_cuda() && !why.empty())
        GTEST_SKIP() << why;
    lz::sync();
    runtime::FaultInjectingBackend &faulty = device.is_cuda() ? *faulty_gpus()[0] : *faulty_cpu();
    WholeStep undisturbed(device);
    undisturbed.step();
    undisturbed.step();
    const auto before = undisturbed.all(false);
    faulty.fail_at(0);
    undisturbed.step();
    const int64_t calls = faulty.calls();
    const auto after = undisturbed.all(), done = undisturbed.all(false);
    undisturbed.step();
    const auto later = undisturbed.all();
    int64_t failed = 0;
    for (const bool cold : {false, true})
        for (int64_t n = 1; n <= calls + (cold ? 20 : 1); n += cold ? 3 : 1) {
            SCOPED_TRACE(testing::Message()
                         << "from call " << n << " of " << calls << " on" << (cold ? ", cold" : ""));
            WholeStep training(device);
            training.step();
            training.step();
            if (cold) {
                lz::empty_cache(device);
                engine::Engine::get().clear_caches();
            }
            faulty.fail_at(n, kForEver);
            bool threw = false;
            try {
                training.step();
            } catch (const Error &error) {
                threw = true;
                ++failed;
                EXPECT_TRUE(error.file() && std::string(error.file()).ends_with("faults_test.cpp"))
                    << error.what();
            }
            forget_errors();
            faulty.fail_at(0);
            forget_errors();
            if (threw && training.all(false) != done) { // else it stopped, and went on at the next sync
                EXPECT_EQ(training.all(false), before);
                training.step();
            }
            EXPECT_EQ(training.all(), after) << "and it goes on";
            training.step();
            EXPECT_EQ(training.all(), later) << "and later";
            if (HasFailure())
                return;
        }
    EXPECT_GT(failed, calls);
}

/// Adam's corrections go by the count of steps.
TEST_P(EveryDevice, AStepThatFailsByALabelIsNotCounted) {
    const Device device(GetParam());
    if (const std::string &why = engine::Engine::get().why_no_gpu(); device.is_cuda() && !why.empty())
        GTEST_SKIP() << why;
    for (const bool compiled : {false, true}) {
        std::map<std::string, std::vector<double>> expected;
        for (const bool disturbed : {false, true}) {
            WholeStep training(device);
            const auto step = lz::compile([&](const Tensor &x, const Tensor &target) {
                training.optimizer->zero_grad();
                nn::functional::cross_entropy(training.net(x), target).backward();
                training.optimizer->step();
                return training.net->parameters()[0].detach().sum();
            });
            const auto call = [&](const Tensor &target) {
                if (compiled) {
                    step(training.x, target);
                } else {
                    training.optimizer->zero_grad();
                    nn::functional::cross_entropy(training.net(training.x), target).backward();
                    training.optimizer->step();
                }
                lz::sync();
            };
            for (int i = 0; i < 8; ++i) {
                call(training.target);
                if (disturbed && i >= 3 && i < 6) {
                    EXPECT_THROW(call(lz::tensor({0, 2, 7, 2}).to(device)), IndexError);
                    forget_errors();
                }
            }
            EXPECT_TRUE(!compiled || device.is_cuda() || step.stats().replays > 0) << step.explain();
            EXPECT_EQ(training.optimizer->state_dict().at("state.0.step").item<int>(), 8);
            if (!disturbed)
                expected = training.all(false);
            else
                EXPECT_EQ(training.all(false), expected) << (compiled ? "compiled" : "recorded");
        }
    }
}

INSTANTIATE_TEST_SUITE_P(OptimizerFaults, EveryDevice, testing::Values("cpu", "cuda:0"),
                         [](const auto &info) {
                             return std::string(info.param).substr(0, 3) == "cpu" ? "Cpu" : "Gpu";
                         });

TEST(OptimizerFaults, AStepThatFailsLeavesEachParameterAndItsStateAsBeforeOrAsAfter) {
    if (const std::string &why = engine::Engine::get().why_no_gpu(); !why.empty())
        GTEST_SKIP() << why;
    const Device gpu = Device::cuda(0);
    Training undisturbed(gpu);
    undisturbed.step();
    undisturbed.step();
    std::vector<std::vector<std::vector<double>>> before, after, later;
    const auto look = [&](auto &to) {
        for (size_t i = 0; i < 4; ++i)
            to.push_back(undisturbed.all_of(i));
    };
    look(before);
    ASSERT_FALSE(faulty_gpus().empty());
    runtime::FaultInjectingBackend &faulty = *faulty_gpus()[0];
    faulty.fail_at(0);
    undisturbed.step();
    const int64_t calls = faulty.calls();
    ASSERT_GT(calls, 2);
    look(after);
    undisturbed.step();
    look(later);
    int64_t failed = 0;
    for (const bool lost : {false, true})
        for (int64_t n = 1; n <= calls + 2; ++n) {
            SCOPED_TRACE((lost ? "lost at call " : "failing at call ") + std::to_string(n) + " of " +
                         std::to_string(calls));
            Training training(gpu);
            training.step();
            training.step();
            if (n % 2 == 0)
                lz::empty_cache(gpu);
            const StateDict saved = training.save();
            lost ? faulty.lose_at(n) : faulty.fail_at(n, kForEver);
            bool threw = false;
            try {
                training.step();
            } catch (const Error &error) {
                threw = true;
                ++failed;
                EXPECT_TRUE(error.file() && std::string(error.file()).ends_with("faults_test.cpp"))
                    << error.what();
            }
            forget_errors();
            lost ? faulty.lose_at(0) : faulty.fail_at(0);
            forget_errors();
            bool all_after = true;
            for (size_t i = 0; i < 4 && !lost; ++i) { // what is on a device that is lost, is lost with it
                const auto now = training.all_of(i);
                EXPECT_TRUE(now == before[i] || now == after[i]) << "parameter " << i << " is in between";
                all_after = all_after && now == after[i];
            }
            EXPECT_TRUE(threw || all_after);
            // From a checkpoint training goes on to the bits of an undisturbed run.
            training.load(saved);
            training.step();
            training.step();
            for (size_t i = 0; i < 4; ++i)
                EXPECT_EQ(training.all_of(i), later[i]) << "parameter " << i << " later";
        }
    EXPECT_GT(failed, calls / 2);
}

} // namespace
