// Every call of a GPU's backend fails in turn during a training step: parameters and what the optimizer
// remembers of them are as before the step or as after it.
#include "frontend/engine/devices.h"
#include "frontend/engine/engine.h"
#include "runtime/fault_injection.h"
#include "support.h"

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
[[maybe_unused]] const bool wrapped = [] {
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
            lost ? faulty.lose_at(n) : faulty.fail_at(n);
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
    EXPECT_GT(failed, calls);
}

} // namespace
