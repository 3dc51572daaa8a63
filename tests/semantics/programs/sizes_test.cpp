// S27 for sizes: what was compiled for some of them serves others.
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

namespace {

using lz::Tensor;

/// Of one program for lengths 2 to 257: f computes, and has to give `expected`, at most `error` off.
template <class F, class G>
void expect_few_programs(F &&f, G &&expected, double error = 0) {
    constexpr int64_t most = 8;
    lz::sync();
    const lz::CompileStats before = lz::compile_stats();
    for (int64_t n = 2; n < 258; ++n)
        EXPECT_NEAR(f(n).template item<double>(), expected(n), error) << "length " << n;
    const lz::CompileStats after = lz::compile_stats();
    EXPECT_LE(after.programs_compiled - before.programs_compiled, most);
    EXPECT_GE(after.programs_resized - before.programs_resized, 256 - most);
}

TEST(Sizes, S27_sums_of_256_lengths_are_a_few_programs) {
    expect_few_programs([](int64_t n) { return (lz::arange(n) * 2 + 1).sum(); },
                        [](int64_t n) { return static_cast<double>(n * n); });
}

TEST(Sizes, S27_products_of_256_batches_are_a_few_programs) {
    const Tensor w = lz::ones({24, 40});
    expect_few_programs(
        [&](int64_t n) {
            const Tensor x = lz::arange(n).to(lz::f32).view({n, 1}).expand({n, 24}).contiguous();
            return lz::relu(lz::matmul(x, w) - 24).sum().to(lz::f64);
        },
        [](int64_t n) { return static_cast<double>(40 * 24 * (n - 1) * (n - 2) / 2); });
}

TEST(Sizes, S27_joins_of_growing_lengths_are_a_few_programs) {
    Tensor kept = lz::ones({1, 8});
    expect_few_programs(
        [&](int64_t) {
            kept = lz::cat({kept, lz::ones({1, 8})}, 0);
            return lz::softmax(kept, -1).sum(0).max() * 8;
        },
        [](int64_t n) { return static_cast<double>(n); });
}

TEST(Sizes, S27_training_steps_of_256_batches_are_a_few_programs) {
    const Tensor w = lz::zeros({4, 2}), label = (lz::arange(2) == 0).to(lz::f32);
    expect_few_programs(
        [&](int64_t n) {
            const Tensor x = lz::arange(n).to(lz::f32).view({n, 1}).expand({n, 4}).contiguous();
            const Tensor off = lz::softmax(lz::matmul(x, w), -1) - label; // a half
            return (w - 0.5 * lz::matmul(x.t(), off) / static_cast<double>(n)).max().to(lz::f64);
        },
        [](int64_t n) { return static_cast<double>(n - 1) / 8; });
}

/// Losses of a transformer's steps with Adam. The head is all zeros and stays so: each of the 65 characters
/// is as likely as any other.
auto transformer_steps(int layers) {
    lz::nn::Sequential net(lz::nn::Embedding(65, 32));
    for (int i = 0; i < layers; ++i)
        net->push_back(lz::nn::TransformerEncoderLayer(
            lz::nn::TransformerEncoderLayerOptions(32, 2).dim_feedforward(64).dropout(0).batch_first(true)));
    const lz::nn::Linear head(32, 65);
    for (Tensor &p : head->parameters())
        lz::nn::init::zeros_(p);
    net->push_back(head);
    const auto adam = std::make_shared<lz::optim::Adam>(net->parameters(), lz::optim::AdamOptions(0));
    return [=](int64_t batch, int64_t length) mutable {
        const Tensor text = (lz::arange(batch * (length + 1)) % 65).view({batch, length + 1});
        adam->zero_grad();
        const Tensor logits = net(text.narrow(1, 0, length));
        Tensor loss = lz::cross_entropy(logits.flatten(0, 1), text.narrow(1, 1, length).flatten());
        loss.backward();
        adam->step();
        lz::sync();
        return loss.detach().to(lz::f64);
    };
}

TEST(Sizes, S27_steps_of_a_transformer_with_Adam_for_256_lengths_are_a_few_programs) {
    expect_few_programs([step = transformer_steps(1)](int64_t n) mutable { return step(2, n); },
                        [](int64_t) { return std::log(65); }, 1e-5);
}

TEST(Sizes, S27_steps_of_a_transformer_with_Adam_for_256_batches_are_a_few_programs) {
    expect_few_programs([step = transformer_steps(1)](int64_t n) mutable { return step(n, 12); },
                        [](int64_t) { return std::log(65); }, 1e-5);
}

TEST(Sizes, S27_first_steps_of_Adam_for_256_sizes_of_parameters_are_a_few_programs) {
    expect_few_programs(
        [](int64_t n) { // a first step is as long as the learning rate
            Tensor w = lz::zeros({n, 24}).requires_grad_(), b = lz::zeros({n}).requires_grad_();
            lz::optim::Adam adam({w, b}, lz::optim::AdamOptions(0.5));
            (w.sum() - 3 * b.sum()).backward();
            adam.step();
            return (w.detach().sum() + b.detach().sum()).to(lz::f64);
        },
        [](int64_t n) { return 0.5 * static_cast<double>(n - 24 * n); }, 1e-2);
}

TEST(Sizes, WhatFailsInAnotherSizeNamesTheLineOfItsRecording) {
    const Tensor table = lz::arange(10);
    for (int64_t n = 3; n < 12; ++n) {
        std::vector<int64_t> indices(static_cast<size_t>(n), 2);
        indices.back() = n == 9 ? 77 : 3;
        const Tensor index = lz::tensor(indices);
        const Tensor picked = table.index_select(0, index) + 1;
        if (n != 9) {
            EXPECT_EQ(picked.sum().item<int64_t>(), 3 * (n - 1) + 4);
            continue;
        }
        try {
            (void)picked.sum().item<int64_t>();
            FAIL() << "77 is no index";
        } catch (const lz::IndexError &error) {
            EXPECT_NE(std::string(error.what()).find("sizes_test.cpp"), std::string::npos) << error.what();
        }
    }
}

} // namespace
