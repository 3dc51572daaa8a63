// Leaves, modes, accumulation, graphs that are consumed, hooks, errors (S70).
#include "tests/support/tensor_values.h"

#include <functional>
#include <thread>

namespace {

using namespace lz::test;
using lz::Tensor;
using Floats = std::vector<float>;

Floats floats(const Tensor &t) {
    return t.to_vector<float>();
}

TEST(Backward, LeavesGatherTheirGradients) {
    Tensor x = lz::tensor({1.0, 2.0}, {.requires_grad = true});
    Tensor w = lz::tensor({3.0, 4.0}).requires_grad_();
    const Tensor c = lz::tensor({5.0, 6.0});
    EXPECT_TRUE(x.requires_grad() && w.requires_grad() && x.is_leaf() && !c.requires_grad() && c.is_leaf());
    EXPECT_FALSE(x.grad().defined());
    const Tensor y = x * w + c * x;
    EXPECT_TRUE(y.requires_grad());
    EXPECT_FALSE(y.is_leaf());
    y.sum().backward();
    EXPECT_EQ(floats(x.grad()), (Floats{8, 10}));
    EXPECT_EQ(floats(w.grad()), (Floats{1, 2}));
    EXPECT_FALSE(c.grad().defined() || y.grad().defined());
    // A second backward adds, where other handles see it.
    const Tensor same = x.grad();
    (x * 2).sum().backward();
    EXPECT_EQ(floats(same), (Floats{10, 12}));
    EXPECT_TRUE(same.same_tensor(x.grad()));
    x.grad().zero_();
    EXPECT_EQ(floats(x.grad()), (Floats{0, 0}));
    x.mutable_grad() = Tensor();
    EXPECT_FALSE(x.grad().defined());
    EXPECT_EQ(floats(w.grad()), (Floats{1, 2}));
}

TEST(Backward, OneGradientGivenToTwoLeavesIsTwoTensors) {
    Tensor a = lz::ones({2}, {.requires_grad = true}), b = lz::ones({2}, {.requires_grad = true});
    const Tensor seed = lz::tensor({1.0, 2.0});
    (a + b).backward(seed);
    a.grad().add_(1);
    EXPECT_EQ(floats(a.grad()), (Floats{2, 3}));
    EXPECT_EQ(floats(b.grad()), (Floats{1, 2}));
    EXPECT_EQ(floats(seed), (Floats{1, 2}));
}

TEST(Backward, ModesAreOfTheThreadAndNest) {
    Tensor x = lz::ones({2}, {.requires_grad = true});
    {
        const lz::NoGradGuard off;
        EXPECT_FALSE(lz::GradMode::is_enabled());
        EXPECT_FALSE((x * 2).requires_grad());
        {
            const lz::AutoGradMode on(true);
            EXPECT_TRUE((x * 2).requires_grad());
        }
        EXPECT_FALSE((x * 2).requires_grad());
        std::thread([&] { EXPECT_TRUE((x * 2).requires_grad()); }).join();
    }
    EXPECT_TRUE((x * 2).requires_grad());
    const lz::InferenceMode inference;
    EXPECT_FALSE((x * 2).requires_grad());
}

TEST(Backward, DetachGivesTheValueWithoutHistory) {
    Tensor x = lz::tensor({1.0, 2.0}, {.requires_grad = true});
    const Tensor y = x * x;
    Tensor d = y.detach();
    EXPECT_FALSE(d.requires_grad());
    EXPECT_TRUE(d.is_leaf());
    (y * d).sum().backward();
    EXPECT_EQ(floats(x.grad()), (Floats{2, 16}));
    d.add_(1);
    EXPECT_EQ(floats(d), (Floats{2, 5}));
    EXPECT_EQ(floats(y), (Floats{1, 4}));
    Tensor z = x * 3;
    z.detach_();
    EXPECT_FALSE(z.requires_grad());
}

TEST(Backward, LeavesCanBeFrozen) {
    Tensor x = lz::ones({2}, {.requires_grad = true}), w = lz::ones({2}, {.requires_grad = true});
    (x * w).sum().backward();
    w.requires_grad_(false);
    EXPECT_FALSE(w.requires_grad());
    EXPECT_FALSE((w * 2).requires_grad());
    (x * w).sum().backward();
    EXPECT_EQ(floats(x.grad()), (Floats{2, 2}));
    EXPECT_EQ(floats(w.grad()), (Floats{1, 1}));
    w.add_(1); // no leaf that requires grad now
    w.requires_grad_();
    (x * w).sum().backward();
    EXPECT_EQ(floats(x.grad()), (Floats{4, 4}));
    EXPECT_EQ(floats(w.grad()), (Floats{2, 2}));
}

TEST(Backward, AParameterIsChangedInPlaceWithoutGradients) {
    Tensor w = lz::tensor({1.0, 2.0}, {.requires_grad = true});
    for (int step = 0; step < 3; ++step) {
        const Tensor loss = (w * w).sum();
        w.mutable_grad() = Tensor();
        loss.backward();
        const lz::NoGradGuard no_grad;
        w.sub_(w.grad() * 0.25);
    }
    EXPECT_EQ(floats(w), (Floats{0.125, 0.25}));
    EXPECT_TRUE(w.requires_grad() && w.is_leaf());
}

TEST(Backward, ValuesThatWereSavedStayWhatHappensToTheirTensors) {
    Tensor x = lz::tensor({0.0, 1.0}, {.requires_grad = true});
    Tensor y = lz::exp(x);
    y.add_(1); // PyTorch refuses: exp saved its result
    y.sum().backward();
    expect_values(x.grad(), {1, std::exp(1.0)}, 1e-6);
    Tensor a = lz::tensor({3.0, 4.0}, {.requires_grad = true}), b = lz::tensor({1.0, 2.0});
    Tensor product = a * b;
    b.zero_();
    b.eval();
    product.sum().backward();
    EXPECT_EQ(floats(a.grad()), (Floats{1, 2}));
}

/// As in PyTorch: what is overwritten has a gradient, which is zeros, whichever way and how much of it is.
TEST(Backward, WhatIsOverwrittenHasAGradientOfZeros) {
    const Tensor source = lz::ones({3}, {.requires_grad = true});
    const lz::indexing::Slice all(0, 3);
    const std::function<void(Tensor &)> forms[] = {
        [](Tensor &x) { x.zero_(); },
        [](Tensor &x) { x.fill_(3); },
        [](Tensor &x) { x.copy_(lz::ones({3})); },
        [](Tensor &x) { x.normal_(); },
        [&](Tensor &x) { x.at({all}) = 3; },
        [&](Tensor &x) { x.at({all}) = lz::ones({3}); },
        [](Tensor &x) { x.at({lz::tensor({true, true, true})}) = 4; },
        [&](Tensor &x) { x.copy_(source * 3); },
        [&](Tensor &x) { x.copy_(source); },
        [&](Tensor &x) { x.at({all}) = source * 5; },
    };
    for (const auto &form : forms) {
        const Tensor a = lz::ones({3}, {.requires_grad = true});
        Tensor x = a * 2;
        form(x);
        EXPECT_TRUE(x.requires_grad() && !x.is_leaf());
        x.sum().backward();
        EXPECT_EQ(floats(a.grad()), (Floats{0, 0, 0}));
    }
    EXPECT_EQ(floats(source.grad()), (Floats{9, 9, 9}));

    Tensor a = lz::ones({3}, {.requires_grad = true}), x = a * 2;
    {
        const lz::NoGradGuard no_grad; // then nobody sees it, as in PyTorch
        x.zero_();
    }
    x.sum().backward();
    EXPECT_EQ(floats(a.grad()), (Floats{2, 2, 2}));
    EXPECT_THROW(a.zero_(), lz::StateError);
}

TEST(Backward, TakesSeveralTensorsAndGradientsOfAnything) {
    Tensor x = lz::tensor({1.0, 2.0}, {.requires_grad = true});
    const Tensor y = x * x, z = y * 3;
    const auto g = lz::autograd::grad({z.sum(), y.sum()}, {y, x}, {}, true);
    EXPECT_EQ(floats(g[0]), (Floats{4, 4}));
    EXPECT_EQ(floats(g[1]), (Floats{8, 16}));
    EXPECT_FALSE(x.grad().defined());
    lz::autograd::backward({y, z}, {lz::tensor({1.0, 0.0}), lz::tensor({0.0, 1.0})});
    EXPECT_EQ(floats(x.grad()), (Floats{2, 12}));
    Tensor other = lz::ones({1}, {.requires_grad = true});
    const auto unused = lz::autograd::grad({(x * 2).sum()}, {x, other}, {}, std::nullopt, false, true);
    EXPECT_EQ(floats(unused[0]), (Floats{2, 2}));
    EXPECT_FALSE(unused[1].defined());
    expect_error<lz::StateError>([&] { lz::autograd::grad({(x * 2).sum()}, {x, other}); },
                                 {"grad", "no output depends on input 1", "allow_unused"});
}

TEST(Backward, OfGradients) {
    Tensor x = lz::tensor({1.0, 2.0}, {.requires_grad = true});
    const Tensor y = (x * x * x).sum();
    const Tensor g = lz::autograd::grad({y}, {x}, {}, std::nullopt, true)[0];
    EXPECT_TRUE(g.requires_grad());
    const Tensor h = lz::autograd::grad({g.sum()}, {x}, {}, std::nullopt, true)[0];
    EXPECT_EQ(floats(h), (Floats{6, 12}));
    EXPECT_EQ(floats(lz::autograd::grad({h.sum()}, {x})[0]), (Floats{6, 6}));
    // backward with create_graph leaves gradients that have a history.
    (x * x).sum().backward({}, std::nullopt, true);
    EXPECT_TRUE(x.grad().requires_grad());
    EXPECT_EQ(floats(lz::autograd::grad({x.grad().sum()}, {x})[0]), (Floats{2, 2}));
}

TEST(Backward, WhatHasNoSlopeGivesZeros) {
    Tensor x = lz::tensor({1.5, 2.5}, {.requires_grad = true});
    lz::floor(x).sum().backward();
    EXPECT_EQ(floats(x.grad()), (Floats{0, 0}));
    EXPECT_FALSE((x > 1).requires_grad());
    EXPECT_FALSE(x.argmax().requires_grad());
    EXPECT_FALSE(x.to(lz::i64).requires_grad());
    EXPECT_FALSE(x.sort().indices.requires_grad());
    EXPECT_TRUE(x.sort().values.requires_grad());
}

TEST(Backward, HooksSeeAndReplaceWholeGradients) {
    Tensor x = lz::tensor({1.0, 2.0}, {.requires_grad = true});
    const Tensor y = x * 2;
    y.retain_grad();
    EXPECT_TRUE(y.retains_grad());
    int seen = 0;
    const unsigned first = y.register_hook([&](const Tensor &g) { // void: looks only
        ++seen;
        EXPECT_EQ(g.sizes(), (lz::Sizes{2}));
    });
    y.register_hook([](const Tensor &g) { return g * 10; });
    const auto go = [&] { (y * 3 + y).sum().backward({}, true); };
    go();
    EXPECT_EQ(seen, 1);
    EXPECT_EQ(floats(y.grad()), (Floats{40, 40}));
    EXPECT_EQ(floats(x.grad()), (Floats{80, 80}));
    y.remove_hook(first);
    x.register_hook([](const Tensor &g) { return -g; });
    go();
    EXPECT_EQ(seen, 1);
    EXPECT_EQ(floats(x.grad()), (Floats{0, 0}));
    expect_error<lz::StateError>([&] { y.remove_hook(7); }, {"no hook of number 7"});
    x.register_hook([](const Tensor &g) { return g.sum(); });
    expect_error<lz::StateError>(go, {"backward at", "the hook gave f32[]", "f32[2]"});
    expect_error<lz::StateError>([] { lz::ones({2}).register_hook([](const Tensor &) {}); },
                                 {"register_hook", "does not require grad"});
}

TEST(Backward, ChainsOfAMillionStepsAreLetGoOfInALoop) {
    Tensor x = lz::ones({1}, {.requires_grad = true});
    Tensor y = x;
    for (int i = 0; i < 200000; ++i) {
        y = y + x;
        if (i % 1000 == 0)
            y.eval();
    }
    y.backward();
    EXPECT_EQ(floats(x.grad()), (Floats{200001}));
    for (int i = 0; i < 200000; ++i)
        y = y * x;
}

TEST(Backward, ThreadsShareParameters) {
    Tensor w = lz::ones({4}, {.requires_grad = true});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 50; ++i)
                (w * static_cast<double>(i)).sum().backward();
        });
    for (std::thread &t : threads)
        t.join();
    EXPECT_EQ(floats(w.grad()), Floats(4, 4 * 1225));
}

