#include "tests/support/tensor_values.h"

namespace {

using namespace lz::test;
using lz::Tensor;

const Values kInputs = {-4, -1.5, -0.25, 0, 0.5, 2, 30};

Values map(const std::function<double(double)> &f) {
    Values out;
    for (const double x : kInputs)
        out.push_back(f(x));
    return out;
}

TEST(Functional, Activations) {
    const Tensor x = lz::tensor(kInputs, {.dtype = lz::f32});
    expect_values(lz::gelu(x), map([](double v) { return v * 0.5 * (1 + std::erf(v / std::sqrt(2))); }),
                  3e-6);
    const auto tanh_gelu = [](double v) {
        return 0.5 * v * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (v + 0.044715 * v * v * v)));
    };
    expect_values(lz::gelu(x, lz::Gelu::Tanh), map(tanh_gelu), 3e-6);
    expect_values(lz::softplus(x), map([](double v) { return std::log1p(std::exp(v)); }), 3e-6);
    expect_values(lz::softplus(x, 2, 1),
                  map([](double v) { return 2 * v > 1 ? v : std::log1p(std::exp(2 * v)) / 2; }), 3e-6);
    expect_values(lz::leaky_relu(x, 0.1), map([](double v) { return v > 0 ? v : 0.1 * v; }), 1e-6);
    EXPECT_EQ(lz::gelu(x.to(lz::bf16)).dtype(), lz::bf16);
    EXPECT_EQ(lz::gelu(lz::tensor({1})).dtype(), lz::f32);
}

TEST(Functional, SoftmaxOverAnyAxis) {
    const Tensor x = lz::tensor({{1.0, 2.0, 1000.0}, {0.0, 0.0, 0.0}});
    expect_values(lz::softmax(x, 1), {0, 0, 1, 1.0 / 3, 1.0 / 3, 1.0 / 3}, 1e-6);
    const double e = std::exp(1), d = std::exp(2);
    expect_values(x.softmax(0).slice(1, 0, 2), {e / (e + 1), d / (d + 1), 1 / (e + 1), 1 / (d + 1)}, 1e-6);
    expect_values(x.log_softmax(1).select(0, 1), {-std::log(3), -std::log(3), -std::log(3)}, 1e-6);
    expect_values(lz::log_softmax(x, 1).select(0, 0), {-999, -998, 0}, 1e-3);
    expect_tensor(lz::softmax(lz::tensor({1, 1}), 0, lz::f64), {2}, lz::f64, {0.5, 0.5});
    expect_values(lz::softmax(lz::tensor(3.0), 0), {1});
    EXPECT_EQ(lz::softmax(lz::zeros({0, 2}), 0).sizes(), (Extents{0, 2}));
    expect_error<lz::DTypeError>([] { lz::softmax(lz::tensor({1, 1}), 0); }, {"softmax", "i64"});
    expect_error<lz::IndexError>([&] { lz::softmax(x, 2); }, {"softmax", "axis 2"});
}

TEST(Functional, Normalizations) {
    const Tensor x = lz::tensor({{1.0, 2.0, 6.0}, {-1.0, 0.0, 1.0}}), w = lz::tensor({1.0, 2.0, 3.0}),
                 b = lz::tensor({0.5, 0.0, -0.5});
    const double s0 = std::sqrt((4 + 1 + 9) / 3.0 + 1e-5), s1 = std::sqrt(2 / 3.0 + 1e-5);
    expect_values(lz::layer_norm(x, {3}), {-2 / s0, -1 / s0, 3 / s0, -1 / s1, 0, 1 / s1}, 2e-6);
    expect_values(lz::layer_norm(x, {3}, w, b),
                  {-2 / s0 + 0.5, -2 / s0, 9 / s0 - 0.5, -1 / s1 + 0.5, 0, 3 / s1 - 0.5}, 4e-6);
    expect_values(lz::layer_norm(x, {2, 3}).mean(), {0}, 1e-6);
    const double r0 = std::sqrt(41 / 3.0), r1 = std::sqrt(2 / 3.0);
    expect_values(lz::rms_norm(x, {3}, w), {1 / r0, 4 / r0, 18 / r0, -1 / r1, 0, 3 / r1}, 4e-6);
    EXPECT_EQ(lz::layer_norm(x.to(lz::f16), {3}).dtype(), lz::f16);
    expect_error<lz::ShapeError>([&] { lz::layer_norm(x, {2}); }, {"layer_norm", "[2]", "f32[2,3]"});
    expect_error<lz::ShapeError>([&] { lz::layer_norm(x, {3}, lz::ones({2})); },
                                 {"layer_norm", "[2]", "[3]"});
    expect_error<lz::DTypeError>([] { lz::rms_norm(lz::tensor({1, 2}), {2}); }, {"rms_norm", "i64"});
}

