// Products against three loops.
#include "tests/support/tensor_values.h"

namespace {

using namespace lz::test;
using lz::Tensor;

/// [batch, m, k] x [batch, k, n] by the definition.
Values product(const Values &a, const Values &b, int64_t batch, int64_t m, int64_t k, int64_t n) {
    Values out(static_cast<size_t>(batch * m * n), 0.0);
    for (int64_t s = 0; s < batch; ++s)
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j)
                for (int64_t l = 0; l < k; ++l)
                    out[static_cast<size_t>((s * m + i) * n + j)] +=
                        a[static_cast<size_t>((s * m + i) * k + l)] *
                        b[static_cast<size_t>((s * k + l) * n + j)];
    return out;
}

Tensor small(const lz::Sizes &sizes) {
    return lz::randint(-3, 4, sizes).to(lz::f32);
}

TEST(Linalg, MatmulOfVectorsAndMatrices) {
    const Tensor a = small({3, 4}), b = small({4, 5}), v = small({4}), w = small({3});
    expect_tensor(lz::matmul(a, b), {3, 5}, lz::f32, product(values(a), values(b), 1, 3, 4, 5));
    expect_tensor(a.matmul(v), {3}, lz::f32, product(values(a), values(v), 1, 3, 4, 1));
    expect_tensor(lz::matmul(w, a), {4}, lz::f32, product(values(w), values(a), 1, 1, 3, 4));
    expect_tensor(lz::matmul(v, v), {}, lz::f32, product(values(v), values(v), 1, 1, 4, 1));
    expect_tensor(lz::mm(a, b), {3, 5}, lz::f32, values(lz::matmul(a, b)));
    expect_tensor(lz::mv(a, v), {3}, lz::f32, values(lz::matmul(a, v)));
    expect_tensor(lz::dot(v, v), {}, lz::f32, values(lz::matmul(v, v)));
    expect_tensor(lz::outer(w, v), {3, 4}, lz::f32, product(values(w), values(v), 1, 3, 1, 4));
    expect_values(lz::matmul(lz::zeros({2, 0}), lz::zeros({0, 2})), {0, 0, 0, 0});
    const Tensor n = lz::tensor({{1, 2}, {3, 4}});
    expect_tensor(lz::matmul(n, n), {2, 2}, lz::i64, {7, 10, 15, 22});
}

TEST(Linalg, MatmulBroadcastsBatches) {
    const Tensor a = small({2, 3, 4}), b = small({2, 4, 5}), one = small({4, 5}), row = small({3, 4});
    expect_tensor(lz::matmul(a, b), {2, 3, 5}, lz::f32, product(values(a), values(b), 2, 3, 4, 5));
    expect_tensor(lz::bmm(a, b), {2, 3, 5}, lz::f32, values(lz::matmul(a, b)));
    expect_tensor(lz::matmul(a, one), {2, 3, 5}, lz::f32, product(values(a), values(one), 1, 6, 4, 5));
    expect_tensor(lz::matmul(row, b), {2, 3, 5}, lz::f32,
                  product(values(row.expand({2, 3, 4})), values(b), 2, 3, 4, 5));
    const Tensor wide = small({2, 1, 3, 4}), tall = small({5, 4, 2});
    expect_tensor(lz::matmul(wide, tall), {2, 5, 3, 2}, lz::f32,
                  product(values(wide.expand({2, 5, 3, 4})), values(tall.expand({2, 5, 4, 2})), 10, 3, 4, 2));
    const Tensor v = small({4});
    expect_tensor(lz::matmul(v, b), {2, 5}, lz::f32,
                  product(values(v.expand({2, 1, 4})), values(b), 2, 1, 4, 5));
    expect_tensor(lz::matmul(a, v), {2, 3}, lz::f32, product(values(a), values(v), 1, 6, 4, 1));
}

