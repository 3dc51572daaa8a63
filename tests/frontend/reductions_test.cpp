#include "tests/support/tensor_values.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace {

using namespace lz::test;
using lz::Tensor;

const Tensor &sample() {
    static const Tensor x = lz::tensor({{1.0, 2.0, 4.0}, {-3.0, 0.5, 6.0}});
    return x;
}

TEST(Reductions, SumsAndProducts) {
    const Tensor x = sample();
    expect_tensor(x.sum(), {}, lz::f32, {10.5});
    expect_tensor(x.sum(0), {3}, lz::f32, {-2, 2.5, 10});
    expect_tensor(x.sum(-1, true), {2, 1}, lz::f32, {7, 3.5});
    expect_tensor(x.sum({1, 0}, true), {1, 1}, lz::f32, {10.5});
    expect_tensor(x.prod(1), {2}, lz::f32, {8, -9});
    expect_tensor(lz::tensor({100, 100, 100}, {.dtype = lz::i8}).sum(), {}, lz::i64, {300});
    expect_tensor(lz::tensor({true, true}).sum(), {}, lz::i64, {2});
    expect_tensor(lz::tensor({true, false}).prod(), {}, lz::i64, {0});
    expect_tensor(x.sum(0, false, lz::f64), {3}, lz::f64, {-2, 2.5, 10});
    expect_tensor(lz::zeros({0, 2}).sum(0), {2}, lz::f32, {0, 0});
    expect_tensor(lz::zeros({2, 0}).prod(1), {2}, lz::f32, {1, 1});
    expect_tensor(lz::tensor(3.0).sum(0), {}, lz::f32, {3});
    expect_values(lz::full({4096}, 1.0, {.dtype = lz::f16}).sum(), {4096});
    expect_error<lz::IndexError>([&] { x.sum(2); }, {"sum", "axis 2", "f32[2,3]"});
    expect_error<lz::IndexError>([&] { x.sum({0, -2}); }, {"sum", "twice"});
}

TEST(Reductions, MeansAndVariances) {
    const Tensor x = sample();
    expect_tensor(x.mean(), {}, lz::f32, {1.75}, 1e-6);
    expect_tensor(x.mean(1, true), {2, 1}, lz::f32, {7.0 / 3, 3.5 / 3}, 1e-6);
    expect_tensor(x.var(1), {2}, lz::f32, {7.0 / 3, (9 + 0.25 + 36 - 3 * std::pow(3.5 / 3, 2)) / 2}, 1e-4);
    expect_tensor(x.var(0, 0), {3}, lz::f32, {4, 0.5625, 1}, 1e-6);
    expect_tensor(lz::std(x, 0, false), {3}, lz::f32, {2, 0.75, 1}, 1e-6);
    expect_tensor(x.to(lz::f16).var(0, 0, true), {1, 3}, lz::f16, {4, 0.5625, 1}, 1e-3);
    expect_tensor(lz::tensor({1, 2}).mean({}, false, lz::f64), {}, lz::f64, {1.5});
    expect_values(lz::zeros({0}).mean(), {NAN});
    expect_error<lz::DTypeError>([] { lz::tensor({1, 2}).mean(); }, {"mean", "i64"});
    expect_error<lz::DTypeError>([] { lz::tensor({1, 2}).var(); }, {"var", "i64"});
}

TEST(Reductions, Extremes) {
    const Tensor x = sample();
    expect_tensor(x.max(), {}, lz::f32, {6});
    expect_tensor(lz::min(x), {}, lz::f32, {-3});
    const auto [values, indices] = x.max(1);
    expect_tensor(values, {2}, lz::f32, {4, 6});
    expect_tensor(indices, {2}, lz::i64, {2, 2});
    expect_values(x.min(0, true).values, {-3, 0.5, 4});
    EXPECT_EQ(x.min(0, true).indices.sizes(), (Extents{1, 3}));
    expect_values(lz::amax(x, {0, 1}), {6});
    expect_values(x.amin(0), {-3, 0.5, 4});
    expect_values(lz::max(x, lz::zeros({3})), {1, 2, 4, 0, 0.5, 6});
    expect_values(lz::min(x, lz::zeros({3})), {0, 0, 0, -3, 0, 0});
    expect_tensor(x.argmax(), {}, lz::i64, {5});
    expect_tensor(x.argmin(0), {3}, lz::i64, {1, 1, 0});
    EXPECT_EQ(x.argmax(1, true).sizes(), (Extents{2, 1}));
    expect_values(lz::tensor({2, 7, 7}).argmax(), {1});
    expect_values(lz::tensor({1.0, NAN, 3.0}).max(), {NAN});
    expect_values(lz::tensor({1.0, NAN, 3.0}).argmax(), {1});
    expect_error<lz::ShapeError>([] { lz::zeros({0}).max(); }, {"max", "no elements"});
    expect_error<lz::ShapeError>([] { lz::zeros({0}).argmin(); }, {"argmin", "no elements"});
}

TEST(Reductions, Truth) {
    const Tensor x = lz::tensor({{0.0, 2.0}, {0.0, 0.0}});
    expect_tensor(x.any(), {}, lz::boolean, {1});
    expect_tensor(x.any(1), {2}, lz::boolean, {1, 0});
    expect_tensor((x == 0).all(0), {2}, lz::boolean, {1, 0});
    expect_values(lz::zeros({0}).any(), {0});
    expect_values(lz::zeros({0}).all(), {1});
}