TEST(Backward, ErrorsNameBothLines) {
    Tensor x = lz::ones({2}, {.requires_grad = true});
    const Tensor y = lz::exp(x).sum();
    y.backward();
    expect_error<lz::StateError>([&] { y.backward(); }, {"backward: what exp at backward_test.cpp:",
                                                         "backward at backward_test.cpp:", "retain_graph"});
    (x + 1).sum().backward();
    const Tensor sums = (x + 1).sum(); // saved nothing
    sums.backward();
    sums.backward();
    expect_error<lz::StateError>([] { (lz::ones({2}) * 2).sum().backward(); },
                                 {"backward", "made by sum", "no history", "requires grad"});
    expect_error<lz::StateError>([&] { (x * 2).backward(); }, {"backward", "f32[2] has 2 elements", "sum()"});
    expect_error<lz::DTypeError>([&] { lz::ones({1}, {.dtype = lz::i64}).backward(); },
                                 {"backward", "i64[1]", "floats"});
    expect_error<lz::DTypeError>([&] { (void)lz::ones({1}, {.dtype = lz::i64}).requires_grad_(); },
                                 {"requires_grad_", "i64[1]", "floats"});
    expect_error<lz::DTypeError>([&] { lz::ones({1}, {.dtype = lz::i64, .requires_grad = true}); },
                                 {"i64[1]"});
    expect_error<lz::ShapeError>([&] { (x * 2).backward(lz::ones({3})); },
                                 {"f32[3]", "f32[2]", "same shape"});
    expect_error<lz::DTypeError>([&] { (x * 2).backward(lz::ones({2}, {.dtype = lz::i64})); }, {"i64[2]"});
    expect_error<lz::StateError>([&] { (void)(x * 2).requires_grad_(false); },
                                 {"requires_grad_", "by mul at", "detach()"});
    expect_error<lz::StateError>([&] { x.add_(1); },
                                 {"add_: the tensor is a leaf", "backward_test.cpp:", "NoGradGuard"});
    expect_error<lz::StateError>([&] { x.at(0) = 1; }, {"at: the tensor is a leaf", "NoGradGuard"});
    expect_error<lz::StateError>([&] { x.mutable_data<float>(); },
                                 {"mutable_data", "requires grad", "NoGradGuard"});
    expect_error<lz::StateError>([&] { lz::ones({1}).mutable_grad(); },
                                 {"mutable_grad", "keeps no gradient"});
    EXPECT_EQ(floats(x), (Floats{1, 1}));
    Tensor on_host = lz::ones({2}, {.device = lz::Device::cpu(), .requires_grad = true});
    {
        const lz::NoGradGuard no_grad;
        on_host.mutable_data<float>()[0] = 5;
    }
    EXPECT_EQ(floats(on_host), (Floats{5, 1}));
    EXPECT_TRUE(on_host.requires_grad());
}

TEST(Backward, RecordsAndComputesNothingItself) {
    Tensor x = lz::ones({8}, {.requires_grad = true});
    lz::sync();
    const auto before = lz::compile_stats();
    const Tensor loss = (lz::tanh(x) * x).sum();
    loss.backward();
    EXPECT_EQ(lz::compile_stats().kernel_launches, before.kernel_launches);
    x.grad().eval();
    loss.eval();
    EXPECT_GT(lz::compile_stats().kernel_launches, before.kernel_launches);
}

} // namespace