TEST(Functional, CrossEntropy) {
    const Tensor x = lz::tensor({{1.0, 2.0, 0.5}, {0.0, -1.0, 3.0}});
    const auto row = [](double a, double b, double c, double t) {
        return std::log(std::exp(a) + std::exp(b) + std::exp(c)) - t;
    };
    const double l0 = row(1, 2, 0.5, 2), l1 = row(0, -1, 3, 0);
    const Tensor classes = lz::tensor({1, 0});
    expect_tensor(lz::cross_entropy(x, classes), {}, lz::f32, {(l0 + l1) / 2}, 1e-6);
    expect_values(lz::cross_entropy(x, classes, {.reduction = lz::Reduction::None}), {l0, l1}, 1e-6);
    expect_values(lz::cross_entropy(x, classes, {.reduction = lz::Reduction::Sum}), {l0 + l1}, 1e-6);
    expect_values(lz::cross_entropy(x, lz::tensor({1, -100})), {l0}, 1e-6);
    expect_values(lz::cross_entropy(x, lz::tensor({1, 2}), {.ignore_index = 2}), {l0}, 1e-6);
    const double u0 = row(1, 2, 0.5, 3.5 / 3), u1 = row(0, -1, 3, 2.0 / 3);
    expect_values(lz::cross_entropy(x, classes, {.label_smoothing = 0.1}),
                  {(0.9 * (l0 + l1) + 0.1 * (u0 + u1)) / 2}, 1e-6);
    expect_values(lz::cross_entropy(x, lz::tensor({{0.0, 1.0, 0.0}, {1.0, 0.0, 0.0}})), {(l0 + l1) / 2},
                  1e-6);
    expect_values(lz::nll_loss(lz::log_softmax(x, 1), classes), {(l0 + l1) / 2}, 1e-6);
    expect_values(lz::cross_entropy(x[0], lz::tensor(1)), {l0}, 1e-6);
    const Tensor image = x.t().reshape({1, 3, 2}); // [n, classes, pixels]
    expect_values(lz::cross_entropy(image, lz::tensor({{1, 0}})), {(l0 + l1) / 2}, 1e-6);
    expect_error<lz::ShapeError>([&] { lz::cross_entropy(x, lz::tensor({1})); },
                                 {"cross_entropy", "[1]", "[2]"});
    expect_error<lz::DTypeError>([&] { lz::cross_entropy(lz::tensor({{1}}), lz::tensor({0})); }, {"i64"});
    expect_error<lz::StateError>([&] { lz::cross_entropy(x, classes, {.label_smoothing = 2}); },
                                 {"smoothing"});
    try {
        lz::cross_entropy(x, lz::tensor({1, 3})).item<float>();
        ADD_FAILURE() << "no error";
    } catch (const lz::IndexError &error) {
        EXPECT_EQ(error.line(), static_cast<uint32_t>(__LINE__ - 3));
    }
}

TEST(Functional, CrossEntropySaysThatClassesAreIntegers) {
    expect_error<lz::DTypeError>([] { lz::cross_entropy(lz::ones({3, 5}), lz::ones({3})); },
                                 {"cross_entropy", "f32[3]", "i64", "[3,5]"});
}

TEST(Functional, MeanSquares) {
    const Tensor x = lz::tensor({1.0, 2.0}), y = lz::tensor({0.0, 4.0});
    expect_values(lz::mse_loss(x, y), {2.5});
    expect_values(lz::mse_loss(x, y, lz::Reduction::Sum), {5});
    expect_values(lz::mse_loss(x, y, lz::Reduction::None), {1, 4});
    expect_error<lz::ShapeError>([&] { lz::mse_loss(x, lz::ones({3})); }, {"[2]", "[3]"});
}

} // namespace
