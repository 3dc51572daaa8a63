// The program of LibTorch's tutorial "Autograd in C++ frontend", as it stands there but for the namespace.
#include "tests/support/caught.h"
#include "tests/support/tensor_values.h"

#include <iostream>
#include <sstream>

namespace torch = lz; // NOLINT

namespace {

using namespace lz::test;

TEST(AutogradTutorial, BasicOperations) {
    std::ostringstream out;
    auto x = torch::ones({2, 2}, torch::requires_grad());
    out << x << std::endl;
    auto y = x + 2;
    out << y << std::endl;
    out << y.grad_fn()->name() << std::endl;
    auto z = y * y * 3;
    auto mean = z.mean();
    out << z.grad_fn()->name() << std::endl;
    out << mean << std::endl;
    // What torch prints in Python.
    EXPECT_EQ(out.str(), "tensor([[1., 1.],\n        [1., 1.]], requires_grad=True)\n"
                         "tensor([[3., 3.],\n        [3., 3.]], grad_fn=<AddBackward0>)\n"
                         "AddBackward0\nMulBackward0\n"
                         "tensor(27., grad_fn=<MeanBackward0>)\n");
    auto a = torch::randn({2, 2});
    a = ((a * 3) / (a - 1));
    EXPECT_FALSE(a.requires_grad());
    a.requires_grad_(true);
    EXPECT_TRUE(a.requires_grad());
    auto b = (a * a).sum();
    EXPECT_EQ(b.grad_fn()->name(), "SumBackward0");
    mean.backward();
    expect_values(x.grad(), {4.5, 4.5, 4.5, 4.5});
}

TEST(AutogradTutorial, VectorJacobianProduct) {
    torch::manual_seed(0);
    auto x = torch::randn(3, torch::requires_grad());
    auto y = x * 2;
    double factor = 2;
    while (y.norm().item<double>() < 1000) {
        y = y * 2;
        factor *= 2;
    }
    auto v = torch::tensor({0.1, 1.0, 0.0001}, torch::kFloat);
    y.backward(v);
    expect_values(x.grad(), {0.1 * factor, factor, 0.0001 * factor}, 1e-3);

    EXPECT_TRUE(x.requires_grad());
    EXPECT_TRUE(x.pow(2).requires_grad());
    {
        torch::NoGradGuard no_grad;
        EXPECT_FALSE(x.pow(2).requires_grad());
    }
    {
        torch::autograd::AutoGradMode enable_grad(false);
        EXPECT_FALSE(x.pow(2).requires_grad());
    }
    y = x.detach();
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(x.eq(y).all().item<bool>());
}

using namespace torch::autograd; // NOLINT

class LinearFunction : public Function<LinearFunction> {
public:
    // bias is an optional argument
    static torch::Tensor forward(AutogradContext *ctx, torch::Tensor input, torch::Tensor weight,
                                 torch::Tensor bias = torch::Tensor()) {
        ctx->save_for_backward({input, weight, bias});
        auto output = input.mm(weight.t());
        if (bias.defined()) {
            output += bias.unsqueeze(0).expand_as(output);
        }
        return output;
    }

    static tensor_list backward(AutogradContext *ctx, tensor_list grad_outputs) {
        auto saved = ctx->get_saved_variables();
        auto input = saved[0];
        auto weight = saved[1];
        auto bias = saved[2];

        auto grad_output = grad_outputs[0];
        auto grad_input = grad_output.mm(weight);
        auto grad_weight = grad_output.t().mm(input);
        auto grad_bias = torch::Tensor();
        if (bias.defined()) {
            grad_bias = grad_output.sum(0);
        }
        return {grad_input, grad_weight, grad_bias};
    }
};

class MulConstant : public Function<MulConstant> {
public:
    static torch::Tensor forward(AutogradContext *ctx, torch::Tensor tensor, double constant) {
        ctx->saved_data["constant"] = constant;
        return tensor * constant;
    }

    static tensor_list backward(AutogradContext *ctx, tensor_list grad_outputs) {
        return {grad_outputs[0] * ctx->saved_data["constant"].toDouble(), torch::Tensor()};
    }
};

TEST(AutogradTutorial, FunctionsOfOnesOwn) {
    auto x = torch::randn({2, 3}).requires_grad_();
    auto weight = torch::randn({4, 3}).requires_grad_();
    auto y = LinearFunction::apply(x, weight);
    y.sum().backward();
    EXPECT_TRUE(torch::allclose(x.grad(), weight.sum(0).expand({2, 3}), 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(weight.grad(), x.sum(0).expand({4, 3}), 1e-5, 1e-6));
    auto bias = torch::zeros({4}, torch::requires_grad());
    auto with_bias = LinearFunction::apply(x.detach(), weight, bias);
    EXPECT_EQ(with_bias.grad_fn()->name(), "LinearFunctionBackward");
    with_bias.sum().backward();
    expect_values(bias.grad(), {2, 2, 2, 2});

    auto v = torch::randn({2}).requires_grad_();
    MulConstant::apply(v, 5.5).sum().backward();
    expect_values(v.grad(), {5.5, 5.5});
}

struct GivesTooFew : Function<GivesTooFew> {
    static torch::Tensor forward(AutogradContext *, torch::Tensor x, double factor) { return x * factor; }
    static tensor_list backward(AutogradContext *, tensor_list grads) { return {grads[0]}; }
};
struct GivesTooMany : Function<GivesTooMany> {
    static torch::Tensor forward(AutogradContext *, torch::Tensor x) { return x.exp(); }
    static tensor_list backward(AutogradContext *, tensor_list grads) { return {grads[0], grads[0]}; }
};
struct GivesAnotherShape : Function<GivesAnotherShape> {
    static torch::Tensor forward(AutogradContext *, torch::Tensor x) { return x * 2; }
    static tensor_list backward(AutogradContext *, tensor_list) { return {torch::ones({5})}; }
};

TEST(AutogradTutorial, AFunctionThatGivesWrongGradientsIsBlamedByItsName) {
    const torch::Tensor x = torch::ones({2}, torch::requires_grad());
    const auto message = [](const torch::Tensor &y, const char *words, const char *name) {
        const Caught error = caught<lz::Error>([&] { y.sum().backward(); });
        EXPECT_TRUE(error.has(words) && error.has(name)) << error.what;
        EXPECT_FALSE(error.has("gradient of mul")) << error.what;
    };
    message(GivesTooFew::apply(x, 2), "backward gave 1 gradients; its forward has 2 arguments",
            "gradient of GivesTooFew (");
    message(GivesTooMany::apply(x), "backward gave 2 gradients; its forward has 1 arguments",
            "gradient of GivesTooMany (");
    message(GivesAnotherShape::apply(x),
            "backward gave f32[5] as the gradient of argument 0, which is f32[2]",
            "gradient of GivesAnotherShape (");
}

} // namespace
