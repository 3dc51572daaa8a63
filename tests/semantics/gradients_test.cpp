// S70: gradients on every device, recorded like any other work. S44: on the streams of their forward.
#include "support.h"

#include <cmath>
#include <sstream>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;
using Floats = std::vector<float>;

Tensor leaf(const std::vector<float> &values, const Device &device) {
    return lz::tensor<float>(values, {.device = device, .requires_grad = true});
}

TEST(Semantics, S70_backward_leaves_gradients_where_the_leaves_are) {
    for (const Device &place : places()) {
        Tensor w = leaf({1, 2, 3}, place),
               number = leaf({2}, Device::cpu()).detach().reshape({}).requires_grad_();
        const Tensor y = lz::tanh(w * 0) + w * w * number; // the number is on the CPU
        y.sum().backward();
        EXPECT_EQ(w.grad().device(), place);
        EXPECT_EQ(number.grad().device(), Device::cpu());
        EXPECT_EQ(floats(w.grad()), (Floats{4, 8, 12}));
        EXPECT_EQ(floats(number.grad()), (Floats{14}));
        (w * 2).sum().backward(); // adds
        EXPECT_EQ(floats(w.grad()), (Floats{6, 10, 14}));
    }
}

TEST(Semantics, S70_gradients_cross_devices_with_their_tensors) {
    LZ_NEEDS_GPUS(2);
    Tensor x = leaf({1, 2}, kGpu0), w = leaf({3, 4}, kGpu1);
    const Tensor y = (x * 2).to(kGpu1) * w;
    y.sum().backward();
    EXPECT_EQ(x.grad().device(), kGpu0);
    EXPECT_EQ(w.grad().device(), kGpu1);
    EXPECT_EQ(floats(x.grad()), (Floats{6, 8}));
    EXPECT_EQ(floats(w.grad()), (Floats{2, 4}));
}

TEST(Semantics, S70_grad_detach_and_no_grad) {
    for (const Device &place : places()) {
        Tensor x = leaf({1, 2}, place);
        const Tensor y = x * x, g = lz::autograd::grad({(y * y.detach()).sum()}, {x})[0];
        EXPECT_EQ(floats(g), (Floats{2, 16}));
        EXPECT_FALSE(x.grad().defined());
        const lz::NoGradGuard no_grad;
        EXPECT_FALSE((x * 2).requires_grad());
        x.add_(1);
        EXPECT_TRUE(x.requires_grad());
        EXPECT_EQ(floats(x), (Floats{2, 3}));
    }
}

TEST(Semantics, S70_gradients_of_gradients) {
    for (const Device &place : places()) {
        Tensor x = leaf({1, 2}, place);
        const Tensor first = lz::autograd::grad({(x * x * x).sum()}, {x}, {}, std::nullopt, true)[0];
        const Tensor second = lz::autograd::grad({first.sum()}, {x}, {}, std::nullopt, true)[0];
        EXPECT_EQ(floats(first), (Floats{3, 12}));
        EXPECT_EQ(floats(second), (Floats{6, 12}));
        EXPECT_EQ(floats(lz::autograd::grad({second.sum()}, {x})[0]), (Floats{6, 6}));
    }
}

TEST(Semantics, S70_in_place_forms_are_right_whatever_backward_needs) {
    for (const Device &place : places()) {
        Tensor x = leaf({0, 0}, place);
        Tensor y = lz::exp(x);
        y.add_(1);
        y.at(0) = 5;
        y.sum().backward();
        EXPECT_EQ(floats(x.grad()), (Floats{0, 1}));
    }
}

TEST(Semantics, S70_backward_is_recorded_like_any_other_work_and_fuses_with_it) {
    for (const Device &place : places()) {
        Tensor x = leaf(Floats(64, 0.5f), place), w = leaf(Floats(64, 2), place);
        lz::sync();
        const int64_t launches = lz::compile_stats().kernel_launches;
        const Tensor y = lz::tanh(x * w);
        const auto g = lz::autograd::grad({y}, {x, w}, {lz::ones({64}, {.device = place})});
        EXPECT_EQ(lz::compile_stats().kernel_launches, launches) << "nothing runs before a sync";
        const std::string text = lz::explain();
        EXPECT_NE(text.find("became 1 kernel "), std::string::npos) << text;
        EXPECT_NEAR(floats(g[1])[0], 0.5f * (1 - std::tanh(1.0f) * std::tanh(1.0f)), 1e-6);
    }
}

TEST(Semantics, S70_the_same_step_never_compiles_again) {
    Tensor w = leaf(Floats(16, 1), kGpu0);
    const auto step = [&](double rate) {
        ((w * w).sum() * 0.5).backward();
        const lz::NoGradGuard no_grad;
        w.sub_(w.grad() * rate);
        w.mutable_grad() = Tensor();
        w.eval();
    };
    step(0.1);
    step(0.1); // now in its own memory
    const int64_t compiled = lz::compile_stats().programs_compiled;
    step(0.2);
    step(0.3);
    EXPECT_EQ(lz::compile_stats().programs_compiled, compiled);
    EXPECT_NEAR(floats(w)[0], 0.9 * 0.9 * 0.8 * 0.7, 1e-6);
}

