// S23 within one expression: what only temporaries of C++ hold is not stored, what a handle holds is.
#include "tests/support/environment.h"
#include "tests/support/tensor_values.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using lz::Tensor;
using lz::test::expect_values;

constexpr int64_t kRows = 512, kColumns = 2048, kCount = kRows * kColumns;
constexpr int64_t kBytes = 4 * kCount; ///< of a large tensor; what is smaller than an eighth is no matter

/// Large tensors' worth of memory that was needed at once while f ran, beyond what was there.
double stored_by(const std::function<void()> &f) {
    lz::sync();
    const lz::Device device = lz::get_default_device();
    lz::reset_peak_memory_stats(device);
    const int64_t before = lz::memory_allocated(device);
    f();
    return static_cast<double>(lz::max_memory_allocated(device) - before) / static_cast<double>(kBytes);
}

class Temporaries : public testing::Test {
protected:
    void SetUp() override {
        LZ_NEEDS_JIT(); // the interpreter stores everything
        lz::eval({x, y, mask});
    }
    const Tensor x = lz::full({kRows, kColumns}, 0.5), y = lz::full({kRows, kColumns}, 0.25);
    const Tensor mask = x > 2 * y;
};

TEST_F(Temporaries, S23_of_operators_are_not_stored) {
    const std::vector<std::pair<std::string, std::function<double()>>> expressions = {
        {"of numbers", [&] { return (x * 2 + 1).sum().item<double>(); }},
        {"on the right", [&] { return (1 - (x - y)).sum().item<double>(); }},
        {"on both sides", [&] { return ((x + y) * (x - y)).sum().item<double>(); }},
        {"negated", [&] { return (-(x + y)).sum().item<double>(); }},
        {"compared", [&] { return (~(x * 2 > y + y)).sum().item<double>(); }},
        {"named functions", [&] { return lz::sum(lz::maximum(x * 2, lz::mul(y, 3))).item<double>(); }},
        {"of another dtype", [&] { return (x.to(lz::f64) * 2 + y * 1).sum().item<double>(); }},
        {"with a factor", [&] { return lz::add(x * 2, y * 3, 0.5).sub(x + y, 2).sum().item<double>(); }},
    };
    for (const auto &[what, f] : expressions)
        EXPECT_LT(stored_by(f), 0.125) << what;
}

TEST_F(Temporaries, S23_of_methods_are_not_stored) {
    const std::vector<std::pair<std::string, std::function<double()>>> expressions = {
        {"variance", [&] { return (x - x.mean()).square().mean().item<double>(); }},
        {"unary", [&] { return (x * 2).exp().relu().neg().sum().item<double>(); }},
        {"binary", [&] { return (x * 2).add(y + 1).lt(x + y).sum().item<double>(); }},
        {"views", [&] { return (x * 2).reshape({kCount}).unsqueeze(0).sum().item<double>(); }},
        {"casts", [&] { return (x * 2).to(lz::f16).to(lz::f32).contiguous().sum().item<double>(); }},
        {"where", [&] { return lz::where(x > y, x * 2, y - 1).sum().item<double>(); }},
        {"filled", [&] { return (x * 2).masked_fill(mask, y.sum() * 2).clamp(0, 1).sum().item<double>(); }},
        {"random", [&] { return lz::rand({kRows, kColumns}).sum().item<double>(); }},
        {"reductions", [&] { return (x + y).sum(-1, true).sub(1).abs().amax().item<double>(); }},
        {"extremes", [&] { return (x + y).max(1).values.sum().item<double>(); }},
    };
    for (const auto &[what, f] : expressions)
        EXPECT_LT(stored_by(f), 0.125) << what;
}

