// Every call of a backend fails in turn during a training step, on the CPU and on GPUs. A call that is
// refused once is made again: all of parameters, gradients, what the optimizer remembers and the scaler are
// as after the step. From a call on that is refused for ever, each parameter is as before the step or as
// after it.
#include "frontend/engine/devices.h"
#include "frontend/engine/engine.h"
#include "runtime/fault_injection.h"
#include "support.h"

#include <map>
#include <memory>
#include <string>

namespace {

using namespace lz;
using namespace lz::test;

struct Behind {
    std::unique_ptr<runtime::Backend> backend;
};
class Faulty final : private Behind, public runtime::FaultInjectingBackend {
public:
    explicit Faulty(std::unique_ptr<runtime::Backend> backend)
        : Behind{std::move(backend)}, FaultInjectingBackend(*Behind::backend) {}
};

std::vector<Faulty *> &faulty_gpus() {
    static std::vector<Faulty *> gpus;
    return gpus;
}
runtime::FaultInjectingBackend *faulty_cpu = nullptr;
[[maybe_unused]] const bool wrapped = [] {
    engine::Devices::wrap_cpu() = [](runtime::Backend &backend) {
        auto faulty = std::make_unique<runtime::FaultInjectingBackend>(backend);
        faulty_cpu = faulty.get();
        return faulty;
    };
    engine::Devices::wrap() = [](std::unique_ptr<runtime::Backend> backend) {
        auto faulty = std::make_unique<Faulty>(std::move(backend));
        faulty_gpus().push_back(faulty.get());
        return faulty;
    };
    return true;
}();

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

void forget_errors() {
    for (int again = 0; again < 2; ++again)
        try {
            lz::sync();
        } catch (const Error &) {
        }
}

constexpr int64_t kForEver = int64_t{1} << 40;

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
    runtime::FaultInjectingBackend &faulty = device.is_cuda() ? *faulty_gpus()[0] : *faulty_cpu;
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
            EXPECT_TRUE(cold || faulty.calls() >= n);
            faulty.fail_at(0);
            EXPECT_EQ(training.all(), after);
            training.step();
            EXPECT_EQ(training.all(), later) << "and it goes on";
            if (HasFailure())
                return;
        }
}

/// Steps that are several launches, or whose update is a part of another kernel.
enum class Kind { Sgd, Momentum, TwoDevices, ManyTensors };

