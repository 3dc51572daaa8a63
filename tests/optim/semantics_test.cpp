// The row of semantics.md about optimizers, on the CPU and on virtual GPUs.
#include "support.h"

#include "tests/support/environment.h"

#include <functional>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;
namespace nn = lz::nn;
namespace optim = lz::optim;

struct Net : nn::Module {
    nn::Linear fc1{register_module("fc1", nn::Linear(4, 16))};
    nn::Linear fc2{register_module("fc2", nn::Linear(16, 1))};
    Tensor forward(const Tensor &x) { return fc2(lz::tanh(fc1(x))); }
};

/// The loss after `steps` of fitting a bump, with a schedule and clipping.
double fit(const Device &device, int steps,
           const std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor> &)> &make) {
    lz::manual_seed(3);
    Net net;
    net.to(device);
    const Tensor x = lz::rand({64, 4}, {.device = device}), y = lz::exp(-(x * x).sum(1, true));
    const auto optimizer = make(net.parameters());
    optim::CosineAnnealingLR schedule(*optimizer, steps);
    Tensor loss;
    for (int step = 0; step < steps; ++step, schedule.step()) {
        optimizer->zero_grad();
        loss = lz::mse_loss(net.forward(x), y);
        loss.backward();
        nn::utils::clip_grad_norm_(net.parameters(), 1.0);
        optimizer->step();
        lz::eval({net.fc2->bias});
    }
    return loss.item<double>();
}

template <class Optimizer, class Options>
void expect_fits(const Options &options, double at_most) {
    const auto make = [&](const std::vector<Tensor> &parameters) -> std::unique_ptr<optim::Optimizer> {
        return std::make_unique<Optimizer>(parameters, options);
    };
    const double on_cpu = fit(Device::cpu(), 60, make), on_gpu = fit(Device::cuda(0), 60, make);
    EXPECT_LT(on_cpu, at_most);
    EXPECT_EQ(on_gpu, on_cpu); // to the bit, S29
}

TEST(Semantics, S78_optimizers_with_schedules_and_clipping_train) {
    const double before = fit(Device::cpu(), 1, [](const std::vector<Tensor> &parameters) {
        return std::make_unique<optim::SGD>(parameters, 0.1);
    });
    ASSERT_GT(before, 0.1);
    expect_fits<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9), before / 10);
    expect_fits<optim::Adam>(optim::AdamOptions(0.02), before / 10);
    expect_fits<optim::AdamW>(optim::AdamWOptions(0.02), before / 10);
    expect_fits<optim::RMSprop>(optim::RMSpropOptions(0.01), before / 10);
    expect_fits<optim::Adagrad>(optim::AdagradOptions(0.1), before / 10);
}

TEST(Semantics, S78_a_step_over_all_parameters_is_a_few_kernels) {
    LZ_NEEDS_JIT();
    std::vector<Tensor> parameters;
    for (int64_t i = 0; i < 60; ++i)
        parameters.push_back(
            leaf(lz::rand(i % 2 ? lz::Sizes{i + 1, 3} : lz::Sizes{i + 1}, {.device = Device::cpu()})));
    const auto launches = [&](optim::Optimizer &optimizer) {
        int64_t now = 0;
        for (int step = 0; step < 3; ++step) {
            for (Tensor &p : parameters) {
                p.mutable_grad() = lz::ones_like(p);
                p.grad().eval();
            }
            lz::reset_compile_stats();
            optimizer.step();
            lz::sync();
            now = lz::compile_stats().kernel_launches;
        }
        return now;
    };
    optim::SGD sgd(parameters, optim::SGDOptions(0.1).momentum(0.9));
    optim::Adam adam(parameters);
    optim::AdamW adamw(parameters);
    optim::NAdam nadam(parameters);
    optim::RMSprop rmsprop(parameters, optim::RMSpropOptions(0.1).centered(true).momentum(0.5));
    optim::Adagrad adagrad(parameters);
    optim::Adadelta adadelta(parameters);
    optim::Lion lion(parameters);
    for (optim::Optimizer *const optimizer : std::initializer_list<optim::Optimizer *>{
             &sgd, &adam, &adamw, &nadam, &rmsprop, &adagrad, &adadelta, &lion})
        EXPECT_EQ(launches(*optimizer), 1) << typeid(*optimizer).name();
}

} // namespace
