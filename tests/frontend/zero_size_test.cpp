// Tensors without elements inside of fused kernels: nothing is read that is not there, and nothing fails that
// nobody computes.
#include "tests/support/tensor_values.h"

#include <functional>
#include <string>
#include <vector>

namespace {

using namespace lz::test;
using lz::Sizes;
using lz::Tensor;

TEST(ZeroSize, ProductOverAnAxisOfNothingOfASelection) {
    const Tensor x = lz::zeros({0, 3, 5}).eval();
    expect_tensor(lz::prod(x.select(1, 0), 0), {5}, lz::f32, {1, 1, 1, 1, 1});
    expect_tensor(lz::sum(lz::exp(x.select(1, 2)), 0), {5}, lz::f32, {0, 0, 0, 0, 0});
}

TEST(ZeroSize, SelectedRowsTimesWhatHasNoElements) {
    const Tensor f = lz::zeros({0, 4}).eval(), i = lz::zeros({0}, {.dtype = lz::i64}).eval();
    const Tensor g = lz::zeros({0}).eval();
    EXPECT_EQ((f.index_select(0, i).prod() * g).to_vector<float>().size(), 0U);
    const Tensor h = lz::ones({3, 4}).eval();
    EXPECT_EQ((h.index_select(0, i).prod() * g).to_vector<float>().size(), 0U);
    expect_values(h.index_select(0, i).prod() * lz::ones({2}).eval(), {1, 1});
}

TEST(ZeroSize, WhatIsReadOnceARowIsNotReadWhereRowsHaveNoElements) {
    // scale, of no elements itself where there are no rows, is read in front of the loop over a row or not at
    // all.
    for (const int64_t rows : {0, 3})
        for (const int64_t columns : {0, 5}) {
            const Tensor x = lz::ones({rows, columns}).eval(), scale = lz::ones({rows, 1}).eval();
            const auto n = static_cast<size_t>(rows);
            expect_tensor(lz::sum(x * scale, 1), {rows}, lz::f32, std::vector<double>(n, double(columns)));
            expect_tensor(lz::prod(x / scale, 1), {rows}, lz::f32, std::vector<double>(n, 1));
            EXPECT_EQ(lz::softmax(x * scale, 1).to_vector<float>().size(), n * static_cast<size_t>(columns));
            expect_tensor(lz::sum(x * scale.reshape({1, rows}).reshape({rows, 1}), 0), {columns}, lz::f32,
                          std::vector<double>(static_cast<size_t>(columns), double(rows)));
        }
}

TEST(ZeroSize, ChecksOfRowsWithoutElementsAreNobodysFaults) {
    const Tensor none = lz::zeros({2, 0}, {.dtype = lz::i32}).eval();
    const Tensor zero = lz::zeros({2, 1}, {.dtype = lz::i32}).eval();
    expect_values(lz::sum(lz::floor_divide(none, zero), 1), {0, 0});
    expect_values(lz::sum(lz::remainder(none, zero) + lz::fmod(none, zero), 1), {0, 0});
    // A row of the table for each row of nothing: index 7 is out of range, and nothing is looked up.
    const Tensor table = lz::ones({3, 0}).eval(), index = lz::tensor({7}).eval();
    EXPECT_EQ(lz::gather(table, 0, index.reshape({1, 1}).expand({1, 0})).to_vector<float>().size(), 0U);
}

/// Each of them on operands without elements (and with), once fused with what is before and after it and once
/// operation by operation.
struct Case {
    const char *name;
    std::function<Tensor(const Tensor &)> apply;
};
const std::vector<Case> &cases() {
    static const auto &all = *new std::vector<Case>{
        {"sum", [](const Tensor &x) { return lz::sum(x, 0); }},
        {"sum of the last", [](const Tensor &x) { return lz::sum(x, -1, true) + x; }},
        {"full sum", [](const Tensor &x) { return lz::sum(x) * x; }},
        {"prod", [](const Tensor &x) { return lz::prod(x, 1); }},
        {"mean", [](const Tensor &x) { return lz::mean(x, 1); }},
        {"any", [](const Tensor &x) { return lz::any(x > 0, 1).to(lz::f32); }},
        {"var", [](const Tensor &x) { return lz::var(x, 1); }},
        {"softmax", [](const Tensor &x) { return lz::softmax(x, -1); }},
        {"layer norm", [](const Tensor &x) { return x - lz::mean(x, -1, true); }},
        {"cumsum", [](const Tensor &x) { return lz::cumsum(x, 1); }},
        {"gather",
         [](const Tensor &x) {
             return lz::gather(x, 0, lz::zeros({x.size(0), x.size(1), x.size(2)}, {.dtype = lz::i64}));
         }},
        {"index_select",
         [](const Tensor &x) {
             return lz::index_select(x, 1, lz::zeros({x.size(1) > 0 ? 2 : 0}, {.dtype = lz::i64}));
         }},
        {"pad", [](const Tensor &x) { return lz::pad(x, {1, 2, 0, 1, 1, 0}, 3) + 1; }},
        {"cat", [](const Tensor &x) { return lz::cat({x, x * 2, lz::ones({x.size(0), 2, x.size(2)})}, 1); }},
        {"cat of the last", [](const Tensor &x) { return lz::cat({x, x + 1}, -1) * 2; }},
        {"stack", [](const Tensor &x) { return lz::stack({x, x * 3}, 1); }},
        {"roll", [](const Tensor &x) { return lz::roll(x, {1}, {0}) + lz::roll(x, {2}, {2}); }},
        {"flip", [](const Tensor &x) { return lz::flip(x, {0, 2}) * x; }},
        {"permute", [](const Tensor &x) { return x.permute({2, 0, 1}) + 1; }},
        {"reshape", [](const Tensor &x) { return x.reshape({x.size(2), x.size(0), x.size(1)}) + 1; }},
        {"flatten and sum",
         [](const Tensor &x) { return lz::sum(x.reshape({x.size(0) * x.size(1), x.size(2)}), 0); }},
        {"tril", [](const Tensor &x) { return lz::tril(x) + lz::triu(x, 1); }},
        {"matmul", [](const Tensor &x) { return lz::matmul(x, x.permute({0, 2, 1})); }},
        {"sort", [](const Tensor &x) { return lz::sort(x * 2, 1).values; }},
        {"where", [](const Tensor &x) { return lz::where(x > 0, x, x * 2); }},
        {"integer division",
         [](const Tensor &x) {
             const Tensor i = x.to(lz::i32);
             return lz::floor_divide(i, i.abs() + 1).to(lz::f32);
         }},
        {"one_hot", [](const Tensor &x) { return lz::one_hot(x.to(lz::i64).abs() * 0, 3).to(lz::f32); }},
        {"a part",
         [](const Tensor &x) {
             Tensor y = x * 1;
             y.at({lz::Slice(0, x.size(0))}) = x * 2;
             return y;
         }},
    };
    return all;
}

TEST(ZeroSize, EveryOperationFusedAndAlone) {
    const std::vector<std::vector<int64_t>> shapes = {{0, 3, 5}, {2, 0, 5}, {2, 3, 0}, {0, 0, 5}, {0, 3, 0},
                                                      {2, 0, 0}, {0, 0, 0}, {1, 0, 1}, {2, 3, 5}};
    for (const auto &shape : shapes) {
        const Tensor x = lz::ones(shape).eval();
        for (const Case &first : cases()) {
            for (const Case &second : cases()) {
                const auto described = [&] {
                    return std::string(second.name) + " of " + first.name + " of " +
                           std::to_string(shape[0]) + "," + std::to_string(shape[1]) + "," +
                           std::to_string(shape[2]);
                };
                std::vector<float> wanted;
                std::vector<int64_t> extents;
                std::string refused;
                try {
                    Tensor between = first.apply(x).to(lz::f32).eval();
                    if (between.dim() != 3)
                        continue; // the second takes three axes
                    Tensor alone = second.apply(between).to(lz::f32).eval();
                    wanted = alone.to_vector<float>();
                } catch (const lz::Error &error) {
                    refused = error.what();
                }
                try {
                    const Tensor fused = second.apply(first.apply(x).to(lz::f32));
                    const std::vector<float> got = fused.to(lz::f32).to_vector<float>();
                    EXPECT_EQ(refused, "") << described();
                    ASSERT_EQ(got.size(), wanted.size()) << described();
                    for (size_t i = 0; i < got.size(); ++i)
                        ASSERT_TRUE(got[i] == wanted[i] || (got[i] != got[i] && wanted[i] != wanted[i]))
                            << described() << ": element " << i << " is " << got[i] << ", not " << wanted[i];
                } catch (const lz::Error &error) {
                    EXPECT_NE(refused, "") << described() << ": " << error.what();
                }
            }
        }
    }
}

} // namespace