TEST(Linalg, ProductsAreSummedInAWiderDtype) {
    const Tensor a = lz::randint(-128, 128, {3, 5, 70}).to(lz::i8),
                 b = lz::randint(-128, 128, {3, 70, 9}).to(lz::i8);
    const Values sums = product(values(a), values(b), 3, 5, 70, 9);
    expect_tensor(lz::bmm(a, b, lz::i32), {3, 5, 9}, lz::i32, sums);
    expect_tensor(a.matmul(b, lz::i64), {3, 5, 9}, lz::i64, sums);
    // The same, written with casts.
    expect_tensor(lz::matmul(a.to(lz::i32), b.to(lz::i32)), {3, 5, 9}, lz::i32, sums);
    const Tensor x = a[0], y = b[0], w = y.t().contiguous();
    const Values first = product(values(x), values(y), 1, 5, 70, 9);
    expect_tensor(lz::mm(x, y, lz::i32), {5, 9}, lz::i32, first);
    expect_tensor(lz::mm(x.to(lz::i32), w.to(lz::i32).t()), {5, 9}, lz::i32, first);
    expect_tensor(lz::mm(x, y), {5, 9}, lz::i8, values(lz::mm(x, y, lz::i32).to(lz::i8)));
    expect_tensor(lz::matmul(x[0], y[0].expand({70, 9}), lz::i32), {9}, lz::i32,
                  product(values(x[0]), values(y[0].expand({70, 9})), 1, 1, 70, 9));
    const Tensor u = lz::randint(0, 256, {5, 7}).to(lz::u8), v = lz::randint(0, 256, {7, 2}).to(lz::u8);
    expect_tensor(u.mm(v, lz::i32), {5, 2}, lz::i32, product(values(u), values(v), 1, 5, 7, 2));
    // Numbers that f16 has, and sums that it has not.
    const Tensor p = lz::randint(-40, 41, {4, 300}).to(lz::f16),
                 q = lz::randint(-40, 41, {300, 3}).to(lz::f16);
    expect_tensor(lz::mm(p, q, lz::f32), {4, 3}, lz::f32, product(values(p), values(q), 1, 4, 300, 3));
    expect_tensor(lz::mm(p, q, lz::f16), {4, 3}, lz::f16, values(lz::mm(p, q)));
}

TEST(Linalg, SumsInF32HaveGradients) {
    Tensor p = lz::randint(-4, 5, {4, 6}).to(lz::bf16).requires_grad_(),
           q = lz::randint(-4, 5, {6, 3}).to(lz::bf16).requires_grad_();
    const Tensor g = lz::randint(-4, 5, {4, 3}).to(lz::f32);
    (lz::mm(p, q, lz::f32) * g).sum().backward();
    expect_tensor(p.grad(), {4, 6}, lz::bf16, product(values(g), values(q.detach().t()), 1, 4, 3, 6));
    expect_tensor(q.grad(), {6, 3}, lz::bf16, product(values(p.detach().t()), values(g), 1, 6, 4, 3));
}

TEST(Linalg, OtherDtypesOfSumsAreRefused) {
    const Tensor a = lz::ones({2, 2}, lz::i32), f = lz::ones({2, 2});
    expect_error<lz::DTypeError>([&] { lz::mm(a, a, lz::i8); }, {"mm", "out_dtype is i8", "i32[2,2]"});
    expect_error<lz::DTypeError>([&] { lz::matmul(a, a, lz::f32); },
                                 {"matmul", "out_dtype is f32", "i32[2,2]"});
    expect_error<lz::DTypeError>([&] { lz::matmul(f, f, lz::f64); },
                                 {"matmul", "out_dtype is f64", "f32[2,2]"});
    expect_error<lz::ShapeError>([&] { lz::bmm(a, a, lz::i64); }, {"bmm", "3 and 3 axes"});
}

TEST(Linalg, Linear) {
    const Tensor x = small({2, 3, 4}), w = small({5, 4}), b = small({5});
    expect_values(lz::linear(x, w), product(values(x), values(w.t()), 1, 6, 4, 5));
    expect_values(lz::linear(x, w, b), values(lz::matmul(x, w.t()) + b));
    expect_error<lz::ShapeError>([&] { lz::linear(x, small({5, 3})); }, {"linear", "4 features", "3"});
    expect_error<lz::DTypeError>([&] { lz::linear(x, w, b.to(lz::f64)); }, {"linear", "f64"});
}