TEST(Semantics, S70_after_backward_nothing_of_the_graph_is_alive_but_gradients) {
    Tensor x = leaf(Floats(4096, 1), Device::cpu());
    const int64_t before = lz::memory_allocated(Device::cpu());
    {
        const Tensor y = lz::exp(lz::sin(x)), z = lz::sigmoid(y * y).sum();
        lz::sync(); // the saved values are stored
        EXPECT_GT(lz::memory_allocated(Device::cpu()), before + 2 * 16384);
        z.backward();
        lz::sync();
    }
    EXPECT_LE(lz::memory_allocated(Device::cpu()), before + 16384 + 512);
    x.mutable_grad() = Tensor();
    EXPECT_LE(lz::memory_allocated(Device::cpu()), before + 512);
}

TEST(Semantics, S70_failures_of_backward_name_the_line_of_the_forward_and_that_of_backward) {
    Tensor scores = lz::zeros({1, 2}, {.device = kGpu0}).requires_grad_();
    const Tensor label = lz::tensor({7}, {.device = kGpu0});
    const uint32_t forward = __LINE__ + 1;
    Tensor loss = lz::cross_entropy(scores, label);
    const uint32_t backward = __LINE__ + 1;
    loss.backward();
    const Caught error = caught<lz::IndexError>([&] { (void)scores.grad().to_vector<float>(); });
    EXPECT_EQ(error.line, forward) << error.what;
    const std::string name =
        "gradient of cross_entropy (backward at gradients_test.cpp:" + std::to_string(backward) + ")";
    EXPECT_TRUE(error.has(name.c_str())) << error.what;
    EXPECT_TRUE(error.has("7")) << error.what;
}

/// A hook may do what it likes; what it gives is checked when it is computed.
TEST(Semantics, S70_what_a_hook_computes_fails_as_any_operation) {
    LZ_NEEDS_GPUS(2);
    Tensor x = leaf({1, 2}, kGpu0);
    Tensor table = leaf({5, 6}, kGpu1);
    const Tensor y = x * 2;
    uint32_t line = 0;
    y.register_hook([&](const Tensor &g) {
        line = __LINE__ + 1;
        return g + table; // on another device
    });
    y.sum().backward();
    const Caught error = caught<lz::DeviceError>([&] { x.grad().eval(); });
    EXPECT_TRUE(error.has("cuda:0") && error.has("cuda:1")) << error.what;
    EXPECT_EQ(error.line, line) << error.what;
}

/// Of a tensor that is read in many places: however the program is cut, and wherever it runs.
TEST(Semantics, S29_gradients_are_added_up_in_one_order) {
    const auto gradient = [](const Device &device, bool cut) {
        Tensor x = (lz::arange(96).to(lz::f32) * 0.37 - 11).reshape({8, 12}).to(device).requires_grad_();
        const Tensor a = lz::exp(x * 0.1) * x, b = lz::sin(x) / 3, c = lz::softmax(x, 1) * 7,
                     d = x.t().sum(0);
        if (cut)
            lz::eval({a, c});
        const Tensor y = (a + b + c).sum(1) * d;
        if (cut)
            y.eval();
        y.sum().backward();
        return x.grad().to_vector<float>();
    };
    const std::vector<float> expected = gradient(Device::cpu(), false);
    EXPECT_EQ(gradient(Device::cpu(), true), expected);
    EXPECT_EQ(gradient(kGpu0, false), expected);
    EXPECT_EQ(gradient(kGpu0, true), expected);
}

TEST(Semantics, S44_backward_runs_on_the_streams_of_its_forward) {
    const lz::Stream s(kGpu0), t(kGpu0);
    Tensor x = leaf(Floats(64, 1), kGpu0), w = leaf(Floats(64, 2), kGpu0);
    lz::eval({x, w});
    Tensor y, z;
    {
        const lz::StreamGuard guard(s);
        y = lz::exp(x * w);
    }
    {
        const lz::StreamGuard guard(t);
        z = y * y;
    }
    lz::eval({y, z});
    {
        const lz::StreamGuard guard(t); // backward does not care where it is called
        z.backward(lz::ones({64}, {.device = kGpu0}), true);
        EXPECT_EQ(lz::current_stream(kGpu0), t) << "the thread's own again";
    }
    const std::string text = lz::dump(x.grad());
    const std::string on_s = "stream(" + std::to_string(s.id()) + ")",
                      on_t = "stream(" + std::to_string(t.id()) + ")";
    int of_exp = 0, of_product = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.find("gradient of exp") != std::string::npos || line.find("loc") == std::string::npos)
            of_exp += line.find(on_s) != std::string::npos;
        if (line.find(on_t) != std::string::npos)
            ++of_product;
    }
    EXPECT_GT(of_exp, 0) << text;
    EXPECT_GT(of_product, 0) << text;
    const float e = std::exp(2.0f);
    const float found = floats(x.grad())[0];
    EXPECT_NEAR(found / (2 * e * e * 2), 1, 1e-5);
    EXPECT_NEAR(floats(w.grad())[0] / (2 * e * e), 1, 1e-5) << "used on the default stream";
}

} // namespace
