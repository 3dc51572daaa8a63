// The rows of views, joins, reductions, products, lookups and orders beside central differences.
#include "check.h"

#include <cmath>

namespace {

using namespace lz::test;
using lz::Tensor;

/// Linear functions: the gradient of the gradient is nothing, and is checked with that of a square after it.
Case of(const char *name, const std::function<Tensor(const Tensor &)> &function, const lz::Sizes &sizes) {
    return {name,
            [=](const Inputs &x) {
                const Tensor y = function(x[0]);
                return y * y;
            },
            {numbers(sizes)}};
}

TEST(Gradients, Views) {
    using lz::Slice;
    check_all({
        of("reshape", [](const Tensor &x) { return x.reshape({3, 2}); }, {2, 3}),
        of(
            "flatten of a number", [](const Tensor &x) { return x.flatten(); }, lz::Sizes()),
        of("permute", [](const Tensor &x) { return x.permute({2, 0, 1}); }, {2, 3, 2}),
        of("transpose", [](const Tensor &x) { return x.t(); }, {2, 3}),
        of("expand", [](const Tensor &x) { return x.expand({2, 4, 3}); }, {4, 1}),
        of(
            "expand of a number", [](const Tensor &x) { return x.expand({2, 2}); }, lz::Sizes()),
        of("slice", [](const Tensor &x) { return x.at({Slice(1, 5, 2)}); }, {6, 2}),
        of("slice backwards", [](const Tensor &x) { return x.slice(0, 4, 0, -2); }, {6}),
        of("overlapping slices",
           [](const Tensor &x) { return x.slice(0, 0, 3) * x.slice(0, 1, 4) + x.slice(0, 2, 5); }, {5}),
        of("select", [](const Tensor &x) { return x.at({1, lz::Ellipsis}); }, {3, 2}),
        of("flip", [](const Tensor &x) { return x.flip({0, 1}); }, {2, 3}),
        of("diagonal", [](const Tensor &x) { return x.diagonal(1); }, {3, 4}),
        of("pad", [](const Tensor &x) { return lz::pad(x, {1, 2, 0, 1}, 0.5); }, {2, 3}),
        of("pad that cuts", [](const Tensor &x) { return lz::pad(x, {-1, 2}); }, {4}),
        of("roll", [](const Tensor &x) { return x.roll(2, 0); }, {5}),
        of("repeat", [](const Tensor &x) { return x.repeat({2, 3}); }, {2, 2}),
        of("tril", [](const Tensor &x) { return x.tril(); }, {3, 3}),
        of("split",
           [](const Tensor &x) {
               const auto parts = x.split(2);
               return parts[0] * parts[1] + parts[2];
           },
           {6}),
        of("unbind",
           [](const Tensor &x) {
               Tensor product;
               for (const Tensor &row : x.unbind())
                   product = product.defined() ? product * row : row;
               return product;
           },
           {4, 2}),
        of("empty", [](const Tensor &x) { return x.slice(0, 1, 1); }, {3, 2}),
        of("clone", [](const Tensor &x) { return x.clone(); }, {3}),
    });
}

TEST(Gradients, JoinsAndUpdates) {
    check_all({
        {"cat",
         [](const Inputs &x) { return lz::square(lz::cat({x[0], x[1], x[0]}, 1)); },
         {numbers({2, 3}), numbers({2, 1})}},
        {"cat with what wants none",
         [](const Inputs &x) { return lz::square(lz::cat({lz::ones({2}, {.dtype = lz::f64}), x[0]})); },
         {numbers({3})}},
        {"stack",
         [](const Inputs &x) { return lz::square(lz::stack({x[0], x[1]}, 1)); },
         {numbers({2, 3}), numbers({2, 3})}},
        {"at = tensor",
         [](const Inputs &x) {
             Tensor y = x[0] * 2;
             y.at({lz::Slice(0, 3, 2)}) = x[1];
             return y * y;
         },
         {numbers({4, 2}), numbers({2})}},
        {"at +=",
         [](const Inputs &x) {
             Tensor y = x[0] * 2;
             y.at({1}) += x[1];
             return y * y;
         },
         {numbers({4, 2}), numbers({2})}},
        {"in-place forms",
         [](const Inputs &x) {
             Tensor y = lz::exp(x[0]);
             y.mul_(x[1]);
             y.add_(1);
             y.tanh_();
             return y;
         },
         {numbers({3}, -1, 0.2), numbers({3}, -1, 1)}},
        {"masked_fill",
         [](const Inputs &x) { return x[0].masked_fill(x[0] > 0.5, x[1]) * x[0]; },
         {numbers({5}), numbers(lz::Sizes())}},
        {"masked_select",
         [](const Inputs &x) { return lz::square(lz::masked_select(x[0], x[0] > 0)); },
         {numbers({6})}},
    });
}

TEST(Gradients, Reductions) {
    check_all({
        of("sum", [](const Tensor &x) { return x.sum(); }, {2, 3}),
        of("sum over an axis", [](const Tensor &x) { return x.sum(1, true) * x; }, {2, 3}),
        of("sum of nothing", [](const Tensor &x) { return x.sum(0); }, {0, 3}),
        of("mean", [](const Tensor &x) { return x.mean({0, 2}); }, {2, 3, 2}),
        of("prod", [](const Tensor &x) { return x.prod(); }, {4}),
        of("prod over axes", [](const Tensor &x) { return x.prod({0, 2}); }, {2, 2, 3}),
        of("amax", [](const Tensor &x) { return x.amax(1); }, {2, 4}),
        of("amin", [](const Tensor &x) { return x.amin(); }, {2, 4}),
        of("max over an axis", [](const Tensor &x) { return x.max(0).values; }, {3, 2}),
        of("cumsum", [](const Tensor &x) { return x.cumsum(1); }, {2, 4}),
        of("cumprod", [](const Tensor &x) { return x.cumprod(0); }, {4, 2}),
        of("cummax", [](const Tensor &x) { return x.cummax(1).values * x; }, {2, 4}),
        of("cummin", [](const Tensor &x) { return x.cummin(0).values; }, {4, 2}),
        of("var", [](const Tensor &x) { return x.var(1); }, {2, 4}),
        of("std", [](const Tensor &x) { return x.std(); }, {5}),
        of("norm", [](const Tensor &x) { return x.norm(); }, {5}),
        of("norm 3", [](const Tensor &x) { return x.norm(3, 1); }, {2, 3}),
        of("logsumexp", [](const Tensor &x) { return x.logsumexp(1); }, {2, 3}),
    });
    // With zeros: one, two, at the ends.
    for (const std::vector<double> &row :
         {std::vector<double>{2, 0, 3, 0.5}, {0, 2, 3, 0.5}, {0, 2, 3, 0}, {2, 0, 0, 3}}) {
        const Tensor x = lz::tensor<double>(row);
        check_gradients([](const Inputs &i) { return i[0].prod(); }, {x});
        check_gradients([](const Inputs &i) { return i[0].cumprod(0); }, {x});
    }
    // The zeros of a relu: its second derivatives pass through a division by what is 0.
    check_gradients([](const Inputs &i) { return (i[0] * (i[0] > 0)).cumprod(-1); },
                    {lz::tensor<double>({0.5, -1, 2, 1.5})});
    // What comes from several places of the result is added; of equals the last is the one.
    Tensor running = lz::tensor({1.0, 3.0, 3.0, 2.0}, {.requires_grad = true});
    running.cummax(0).values.backward(lz::tensor({1.0, 10.0, 100.0, 1000.0}));
    EXPECT_EQ(running.grad().to_vector<float>(), (std::vector<float>{1, 10, 1100, 0}));
    Tensor tie = lz::tensor({1.0, 3.0, 3.0}, {.requires_grad = true});
    tie.amax().backward();
    EXPECT_EQ(tie.grad().to_vector<float>(), (std::vector<float>{0, 0.5, 0.5}));
    Tensor nan = lz::tensor({1.0, std::nan(""), 3.0}, {.requires_grad = true});
    nan.max().backward();
    EXPECT_EQ(nan.grad().to_vector<float>(), (std::vector<float>{0, 1, 0}));
}

TEST(Gradients, Products) {
    const auto product = [](const char *name,
                            const std::function<Tensor(const Tensor &, const Tensor &)> &function,
                            const lz::Sizes &a, const lz::Sizes &b) {
        return Case{name, [=](const Inputs &x) { return function(x[0], x[1]); }, {numbers(a), numbers(b)}};
    };
    const auto matmul = [](const Tensor &a, const Tensor &b) { return lz::matmul(a, b); };
    const auto einsum = [](const char *rule) {
        return [rule](const Tensor &a, const Tensor &b) { return lz::einsum(rule, {a, b}); };
    };
    check_all({
        {"addmm",
         [](const Inputs &x) { return lz::addmm(x[0], x[1], x[2], 0.5, 2); },
         {numbers({3}), numbers({2, 4}), numbers({4, 3})}},
        {"addmm of a number",
         [](const Inputs &x) { return lz::addmm(x[0], x[1], x[2]); },
         {numbers(lz::Sizes()), numbers({2, 4}), numbers({4, 3})}},
        product("matrices", matmul, {2, 3}, {3, 4}),
        product("matrix and vector", matmul, {2, 3}, {3}),
        product("vector and matrix", matmul, {3}, {3, 2}),
        product("vectors", matmul, {3}, {3}),
        product("batches", matmul, {2, 2, 3}, {2, 3, 2}),
        product("a batch and a matrix", matmul, {2, 2, 3}, {3, 2}),
        product("batches that broadcast", matmul, {2, 1, 2, 3}, {3, 3, 2}),
        product("nothing contracted", matmul, {2, 0}, {0, 3}),
        product("linear", [](const Tensor &x, const Tensor &w) { return lz::linear(x, w); }, {2, 3}, {4, 3}),
        product("outer", [](const Tensor &x, const Tensor &w) { return lz::outer(x, w); }, {2}, {3}),
        product("einsum ij,jk->ki", einsum("ij,jk->ki"), {2, 3}, {3, 2}),
        product("einsum bij,bkj->bik", einsum("bij,bkj->bik"), {2, 2, 3}, {2, 4, 3}),
        product("einsum ijk,kji->j", einsum("ijk,kji->j"), {2, 3, 2}, {2, 3, 2}),
        product("einsum bij,kb->ijk", einsum("bij,kb->ijk"), {2, 2, 3}, {3, 2}),
    });
}

TEST(Gradients, LookupsAndOrders) {
    const Tensor rows = lz::tensor({2, 0, 2, 1}), places = lz::tensor({{0, 2}, {1, 1}, {2, 0}});
    check_all({
        {"index_select",
         [=](const Inputs &x) { return lz::square(x[0].index_select(0, rows)); },
         {numbers({3, 2})}},
        {"embedding",
         [=](const Inputs &x) { return lz::square(lz::embedding(x[0], rows)); },
         {numbers({3, 2})}},
        {"gather", [=](const Inputs &x) { return lz::square(x[0].gather(0, places)); }, {numbers({3, 2})}},
        {"two gathers of one",
         [=](const Inputs &x) {
             return x[0].gather(0, places) * x[0].gather(1, lz::tensor({{1, 0}, {0, 0}, {1, 1}}));
         },
         {numbers({3, 2})}},
        {"at(rows)", [=](const Inputs &x) { return lz::square(x[0].at({rows, 1})); }, {numbers({3, 2})}},
        {"take",
         [=](const Inputs &x) { return lz::square(x[0].take(lz::tensor({5, 0, -1}))); },
         {numbers({3, 2})}},
        {"scatter",
         [=](const Inputs &x) { return lz::square(x[0].scatter(0, places, x[1])); },
         {numbers({3, 2}), numbers({3, 2})}},
        {"scatter to one place",
         [=](const Inputs &x) { return lz::square(x[0].scatter(0, lz::tensor({1, 1, 0}), x[1])); },
         {numbers({3}), numbers({3})}},
        {"scatter_add",
         [=](const Inputs &x) { return lz::square(x[0].scatter_add(0, places, x[1])); },
         {numbers({3, 2}), numbers({3, 2})}},
        {"scatter into a corner",
         [=](const Inputs &x) { return lz::square(x[0].scatter(0, lz::tensor({{2}, {0}}), x[1])); },
         {numbers({3, 2}), numbers({2, 1})}},
        {"index_add",
         [=](const Inputs &x) { return lz::square(lz::index_add(x[0], 0, rows, x[1])); },
         {numbers({3, 2}), numbers({4, 2})}},
        {"at(rows) =",
         [=](const Inputs &x) {
             Tensor y = x[0] * 2;
             y.at({lz::tensor({2, 0})}) = x[1];
             return y * y;
         },
         {numbers({3, 2}), numbers({2, 2})}},
        {"at(mask) =",
         [=](const Inputs &x) {
             Tensor y = x[0] * 2;
             y.at(x[0] > 0) = x[1];
             return y * y;
         },
         {numbers({3, 2}), numbers(lz::Sizes())}},
        {"sort", [](const Inputs &x) { return x[0].sort(1, true).values * x[0]; }, {numbers({2, 4})}},
        {"topk", [](const Inputs &x) { return lz::square(x[0].topk(2, 0).values); }, {numbers({4, 2})}},
        {"median", [](const Inputs &x) { return lz::square(x[0].median(1).values); }, {numbers({2, 4})}},
        {"median of all", [](const Inputs &x) { return lz::square(x[0].median()); }, {numbers({2, 4})}},
        {"kthvalue",
         [](const Inputs &x) { return lz::square(x[0].kthvalue(2, 0).values); },
         {numbers({4, 2})}},
        {"unfold", [](const Inputs &x) { return lz::square(x[0].unfold(1, 3, 1)); }, {numbers({2, 5})}},
        {"unfold without overlap",
         [](const Inputs &x) { return lz::square(x[0].unfold(0, 2, 3)); },
         {numbers({5, 2})}},
        {"index_put_",
         [=](const Inputs &x) {
             Tensor y = x[0] * 2;
             y.index_put_({rows, 1}, x[1], true);
             return y * y;
         },
         {numbers({3, 2}), numbers({4})}},
        {"index_put_ of a number",
         [](const Inputs &x) {
             Tensor y = x[0] * 2;
             y.index_put_({lz::Slice(0, 2)}, x[1]);
             return y * y;
         },
         {numbers({3, 2}), numbers(lz::Sizes())}},
    });
}

} // namespace
