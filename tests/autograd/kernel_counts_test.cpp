// Forward, backward and what follows are one program: how many kernels it has (f32, CPU).
#include "tests/support/environment.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace {

using lz::Tensor;

/// Kernels of the program that `record` records, whose results live at the sync.
int64_t kernels(const std::function<std::vector<Tensor>()> &record) {
    lz::sync();
    const std::vector<Tensor> kept = record();
    const std::string text = lz::explain();
    const size_t at = text.find(" became ");
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + 8));
}

Tensor leaf(const lz::Sizes &sizes) {
    Tensor x = lz::randn(sizes);
    x.eval();
    return x.requires_grad_();
}

/// The backward of y, whose gradient is there, to these.
std::vector<Tensor> back(const Tensor &y, const Tensor &g, const std::vector<Tensor> &inputs) {
    const std::vector<Tensor> outputs = {y}, seeds = {g};
    return lz::autograd::grad(outputs, inputs, seeds);
}

TEST(KernelCounts, ATrainingStepOfTwoLayersIsSix) {
    LZ_NEEDS_JIT();
    const Tensor x = lz::randn({32, 64}), target = lz::randn({32, 16});
    lz::eval({x, target});
    std::vector<Tensor> parameters = {leaf({48, 64}), leaf({16, 48})};
    EXPECT_EQ(kernels([&] {
                  const Tensor hidden = lz::gelu(lz::linear(x, parameters[0]), lz::Gelu::Tanh);
                  Tensor loss = lz::mse_loss(lz::linear(hidden, parameters[1]), target);
                  loss.backward();
                  const lz::NoGradGuard no_grad;
                  for (Tensor &p : parameters) {
                      p.sub_(p.grad() * 0.01);
                      p.mutable_grad() = Tensor();
                  }
                  return std::vector<Tensor>{loss};
              }),
              6);
}

TEST(KernelCounts, BackwardsToTheInputAreOne) {
    LZ_NEEDS_JIT();
    Tensor x = leaf({64, 96}), w = lz::randn({96}), g = lz::randn({64, 96});
    lz::eval({w, g});
    EXPECT_EQ(kernels([&] { return back(x.softmax(1), g, {x}); }), 1);
    EXPECT_EQ(kernels([&] { return back(x.log_softmax(1), g, {x}); }), 1);
    EXPECT_EQ(kernels([&] { return back(lz::rms_norm(x, {96}, w), g, {x}); }), 1);
    EXPECT_EQ(kernels([&] { return back(lz::gelu(x), g, {x}); }), 1);
    EXPECT_EQ(kernels([&] { return back(lz::silu(x), g, {x}); }), 1);
}

/// Rows, and both sums over them.
TEST(KernelCounts, LayerNormToEverythingIsTwo) {
    LZ_NEEDS_JIT();
    Tensor x = leaf({64, 96}), w = leaf({96}), b = leaf({96}), g = lz::randn({64, 96});
    g.eval();
    EXPECT_EQ(kernels([&] { return back(lz::layer_norm(x, {96}, w, b), g, {x, w, b}); }), 2);
}

/// The number of samples that count, which all rows are divided by; and the rows of both passes, whose
/// kernel's last phases sum the losses up.
TEST(KernelCounts, CrossEntropyWithItsBackwardIsTwo) {
    LZ_NEEDS_JIT();
    Tensor logits = leaf({64, 10});
    const Tensor labels = lz::randint(10, {64});
    labels.eval();
    EXPECT_EQ(kernels([&] {
                  const Tensor loss = lz::cross_entropy(logits, labels);
                  return std::vector<Tensor>{loss, back(loss, {}, {logits})[0]};
              }),
              2);
    EXPECT_EQ(kernels([&] { return std::vector<Tensor>{lz::cross_entropy(logits, labels).detach()}; }), 1);
}

TEST(KernelCounts, DropoutResidualAndLayerNormIsOneAndItsBackwardTwo) {
    LZ_NEEDS_JIT();
    Tensor x = leaf({64, 96}), r = leaf({64, 96}), w = leaf({96}), b = leaf({96}), g = lz::randn({64, 96});
    g.eval();
    const auto forward = [&] { return lz::layer_norm(lz::dropout(x, 0.1) + r, {96}, w, b); };
    EXPECT_EQ(kernels([&] { return std::vector<Tensor>{forward().detach()}; }), 1);
    EXPECT_EQ(kernels([&] { return back(forward(), g, {x, r, w, b}); }), 2);
}

} // namespace
