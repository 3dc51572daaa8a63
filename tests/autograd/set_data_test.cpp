// set_data: a tensor becomes another value, for whoever has a handle of it.
#include "tests/support/caught.h"

#include <lazuli/lazuli.h>

namespace {

using namespace lz::test;
using lz::Tensor;
using Floats = std::vector<float>;

TEST(SetData, IsSeenByEveryHandle) {
    Tensor x = lz::tensor({1.0, 2.0});
    const Tensor other = x;
    const Tensor read = x * 10;
    const Tensor value = lz::tensor({{3, 4, 5}});
    EXPECT_EQ(&x.set_data(value), &x);
    EXPECT_EQ(other.dtype(), lz::i64);
    EXPECT_EQ(other.sizes(), (lz::Sizes{1, 3}));
    EXPECT_EQ(other.to_vector<int64_t>(), (std::vector<int64_t>{3, 4, 5}));
    EXPECT_EQ(read.to_vector<float>(), (Floats{10, 20})); // what was recorded keeps its value
    EXPECT_FALSE(x.same_tensor(value));
    x.add_(1);
    EXPECT_EQ(value.to_vector<int64_t>(), (std::vector<int64_t>{3, 4, 5}));
    x.set_data(x);
    EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{4, 5, 6}));
    EXPECT_EQ(x.id(), other.id());
    EXPECT_NE(x.id(), value.id());
    EXPECT_EQ(Tensor().id(), nullptr);
}

TEST(SetData, OfALeafStaysALeaf) {
    Tensor x = lz::tensor({1.0, 2.0}, {.requires_grad = true});
    int calls = 0;
    x.register_hook([&](const Tensor &) { ++calls; });
    const Tensor before = (x * x).sum();
    (x * x).sum().backward();
    // The same type: the same leaf, which gets the gradients of what was recorded before, too.
    x.set_data(lz::tensor({5.0, 6.0}));
    EXPECT_TRUE(x.requires_grad() && x.is_leaf());
    before.backward();
    EXPECT_EQ(x.grad().to_vector<float>(), (Floats{4, 8}));
    // Another dtype: the gradient goes with it, and so does the hook.
    x.set_data(x.detach().to(lz::f64));
    EXPECT_TRUE(x.requires_grad() && x.is_leaf());
    EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{4, 8}));
    (x * 2).sum().backward();
    EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 10}));
    EXPECT_EQ(calls, 3);
    // Another shape: it is forgotten.
    x.set_data(lz::ones({3}));
    EXPECT_FALSE(x.grad().defined());
    (x * 2).sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), (Floats{2, 2, 2}));
    // A leaf that wants no gradient now.
    x.requires_grad_(false);
    x.set_data(lz::ones({2}));
    EXPECT_FALSE(x.requires_grad());
    x.requires_grad_();
    (x * 2).sum().backward();
    EXPECT_EQ(x.grad().to_vector<float>(), (Floats{2, 2}));
}

TEST(SetData, WhatWasRecordedFromTheFormerLeafReachesNobody) {
    Tensor x = lz::tensor({1.0, 2.0}, {.requires_grad = true});
    const Tensor before = (x * x).sum();
    x.set_data(lz::ones({2}, {.dtype = lz::f64}));
    before.backward();
    EXPECT_FALSE(x.grad().defined());
}

TEST(SetData, RefusesWhatMakesNoSense) {
    const Tensor x = lz::ones({2}, {.requires_grad = true});
    Tensor y = x * 2, leaf = x;
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    y.set_data(lz::ones({2}));
                }).has("set_data: the tensor was computed from others that require grad (by mul"));
    EXPECT_TRUE(caught<lz::DTypeError>([&] { leaf.set_data(lz::tensor({1, 2})); }).has("would be i64[2]"));
    EXPECT_TRUE(caught<lz::StateError>([&] { leaf.set_data(Tensor()); }).has("set_data"));
    Tensor none;
    EXPECT_TRUE(caught<lz::StateError>([&] { none.set_data(x); }).has("set_data"));
    EXPECT_EQ(leaf.dtype(), lz::f32);
}

} // namespace
