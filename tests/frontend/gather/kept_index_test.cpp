// Indices that are views and whose handles stay: what writes by them reads them where they are stored.
#include "tests/support/tensor_values.h"

#include <functional>

namespace {

using namespace lz::test;
using lz::Tensor;

/// Both are computed at once, and the index is kept.
void expect_with_index(const Tensor &index, const std::function<Tensor(const Tensor &)> &write,
                       const Values &expected) {
    const Tensor result = write(index);
    lz::eval(index, result);
    expect_values(result, expected);
}

Tensor add_ones(const Tensor &index) {
    return lz::scatter_add(lz::zeros({2, 3}), 1, index, lz::ones({2, 3}));
}

TEST(KeptIndex, ViewsOfAnInputAreReadWhereTheyAre) {
    const Tensor i = lz::tensor({2, 0, 2});
    const Values expected = {1, 0, 2, 1, 0, 2};
    expect_with_index(i.reshape({1, 3}).expand({2, 3}), add_ones, expected);
    expect_with_index(i.unsqueeze(0).expand({2, 3}), add_ones, expected);
    expect_with_index(i.expand({2, 3}), add_ones, expected);
    expect_with_index(i.flip({0}).expand({2, 3}), add_ones, expected);
    expect_with_index((i * 1).expand({2, 3}), add_ones, expected);
    expect_with_index((i * 1).reshape({1, 3}).expand({2, 3}), add_ones, expected);
}

TEST(KeptIndex, OfRowsAndOfOneElement) {
    const auto rows = [](const Tensor &index) {
        return lz::scatter_add(lz::zeros({3, 2}), 0, index, lz::ones({2, 2}));
    };
    expect_with_index(lz::tensor({0, 2}).unsqueeze(1).expand({2, 2}), rows, {1, 1, 0, 0, 1, 1});
    expect_with_index(lz::tensor({0, 2}).slice(0, 1, 2).unsqueeze(1).expand({2, 2}), rows,
                      {0, 0, 0, 0, 2, 2});
    expect_with_index(
        lz::tensor({1}).reshape({1, 1}).expand({2, 3}),
        [](const Tensor &index) { return lz::scatter(lz::zeros({2, 3}), 1, index, lz::full({2, 3}, 4.0)); },
        {0, 4, 0, 0, 4, 0});
}

TEST(KeptIndex, AGradientThatCanBeDifferentiatedKeepsTheIndex) {
    Tensor x = lz::tensor({{1., 2., 3.}, {4., 5., 6.}}).requires_grad_();
    const Tensor picked = lz::index_select(x, 1, lz::tensor({2, 0, 2})).square().sum();
    const Tensor slope = lz::autograd::grad({picked}, {x}, {}, true, true)[0];
    expect_values(slope, {2, 0, 12, 8, 0, 24});
    expect_values(lz::autograd::grad({slope.sum()}, {x})[0], {2, 0, 4, 2, 0, 4});
}

} // namespace
