// The rows of elementwise primitives beside central differences: each over a broadcast, 0-dim and empty
// operands.
#include "check.h"

namespace {

using namespace lz::test;
using lz::Tensor;

Case of_one(const char *name, Tensor (*function)(const Tensor &, lz::Location), double low, double high) {
    return {name,
            [=](const Inputs &x) { return function(x[0], lz::Location::current()); },
            {numbers({2, 3}, low, high)}};
}

TEST(Gradients, ElementwiseFunctionsOfOneOperand) {
    check_all({
        of_one("exp", lz::exp, -2, 2),
        of_one("expm1", lz::expm1, -2, 2),
        of_one("log", lz::log, 0.2, 3),
        of_one("log1p", lz::log1p, -0.5, 3),
        of_one("log2", lz::log2, 0.2, 3),
        of_one("sqrt", lz::sqrt, 0.2, 3),
        of_one("rsqrt", lz::rsqrt, 0.2, 3),
        of_one("sin", lz::sin, -3, 3),
        of_one("cos", lz::cos, -3, 3),
        of_one("tan", lz::tan, -1.2, 1.2),
        of_one("asin", lz::asin, -0.8, 0.8),
        of_one("acos", lz::acos, -0.8, 0.8),
        of_one("atan", lz::atan, -3, 3),
        of_one("sinh", lz::sinh, -2, 2),
        of_one("cosh", lz::cosh, -2, 2),
        of_one("tanh", lz::tanh, -2, 2),
        of_one("erf", lz::erf, -2, 2),
        of_one("sigmoid", lz::sigmoid, -3, 3),
        of_one("neg", lz::neg, -2, 2),
        of_one("abs", lz::abs, -2, 2),
        of_one("floor", lz::floor, -2, 2),
        of_one("ceil", lz::ceil, -2, 2),
        of_one("round", lz::round, -2, 2),
        of_one("trunc", lz::trunc, -2, 2),
        of_one("sign", lz::sign, -2, 2),
        of_one("square", lz::square, -2, 2),
        of_one("reciprocal", lz::reciprocal, 1, 3),
        of_one("log10", lz::log10, 1, 3),
        of_one("exp2", lz::exp2, -2, 2),
        of_one("erfc", lz::erfc, -2, 3),
        of_one("lgamma", lz::lgamma, 0.3, 12),
        of_one("lgamma below 0", lz::lgamma, -2.9, -2.1),
        of_one("digamma", lz::digamma, 0.4, 12),
        of_one("silu", lz::silu, -3, 3),
        of_one("relu", lz::relu, -2, 2),
    });
}

/// Of two operands, in shapes that broadcast both ways, 0-dim, and empty.
void of_two(std::vector<Case> &cases, const std::string &name,
            const std::function<Tensor(Tensor, Tensor)> &function, double low, double high) {
    const auto add = [&](const char *shapes, const lz::Sizes &a, const lz::Sizes &b) {
        cases.push_back({name + shapes,
                         [=](const Inputs &x) { return function(x[0], x[1]); },
                         {numbers(a, low, high), numbers(b, (low + high) / 2 - 0.1, high + 0.3)}});
    };
    add(" [2,3] [2,3]", {2, 3}, {2, 3});
    add(" [2,1] [3]", {2, 1}, {3});
    add(" [] [4]", lz::Sizes(), {4});
    add(" [4] []", {4}, lz::Sizes());
    add(" [0,3] [3]", {0, 3}, {3});
}

TEST(Gradients, ElementwiseFunctionsOfTwoOperands) {
    std::vector<Case> cases;
    of_two(cases, "add", [](Tensor a, Tensor b) { return a + b; }, -2, 2);
    of_two(cases, "sub", [](Tensor a, Tensor b) { return a - b; }, -2, 2);
    of_two(cases, "mul", [](Tensor a, Tensor b) { return a * b; }, -2, 2);
    of_two(cases, "div", [](Tensor a, Tensor b) { return a / b; }, 0.5, 2);
    of_two(cases, "pow", [](Tensor a, Tensor b) { return lz::pow(a, b); }, 0.5, 2);
    of_two(cases, "atan2", [](Tensor a, Tensor b) { return lz::atan2(a, b); }, -2, 2);
    of_two(cases, "minimum", [](Tensor a, Tensor b) { return lz::minimum(a, b); }, -2, 2);
    of_two(cases, "maximum", [](Tensor a, Tensor b) { return lz::maximum(a, b); }, -2, 2);
    of_two(cases, "fmod", [](Tensor a, Tensor b) { return lz::fmod(a * 5, b); }, 1, 2);
    of_two(cases, "remainder", [](Tensor a, Tensor b) { return lz::remainder(a * 5, b); }, 1, 2);
    of_two(cases, "where", [](Tensor a, Tensor b) { return lz::where(a > 0, a * b, b); }, -2, 2);
    of_two(cases, "floor_divide", [](Tensor a, Tensor b) { return lz::floor_divide(a * 5, b) * a; }, 1, 2);
    check_all(cases);
}

TEST(Gradients, NumbersBesideTensors) {
    const Tensor x = numbers({3, 2}, 0.5, 2);
    check_all({
        {"3 - x", [](const Inputs &i) { return 3 - i[0]; }, {x}},
        {"x * 2 + 1", [](const Inputs &i) { return i[0] * 2 + 1; }, {x}},
        {"2 / x", [](const Inputs &i) { return 2 / i[0]; }, {x}},
        {"x^2", [](const Inputs &i) { return lz::pow(i[0], 2); }, {x}},
        {"x^3", [](const Inputs &i) { return lz::pow(i[0], 3); }, {x}},
        {"x^0.5", [](const Inputs &i) { return lz::pow(i[0], 0.5); }, {x}},
        {"x^0", [](const Inputs &i) { return lz::pow(i[0], 0) + i[0]; }, {x}},
        {"2^x", [](const Inputs &i) { return lz::pow(2, i[0]); }, {x}},
        {"x^-1", [](const Inputs &i) { return lz::pow(i[0], -1); }, {x}},
        {"x^4", [](const Inputs &i) { return lz::pow(i[0] - 1, 4); }, {x}},
        {"x^-2", [](const Inputs &i) { return lz::pow(i[0], -2); }, {x}},
        {"x^-0.5", [](const Inputs &i) { return lz::pow(i[0], -0.5); }, {x}},
        {"add alpha", [](const Inputs &i) { return i[0].add(i[1], 0.5); }, {x, numbers({2})}},
        {"addcmul", [](const Inputs &i) { return lz::addcmul(i[0], i[1], i[2], 0.5); }, {x, numbers({2}), x}},
        {"lerp", [](const Inputs &i) { return lz::lerp(i[0], i[1], 0.3); }, {x, x + 1}},
        {"lerp by a number",
         [](const Inputs &i) { return lz::lerp(i[0], i[1], i[2]); },
         {x, x + 1, numbers({}, 0.2, 0.4)}},
        {"where of a number",
         [](const Inputs &i) { return lz::where(i[0] > 1, i[0] * i[1], i[1]); },
         {x, numbers({}, 0.2, 0.4)}},
        {"addcdiv by a number",
         [](const Inputs &i) { return lz::addcdiv(i[0], i[1], i[2], 0.5); },
         {x, x + 1, numbers({}, 1, 2)}},
        {"add alpha of a number", [](const Inputs &i) { return i[0].add(i[1], 0.5); }, {x, numbers({})}},
        {"masked_fill by a number",
         [](const Inputs &i) { return i[0].masked_fill(i[0] > 1, i[1]) * i[0]; },
         {x, numbers({})}},
    });
}

TEST(Gradients, AtCornersTheyAreThoseOfPyTorch) {
    const auto gradient = [](const Function &f, const std::vector<double> &at) {
        Tensor x = lz::tensor<double>(at, {.requires_grad = true});
        f({x}).sum().backward();
        return x.grad().to_vector<double>();
    };
    using V = std::vector<double>;
    EXPECT_EQ(gradient([](const Inputs &i) { return i[0].abs(); }, {-1, 0, 2}), (V{-1, 0, 1}));
    EXPECT_EQ(gradient([](const Inputs &i) { return lz::maximum(i[0], lz::zeros({3}, {.dtype = lz::f64})); },
                       {-1, 0, 2}),
              (V{0, 0.5, 1}));
    EXPECT_EQ(gradient([](const Inputs &i) { return lz::pow(i[0], 2); }, {-1, 0, 2}), (V{-2, 0, 4}));
    EXPECT_EQ(gradient([](const Inputs &i) { return lz::pow(0.0, i[0]); }, {1, 2, 3}), (V{0, 0, 0}));
    EXPECT_EQ(
        gradient([](const Inputs &i) { return lz::pow(i[0], lz::zeros({2}, {.dtype = lz::f64})); }, {0, 3}),
        (V{0, 0}));
    EXPECT_EQ(gradient([](const Inputs &i) { return lz::atan2(i[0], i[0] * 0); }, {0, 2}), (V{0, 0}));
    EXPECT_EQ(gradient([](const Inputs &i) { return lz::where(i[0] > 0, i[0] * 3, 0.0); }, {-1, 0, 2}),
              (V{0, 0, 3}));
}

TEST(Gradients, HaveTheDtypeOfTheirTensorAndHalfTypesAreComputedInF32) {
    for (const lz::DType dtype : {lz::f16, lz::bf16, lz::f32}) {
        Tensor x = lz::tensor({0.5, 1.5}, {.dtype = dtype, .requires_grad = true});
        Tensor y = lz::tensor({2.0, 4.0}, {.dtype = lz::f64, .requires_grad = true});
        (x.to(lz::f64) * y).sum().backward();
        EXPECT_EQ(x.grad().dtype(), dtype);
        EXPECT_EQ(y.grad().dtype(), lz::f64);
        EXPECT_EQ(x.grad().to(lz::f64).to_vector<double>(), (std::vector<double>{2, 4}));
    }
    // 1 - tanh(x)^2 in f16 alone would lose all digits.
    Tensor x = lz::full({1}, 4.0, {.dtype = lz::f16, .requires_grad = true});
    x.tanh().sum().backward();
    const double t = static_cast<double>(lz::Half(std::tanh(4.0f)));
    EXPECT_NEAR(x.grad().item<double>(), 1 - t * t, 1e-6);
}

/// The exponent is what its dtype makes of the number, in the gradient as in the result (S66).
TEST(Gradients, ExponentsOfHalfTypesAreThoseOfTheResult) {
    for (const lz::DType dtype : {lz::f16, lz::bf16}) {
        const auto gradient = [&](auto power) {
            Tensor x = lz::tensor({0.3, 0.7, 5.3}).to(dtype).requires_grad_();
            power(x).sum().backward();
            return x.grad().to(lz::f64).to_vector<double>();
        };
        const Tensor exponent = lz::full({}, 1.7, {.dtype = dtype}).eval();
        EXPECT_EQ(gradient([](const Tensor &x) { return x.pow(1.7); }),
                  gradient([&](const Tensor &x) { return lz::pow(x, exponent); }));
    }
}

} // namespace