TEST_F(Temporaries, S23_of_functions_are_not_stored) {
    const std::vector<std::pair<std::string, std::function<double()>>> expressions = {
        {"unary", [&] { return lz::exp(x * 2).sum().item<double>(); }},
        {"composed", [&] { return lz::sum(lz::silu(lz::square(x + y))).item<double>(); }},
        {"of networks", [&] { return lz::mean(lz::gelu(lz::softplus(x * 2 + 1))).item<double>(); }},
        {"loss", [&] { return lz::mse_loss(x * 2, y).item<double>(); }},
        {"norm", [&] { return lz::norm(x - y).item<double>(); }},
        {"counted", [&] { return lz::sum(lz::isclose(x * 2, y)).item<double>(); }},
    };
    for (const auto &[what, f] : expressions)
        EXPECT_LT(stored_by(f), 0.125) << what;
    // Of these the result is large.
    EXPECT_LT(stored_by([&] { lz::softmax(x * 2, -1).eval(); }), 1.125);
    EXPECT_LT(stored_by([&] { lz::layer_norm(x * 2 + y, {kColumns}).eval(); }), 1.125);
    EXPECT_LT(stored_by([&] { (x * 2).log_softmax(-1).eval(); }), 1.125);
}

TEST_F(Temporaries, S23_second_tensors_are_not_stored) {
    const Tensor row = lz::ones({1, kColumns}).eval();
    const std::vector<std::pair<std::string, std::function<double()>>> expressions = {
        {"transposed", [&] { return lz::matmul(row, x.t()).sum().item<double>(); }},
        {"method", [&] { return row.mm((x * 2).t()).sum().item<double>(); }},
        {"vectors", [&] { return lz::dot(x.flatten() * 2, (y + 1).flatten()).item<double>(); }},
        {"linear", [&] { return lz::linear(row, x * 2).sum().item<double>(); }},
        {"mask", [&] { return x.masked_fill(x > y, 0).sum().item<double>(); }},
        {"target", [&] { return lz::mse_loss(x, y * 2 + 1).item<double>(); }},
        {"close", [&] { return lz::isclose(x, y * 2).sum().item<double>(); }},
        {"logaddexp", [&] { return lz::logaddexp(x * 2, y - 1).sum().item<double>(); }},
    };
    for (const auto &[what, f] : expressions)
        EXPECT_LT(stored_by(f), 0.125) << what;
}

TEST_F(Temporaries, S23_what_a_handle_can_reach_is_stored) {
    Tensor doubled;
    EXPECT_GE(stored_by([&] {
                  const Tensor named = x * 2 + 1;
                  EXPECT_EQ(named.sum().item<double>(), 2 * kCount);
              }),
              1);
    EXPECT_GE(stored_by([&] { EXPECT_EQ((doubled = x * 2).sum().item<double>(), kCount); }), 1);
    expect_values(doubled.slice(0, 0, 1).slice(1, 0, 2), {1, 1});
    const auto copy = [](Tensor t) { return t; };
    EXPECT_EQ(copy(doubled).sum().item<double>(), kCount);
    EXPECT_EQ((copy(doubled) * copy(doubled)).sum().item<double>(), kCount);
    EXPECT_TRUE(doubled.defined());
    expect_values(doubled.slice(0, 0, 1).slice(1, 0, 2), {1, 1});
}

TEST(Semantics, S23_what_was_moved_into_an_operation_is_empty) {
    const std::vector<std::pair<std::string, std::function<Tensor(Tensor &&)>>> operations = {
        {"operator", [](Tensor &&t) { return std::move(t) + 1; }},
        {"right operand", [](Tensor &&t) { return 1 + std::move(t); }},
        {"function of two", [](Tensor &&t) { return lz::add(std::move(t), 1); }},
        {"negation", [](Tensor &&t) { return -(-std::move(t)) + 1; }},
        {"method", [](Tensor &&t) { return std::move(t).add(1); }},
        {"function", [](Tensor &&t) { return lz::abs(std::move(t)) + 1; }},
        {"composed", [](Tensor &&t) { return std::move(t).relu() + 1; }},
        {"view", [](Tensor &&t) { return std::move(t).reshape({2}) + 1; }},
        {"itself", [](Tensor &&t) { return std::move(t).to(lz::f32) + 1; }},
        {"where", [](Tensor &&t) { return lz::where(t > 0, std::move(t), 0) + 1; }},
        {"second of a product", [](Tensor &&t) { return lz::matmul(lz::eye(2), std::move(t)) + 1; }},
        {"second of a method", [](Tensor &&t) { return lz::eye(2).matmul(std::move(t)) + 1; }},
        {"both of a product",
         [](Tensor &&t) { return lz::outer(std::move(t), lz::ones({1})).flatten() + 1; }},
        {"twice", [](Tensor &&t) { return (std::move(t) + std::move(t)) / 2 + 1; }},
        {"in place",
         [](Tensor &&t) {
             Tensor one = lz::ones({2});
             return one += std::move(t);
         }},
    };
    for (const auto &[what, f] : operations) {
        Tensor t = lz::tensor({2.0f, 3.0f});
        const Tensor other = t, result = f(std::move(t));
        EXPECT_FALSE(t.defined()) << what; // NOLINT(bugprone-use-after-move): this is about that
        expect_values(other, {2, 3});
        expect_values(result, {3, 4});
        lz::test::expect_error<lz::StateError>([&] { t.exp(); }, {"exp", "empty"});
        lz::test::expect_error<lz::StateError>([&] { t + 1; }, {"add", "empty"});
    }
}