TEST(Linalg, Einsum) {
    const Tensor a = small({2, 3}), b = small({3, 4}), c = small({4, 2}), s = small({3, 3}),
                 x = small({2, 3, 4});
    expect_tensor(lz::einsum("ij,jk->ik", {a, b}), {2, 4}, lz::f32, values(lz::matmul(a, b)));
    expect_tensor(lz::einsum("ij,jk", {a, b}), {2, 4}, lz::f32, values(lz::matmul(a, b)));
    expect_tensor(lz::einsum("ij,jk->ki", {a, b}), {4, 2}, lz::f32, values(lz::matmul(a, b).t()));
    expect_tensor(lz::einsum("ij, jk, kl -> il", {a, b, c}), {2, 2}, lz::f32,
                  values(lz::matmul(lz::matmul(a, b), c)));
    expect_tensor(lz::einsum("ij->", {a}), {}, lz::f32, values(a.sum()));
    expect_tensor(lz::einsum("ij->j", {a}), {3}, lz::f32, values(a.sum(0)));
    expect_tensor(lz::einsum("ii", {s}), {}, lz::f32, values(s.diagonal().sum()));
    expect_tensor(lz::einsum("ii->i", {s}), {3}, lz::f32, values(s.diagonal()));
    expect_tensor(lz::einsum("ba", {a}), {3, 2}, lz::f32, values(a.t()));
    expect_tensor(lz::einsum("i,j->ij", {a.select(1, 0), b.select(0, 0)}), {2, 4}, lz::f32,
                  values(lz::outer(a.select(1, 0), b.select(0, 0))));
    expect_tensor(lz::einsum("ij,ij->ij", {a, a}), {2, 3}, lz::f32, values(a * a));
    expect_tensor(lz::einsum("...ij->...ji", {x}), {2, 4, 3}, lz::f32, values(x.mT()));
    expect_tensor(lz::einsum("...j,jk->...k", {x, c}), {2, 3, 2}, lz::f32, values(lz::matmul(x, c)));
    expect_tensor(lz::einsum("bij,bkj->bik", {x, x}), {2, 3, 3}, lz::f32, values(lz::bmm(x, x.mT())));
    expect_tensor(lz::einsum("ij,kj->ik", {a, lz::ones({2, 1})}), {2, 2}, lz::f32,
                  values(a.sum(1, true).expand({2, 2})));
    expect_error<lz::ShapeError>([&] { lz::einsum("ij,jk->ik", {a}); }, {"einsum", "2 operands"});
    expect_error<lz::ShapeError>([&] { lz::einsum("ij,jk->ik", {a, a}); }, {"'j'", "3", "2"});
    expect_error<lz::ShapeError>([&] { lz::einsum("ij->ix", {a}); }, {"'x'"});
    expect_error<lz::ShapeError>([&] { lz::einsum("i->i", {a}); }, {"f32[2,3]"});
    expect_error<lz::ShapeError>([&] { lz::einsum("i1->i", {a}); }, {"einsum"});
    expect_error<lz::ShapeError>([&] { lz::einsum("ij->ii", {a}); }, {"twice"});
    expect_error<lz::ShapeError>([&] { lz::einsum("ii->i", {a}); }, {"'i'"});
    expect_error<lz::DTypeError>([&] { lz::einsum("ij,jk->ik", {a, b.to(lz::f64)}); }, {"f32", "f64"});
}

TEST(Linalg, WhatDoesNotFitIsSaid) {
    expect_error<lz::ShapeError>([] { lz::einsum("i1", {lz::ones({2, 2})}); }, {"einsum", "'1'", "letter"});
    const Tensor a = lz::ones({2, 3});
    expect_error<lz::ShapeError>([&] { lz::matmul(a, a); }, {"matmul", "[2,3]", "axis 1", "3", "2"});
    expect_error<lz::ShapeError>([&] { lz::matmul(a, lz::tensor(1.0)); }, {"matmul", "at least one axis"});
    expect_error<lz::ShapeError>([&] { lz::matmul(lz::ones({2, 1, 3}), lz::ones({3, 3, 1})); },
                                 {"matmul", "batch"});
    expect_error<lz::DTypeError>([&] { lz::matmul(a, a.t().to(lz::f64)); }, {"matmul", "f32", "f64"});
    expect_error<lz::DTypeError>([&] { lz::matmul(a > 0, a.t() > 0); }, {"matmul", "bool"});
    expect_error<lz::ShapeError>([&] { lz::bmm(a, a); }, {"bmm", "3 and 3 axes"});
    expect_error<lz::ShapeError>([&] { lz::bmm(lz::ones({2, 1, 1}), lz::ones({3, 1, 1})); },
                                 {"bmm", "2 and 3"});
    expect_error<lz::ShapeError>([&] { lz::mv(a, a); }, {"mv"});
    expect_error<lz::ShapeError>([&] { lz::outer(a, a); }, {"outer"});
}

} // namespace