TEST(Reductions, LogsumexpAndNorms) {
    const Tensor x = sample();
    expect_values(x.logsumexp(1),
                  {std::log(std::exp(1) + std::exp(2) + std::exp(4)),
                   std::log(std::exp(-3) + std::exp(0.5) + std::exp(6))},
                  1e-5);
    expect_values(lz::tensor({1000.0, 1000.0}).logsumexp(0), {1000 + std::log(2)}, 1e-4);
    expect_values(lz::tensor({-INFINITY, -INFINITY}).logsumexp(0), {-INFINITY});
    expect_values(lz::tensor({INFINITY, 1.0}).logsumexp(0), {INFINITY});
    expect_values(x.norm(), {std::sqrt(1 + 4 + 16 + 9 + 0.25 + 36)}, 1e-5);
    expect_values(x.norm(1, 1), {7, 9.5}, 1e-5);
    expect_values(x.norm(INFINITY), {6});
    expect_values(x.norm(-INFINITY), {0.5});
    expect_values(lz::tensor({0.0, 2.0}).norm(0), {1});
    expect_values(x.norm(3, 0), {std::cbrt(28), std::cbrt(8.125), std::cbrt(280)}, 1e-4);
}

TEST(Reductions, Scans) {
    const Tensor x = lz::tensor({{1, 2, 3}, {4, 5, 6}});
    expect_tensor(x.cumsum(1), {2, 3}, lz::i64, {1, 3, 6, 4, 9, 15});
    expect_tensor(x.cumsum(0), {2, 3}, lz::i64, {1, 2, 3, 5, 7, 9});
    expect_tensor(x.cumprod(-1), {2, 3}, lz::i64, {1, 2, 6, 4, 20, 120});
    expect_tensor(lz::tensor({true, true}).cumsum(0), {2}, lz::i64, {1, 2});
    expect_tensor(x.cumsum(1, lz::f32), {2, 3}, lz::f32, {1, 3, 6, 4, 9, 15});
    expect_error<lz::IndexError>([&] { x.cumsum(2); }, {"cumsum", "axis 2"});
}

TEST(Reductions, AnotherSizeIsNoOtherNumberInTheKernel) {
    // The divisor of a mean is an argument: a second size of the same class compiles nothing.
    const auto run = [](int64_t n) { return (lz::ones({3, n}) * 2).mean(1).sum().item<double>(); };
    EXPECT_EQ(run(100), 6);
    const lz::CompileStats before = lz::compile_stats();
    EXPECT_EQ(run(101), 6);
    EXPECT_EQ(run(120), 6);
    EXPECT_EQ(lz::compile_stats().kernels_compiled, before.kernels_compiled);
}

/// Chunks of 128 rows, each from its first row on, then their results likewise (docs/design.md, order of
/// reductions).
template <class T>
T fold_column(const std::vector<T> &matrix, int64_t rows, int64_t columns, int64_t column, T (*fold)(T, T)) {
    std::vector<T> level;
    for (int64_t r = 0; r < rows; ++r)
        level.push_back(matrix[static_cast<size_t>(r * columns + column)]);
    while (level.size() > 1) {
        std::vector<T> above;
        for (size_t i = 0; i < level.size(); ++i)
            if (i % 128 == 0)
                above.push_back(level[i]);
            else
                above.back() = fold(above.back(), level[i]);
        level = std::move(above);
    }
    return level[0];
}

template <class T>
void expect_columns(const Tensor &x, const Tensor &folded, T (*fold)(T, T)) {
    const std::vector<T> values = x.to_vector<T>(), results = folded.to_vector<T>();
    const int64_t rows = x.size(0), columns = x.size(1);
    ASSERT_EQ(static_cast<int64_t>(results.size()), columns);
    for (int64_t c = 0; c < columns; ++c)
        ASSERT_EQ(results[static_cast<size_t>(c)], fold_column(values, rows, columns, c, fold)) << c;
}

TEST(Reductions, ColumnsOfALargeMatrixAreFoldedInTheOrderOfTheLanguage) {
    // Over a million elements, where rows are walked in groups; a last chunk of three rows; and columns
    // behind the last whole block, where they are not.
    for (const auto &[rows, columns] : {std::pair<int64_t, int64_t>{4099, 1030}, {2050, 700}, {70000, 17}}) {
        lz::manual_seed(3);
        const Tensor x = lz::randn({rows, columns}), i = (x * 1000).to(lz::i32);
        const Tensor d = x.to(lz::f64) / 3;
        expect_columns<float>(x, x.sum(0), [](float a, float b) { return a + b; });
        expect_columns<double>(d, d.sum(0), [](double a, double b) { return a + b; });
        expect_columns<int32_t>(i, i.amax(0), [](int32_t a, int32_t b) { return std::max(a, b); });
        const Tensor both = lz::stack({x.sum(0), x.amin(0)}); // two reductions of one kernel
        expect_columns<float>(x, both[0], [](float a, float b) { return a + b; });
        expect_columns<float>(x, both[1], [](float a, float b) { return std::min(a, b); });
    }
}

TEST(Reductions, ASumOverNothingIsPlusZero) {
    EXPECT_FALSE(std::signbit(lz::zeros({0}).sum().item<float>()));
    EXPECT_FALSE(std::signbit(lz::zeros({2, 0}).sum(1).to_vector<float>()[1]));
}

} // namespace