struct PlainStep {
    PlainStep(Kind kind, const Device &device) : kind(kind) {
        const Device second = kind != Kind::TwoDevices ? device
                              : device.is_cpu()        ? Device::cuda(0)
                                                       : Device::cuda(1);
        const auto made = [](const Sizes &sizes, double step, const Device &there) {
            const int64_t count = sizes.size() == 2 ? sizes[0] * sizes[1] : sizes[0];
            return leaf(lz::sin(lz::arange(count).to(f32) * step + step).reshape(sizes).to(there));
        };
        if (kind == Kind::ManyTensors)
            for (int i = 0; i < 300; ++i)
                parameters.push_back(made({3 + i % 3}, 0.1 + 0.01 * i, device));
        else
            parameters = {made({6, 5}, 0.7, device), made({6}, 0.3, device), made({2, 6}, 0.9, second),
                          made({2}, 0.2, second)};
        x = lz::cos(lz::arange(20).to(f32)).reshape({4, 5}).to(device);
        x.eval();
        if (kind == Kind::Sgd)
            optimizer = std::make_unique<optim::SGD>(parameters, optim::SGDOptions(0.1));
        else if (kind == Kind::Momentum)
            optimizer = std::make_unique<optim::SGD>(
                parameters, optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01));
        else
            optimizer = std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(0.1));
    }
    void step() {
        optimizer->zero_grad();
        loss().backward();
        optimizer->step();
        lz::sync();
    }
    Tensor loss() const {
        if (kind == Kind::ManyTensors) {
            Tensor sum = lz::zeros({}, {.device = x.device()});
            for (const Tensor &p : parameters)
                sum = sum + lz::cos(p).sum();
            return sum;
        }
        const Tensor hidden = lz::tanh(lz::linear(x, parameters[0], parameters[1]));
        return lz::linear(hidden.to(parameters[2].device()), parameters[2], parameters[3]).square().sum();
    }
    std::map<std::string, std::vector<double>> all() const {
        std::map<std::string, std::vector<double>> out;
        for (size_t i = 0; i < parameters.size(); ++i) {
            out["parameter." + std::to_string(i)] = doubles(parameters[i]);
            out["gradient." + std::to_string(i)] = doubles(parameters[i].grad());
        }
        for (const auto &[name, tensor] : optimizer->state_dict())
            out["optimizer." + name] = doubles(tensor);
        return out;
    }

    Kind kind;
    std::vector<Tensor> parameters;
    Tensor x;
    std::unique_ptr<optim::Optimizer> optimizer;
};

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
        std::vector<runtime::FaultInjectingBackend *> backends;
        if (device.is_cpu())
            backends.push_back(faulty_cpu);
        if (device.is_cuda() || kind == Kind::TwoDevices)
            backends.push_back(faulty_gpus()[0]);
        if (device.is_cuda() && kind == Kind::TwoDevices)
            backends.push_back(faulty_gpus()[1]);
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
    runtime::FaultInjectingBackend &faulty = device.is_cuda() ? *faulty_gpus()[0] : *faulty_cpu;
    WholeStep undisturbed(device);
    undisturbed.step();
    undisturbed.step();
    const auto before = undisturbed.all(false);
    faulty.fail_at(0);
    undisturbed.step();
    const int64_t calls = faulty.calls();
    const auto after = undisturbed.all();
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
            if (threw) {
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

/// Of several launches each changes a part of what the step does: where one is refused after another was put,
/// the error says which tensors are which.
TEST_P(EveryDevice, WhatSeveralLaunchesChangeIsAllAsBeforeOrAllAsAfterOrTheErrorTellsThemApart) {
    const Device device(GetParam());
    if (const std::string &why = engine::Engine::get().why_no_gpu(); device.is_cuda() && !why.empty())
        GTEST_SKIP() << why;
    lz::sync();
    runtime::FaultInjectingBackend &faulty = device.is_cuda() ? *faulty_gpus()[0] : *faulty_cpu;
    int64_t mixed = 0, before = 0, calls = 0;
    for (int64_t n = 0; n <= calls; ++n) {
        SCOPED_TRACE(testing::Message() << "from call " << n << " of " << calls << " on");
        std::vector<Tensor> tensors = {lz::zeros({300}).to(device),
                                       lz::zeros({300}, {.dtype = f64}).to(device)};
        Tensor sums = lz::zeros({300}).to(device);
        lz::sync();
        faulty.fail_at(n, kForEver);
        std::string why;
        try {
            sums.add_(1);
            for (Tensor &x : tensors)
                x.add_(2).mul_(x + 1);
            sums.copy_(lz::cumsum(sums, 0));
            lz::sync();
        } catch (const Error &error) {
            why = error.what();
        }
        forget_errors();
        calls = n == 0 ? faulty.calls() : calls;
        faulty.fail_at(0);
        forget_errors();
        std::vector<double> last;
        bool all_known = true;
        for (const Tensor &x : {tensors[0], tensors[1], sums})
            try {
                last.push_back(doubles(x).back());
            } catch (const Error &) {
                all_known = false;
            }
        const std::vector<double> none = {0, 0, 0}, all = {6, 6, 300};
        if (n == 0) {
            ASSERT_EQ(last, all);
            ASSERT_GT(calls, 3);
        } else if (why.find("in place") != std::string::npos) {
            ++mixed;
            EXPECT_TRUE(!all_known || (last != none && last != all)) << why;
            EXPECT_NE(why.find("f32[300]"), std::string::npos) << why;
            for (size_t i = 0; i < last.size() && all_known; ++i)
                EXPECT_TRUE(last[i] == none[i] || last[i] == all[i]) << why;
        } else {
            EXPECT_TRUE(all_known);
            EXPECT_EQ(last, why.empty() ? all : none) << why;
            before += !why.empty();
        }
    }
    EXPECT_GT(before, 0);
    EXPECT_GT(mixed, 0);
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
    Faulty &faulty = *faulty_gpus()[0];
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
            for (size_t i = 0; i < 4; ++i) {
                const auto now = training.all_of(i);
                // (What is on a device that is lost, is lost with it.)
                EXPECT_TRUE(lost || now == before[i] || now == after[i])
                    << "parameter " << i << " is in between";
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