TEST(Semantics, S23_what_an_operation_refuses_stays) {
    const auto refused = [](const char *what, const std::function<void(Tensor &)> &f) {
        Tensor t = lz::tensor({2.0f, 3.0f});
        EXPECT_THROW(f(t), lz::Error) << what;
        ASSERT_TRUE(t.defined()) << what;
        expect_values(t, {2, 3});
    };
    const Tensor three = lz::ones({3});
    Tensor whole = lz::tensor({1, 2});
    refused("operator", [&](Tensor &t) { std::move(t) + three; });
    refused("right operand", [&](Tensor &t) { three + std::move(t); });
    refused("a later step of the same function", [&](Tensor &t) { lz::add(three, std::move(t), 2); });
    refused("method", [&](Tensor &t) { std::move(t).reshape({5}); });
    refused("function", [&](Tensor &t) { lz::sum(std::move(t), {4}); });
    refused("second of a product", [&](Tensor &t) { lz::matmul(three, std::move(t)); });
    refused("second of a method", [&](Tensor &t) { three.dot(std::move(t)); });
    refused("bits", [&](Tensor &t) { ~std::move(t); });
    refused("where", [&](Tensor &t) { lz::where(three > 0, std::move(t), 0); });
    refused("in place", [&](Tensor &t) { whole += std::move(t); }); // floats do not become integers
    refused("device", [&](Tensor &t) { std::move(t).cuda(lz::Device::cpu()); });
    EXPECT_EQ(whole.to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
}

TEST(Semantics, S23_a_tensor_moved_onto_itself_in_place_stays) {
    Tensor t = lz::tensor({2.0f, 3.0f});
    t += std::move(t);
    expect_values(t, {4, 6});
    t.mul_(std::move(t));
    expect_values(t, {16, 36});
}

/// A function of a user's, who reads an operand more than once.
Tensor cubed(lz::Operand x) {
    return x * x * x;
}
Tensor cubed_by_reference(const lz::Operand &x) {
    return lz::mul(x, lz::mul(x, x));
}
TEST(Semantics, S23_an_operand_that_is_passed_on_stays) {
    const Tensor t = lz::tensor({2.0f, 3.0f});
    expect_values(cubed(t + 1), {27, 64});
    expect_values(cubed_by_reference(t + 1), {27, 64});
}

TEST(Semantics, S23_names_of_rvalues_are_handles) {
    auto &&sum = lz::tensor({2.0f, 3.0f}) + 1;
    expect_values(sum.exp().log(), {3, 4}, 1e-5);
    expect_values(sum * 2, {6, 8});
    const auto constant = [] { return static_cast<const Tensor>(lz::tensor({2.0f, 3.0f})); };
    expect_values(constant() * 2 + constant().neg(), {2, 3});
}

TEST(Semantics, S23_parts_are_temporaries_too) {
    Tensor t = lz::tensor({2.0f, 3.0f, 5.0f});
    expect_values(t.at({lz::Slice(1, 3)}).exp().log() + t.at({0}), {5, 7}, 1e-5);
    expect_values(lz::square(t.at(t > 2)) - t.at(t > 2).sum(), {1, 17});
    expect_values((t * 2).at({lz::Slice(1, 3)}).sum(), {16});
    t.at({0}) += t.at({1}) * 2;
    expect_values(t, {8, 3, 5});
}

} // namespace
