// Functions with a backward of the user's own, checkpoints, and derivatives of functions.
#include "check.h"
#include "tests/support/tensor_values.h"

#include <cmath>

namespace {

using namespace lz::test;
using lz::Tensor;
using lz::autograd::AutogradContext;
using lz::autograd::variable_list;

struct Cube : lz::autograd::Function<Cube> {
    static Tensor forward(AutogradContext *ctx, Tensor x, double scale) {
        ctx->save_for_backward({x});
        ctx->saved_data["scale"] = scale;
        return x * x * x * scale;
    }
    static variable_list backward(AutogradContext *ctx, variable_list grads) {
        const Tensor x = ctx->get_saved_variables()[0];
        EXPECT_TRUE(ctx->needs_input_grad(0));
        EXPECT_FALSE(ctx->needs_input_grad(1));
        return {grads[0] * x * x * (3 * ctx->saved_data["scale"].toDouble()), Tensor()};
    }
};

/// Saves its result, and what lies between.
struct ExpOfSquare : lz::autograd::Function<ExpOfSquare> {
    static Tensor forward(AutogradContext *ctx, Tensor x) {
        const Tensor square = x * x, result = lz::exp(square);
        ctx->save_for_backward({x, square, result});
        return result;
    }
    static variable_list backward(AutogradContext *ctx, variable_list grads) {
        const variable_list saved = ctx->get_saved_variables();
        return {grads[0] * (saved[2] + lz::exp(saved[1])) * saved[0]};
    }
};

struct SumAndProduct : lz::autograd::Function<SumAndProduct> {
    static variable_list forward(AutogradContext *ctx, Tensor a, Tensor b) {
        ctx->save_for_backward({a, b});
        variable_list out = {a + b, a * b, a * 7};
        ctx->mark_non_differentiable({out[2]});
        return out;
    }
    static variable_list backward(AutogradContext *ctx, variable_list grads) {
        EXPECT_EQ(grads.size(), 3u);
        const variable_list saved = ctx->get_saved_variables();
        return {grads[0] + grads[1] * saved[1], grads[0] + grads[1] * saved[0]};
    }
};

TEST(Function, HasTheBackwardThatItSays) {
    check_gradients([](const Inputs &i) { return Cube::apply(i[0], 0.5); }, {numbers({2, 3})});
    check_gradients([](const Inputs &i) { return ExpOfSquare::apply(i[0]); }, {numbers({4}, -1, 1)});
    check_gradients(
        [](const Inputs &i) {
            const variable_list both = SumAndProduct::apply(i[0], i[1]);
            EXPECT_FALSE(both[2].requires_grad());
            return both[0] * both[1];
        },
        {numbers({3}), numbers({3}, 0.5, 1.5)});
    // One result alone: zeros come for the other.
    check_gradients([](const Inputs &i) { return SumAndProduct::apply(i[0], i[1])[1]; },
                    {numbers({3}), numbers({3})});
    const lz::NoGradGuard off;
    EXPECT_FALSE(Cube::apply(lz::ones({2}).requires_grad_(), 1.0).requires_grad());
}

struct Wrong : lz::autograd::Function<Wrong> {
    static Tensor forward(AutogradContext *, Tensor x, int kind) {
        kind_of() = kind;
        return x * 2;
    }
    static variable_list backward(AutogradContext *, variable_list grads) {
        switch (kind_of()) {
        case 0:
            return {grads[0]};
        case 1:
            return {grads[0], Tensor(), grads[0]};
        default:
            return {lz::ones({5}), Tensor()};
        }
    }
    static int &kind_of() {
        static int kind = 0;
        return kind;
    }
};

TEST(Function, WithAWrongNumberOfGradientsIsAnError) {
    Tensor x = lz::ones({2}, {.requires_grad = true});
    const auto go = [&](int kind) { Wrong::apply(x, kind).sum().backward(); };
    expect_error<lz::StateError>([&] { go(0); },
                                 {"gradient of Wrong", "backward gave 1 gradients", "2 arguments"});
    expect_error<lz::StateError>([&] { go(1); }, {"backward gave 3 gradients"});
    expect_error<lz::ShapeError>([&] { go(2); }, {"f32[5]", "argument 0", "f32[2]"});
    EXPECT_FALSE(x.grad().defined());
}

TEST(Function, LetsGoOfWhatItSaved) {
    Tensor x = lz::ones({2}, {.requires_grad = true});
    const Tensor y = Cube::apply(x, 1.0).sum();
    y.backward({}, true);
    y.backward();
    expect_values(x.grad(), {6, 6});
    expect_error<lz::StateError>([&] { y.backward(); }, {"retain_graph"});
}

/// Gives nothing where it should give a tensor.
struct Nothing : lz::autograd::Function<Nothing> {
    static Tensor forward(AutogradContext *, Tensor) { return {}; }
    static variable_list backward(AutogradContext *, variable_list grads) { return grads; }
};
struct HalfOfTwo : lz::autograd::Function<HalfOfTwo> {
    static variable_list forward(AutogradContext *, Tensor x) { return {x * 2, Tensor()}; }
    static variable_list backward(AutogradContext *, variable_list grads) { return {grads[0]}; }
};

TEST(Function, AnEmptyResultIsAnErrorWithTheUsersLine) {
    const Tensor x = lz::ones({2}, {.requires_grad = true});
    expect_error<lz::StateError>([&] { Nothing::apply(x * 2); }, {"Nothing: forward gave an empty tensor;"});
    expect_error<lz::StateError>([&] { HalfOfTwo::apply(x * 2); }, {"HalfOfTwo", "result 1 of 2"});
    const lz::NoGradGuard off;
    expect_error<lz::StateError>([&] { Nothing::apply(x * 2); }, {"Nothing: forward gave an empty tensor;"});
    const uint32_t line = __LINE__ + 2;
    try {
        Nothing::apply_at(lz::Location::current(), x);
        FAIL();
    } catch (const lz::StateError &error) {
        EXPECT_EQ(error.line(), line);
    }
}

TEST(Function, SavedDataOfAnotherKindIsAnErrorThatNamesTheKeyAndBothKinds) {
    AutogradContext context;
    context.saved_data["steps"] = 3;
    context.saved_data["rate"] = 0.5;
    context.saved_data["name"] = "tanh";
    context.saved_data["on"] = true;
    context.saved_data["x"] = lz::ones({2});
    auto &saved = context.saved_data;
    EXPECT_EQ(saved["steps"].toInt(), 3);
    EXPECT_EQ(saved["rate"].toDouble(), 0.5);
    EXPECT_EQ(saved.at("name").toStringRef(), "tanh");
    EXPECT_TRUE(saved["on"].toBool());
    EXPECT_EQ(saved["x"].toTensor().numel(), 2);
    EXPECT_EQ(saved.count("x"), 1u);
    expect_error<lz::StateError>([&] { (void)saved["steps"].toDouble(); },
                                 {"toDouble: saved_data[\"steps\"] holds an integer; it is read with toInt"});
    expect_error<lz::StateError>([&] { (void)saved["rate"].toTensor(); },
                                 {"toTensor", "\"rate\"", "toDouble"});
    expect_error<lz::StateError>([&] { (void)saved.at("on").toInt(); }, {"\"on\"", "a bool", "toBool"});
    expect_error<lz::StateError>([&] { (void)saved["new"].toStringRef(); }, {"\"new\"", "holds nothing"});
    expect_error<lz::StateError>([] { (void)lz::autograd::SavedValue(3).toBool(); }, {"the value", "toInt"});
    expect_error<lz::IndexError>([&] { (void)saved.at("nmae"); }, {"no \"nmae\"", "6 values"});
}

TEST(Checkpoint, RecordsTheFunctionAgain) {
    int calls = 0;
    Tensor w = lz::full({3}, 2.0, {.dtype = lz::f64, .requires_grad = true});
    const auto f = [&](const variable_list &x) {
        ++calls;
        return lz::tanh(x[0] * w) * lz::dropout(x[1], 0.5);
    };
    Tensor a = numbers({3}).requires_grad_(), b = numbers({3}, 1, 2).requires_grad_();
    lz::manual_seed(3);
    const Tensor y = lz::autograd::checkpoint(f, {a, b});
    EXPECT_EQ(calls, 1);
    const Tensor next = lz::rand({2});
    y.sum().backward();
    EXPECT_EQ(calls, 2);
    const std::vector<Tensor> found = {a.grad().clone(), b.grad().clone(), w.grad().clone()};
    for (Tensor *x : {&a, &b, &w})
        x->mutable_grad() = Tensor();
    lz::manual_seed(3);
    f({a, b}).sum().backward();
    EXPECT_TRUE(lz::equal(found[0], a.grad()));
    EXPECT_TRUE(lz::equal(found[1], b.grad()));
    EXPECT_TRUE(lz::equal(found[2], w.grad()));
    EXPECT_TRUE(lz::equal(next, lz::rand({2}))) << "drawing again does not move the generator";
    check_gradients(
        [](const Inputs &i) {
            return lz::autograd::checkpoint([](const variable_list &x) { return lz::exp(x[0]) * x[1]; },
                                            {i[0], i[1]});
        },
        {numbers({3}), numbers({3})});
}

TEST(Transforms, ValueAndGrad) {
    const auto f = [](const Tensor &w, const Tensor &b) { return (w * w * b).sum(); };
    const auto [value, grads] = lz::value_and_grad(f)(lz::tensor({1.0, 2.0}), lz::tensor({3.0, 4.0}));
    expect_values(value, {19});
    expect_values(grads[0], {6, 16});
    expect_values(grads[1], {1, 4});
    EXPECT_FALSE(value.requires_grad() || grads[0].requires_grad());
    expect_error<lz::StateError>(
        [] { lz::value_and_grad([](const Tensor &x) { return x * 2; })(lz::ones({3})); },
        {"value_and_grad", "f32[3]", "one number"});
    // Of gradients.
    Tensor x = lz::tensor({2.0}, {.requires_grad = true});
    const auto cube = lz::value_and_grad([](const Tensor &v) { return (v * v * v).sum(); })(x);
    cube.second[0].backward();
    expect_values(x.grad(), {12});
}

TEST(Transforms, ProductsWithTheJacobian) {
    const lz::TensorFunction f = [](const std::vector<Tensor> &x) { return x[0] * x[0] * x[1].sum(); };
    const std::vector<Tensor> at = {lz::tensor({1.0, 2.0}), lz::tensor({3.0, 4.0, 5.0})};
    const auto [value, pulled] = lz::vjp(f, at, lz::tensor({1.0, 10.0}));
    expect_values(value, {12, 48});
    expect_values(pulled[0], {24, 480});
    expect_values(pulled[1], {41, 41, 41});
    const auto [same, pushed] = lz::jvp(f, at, {lz::tensor({1.0, 1.0}), lz::tensor({0.5, 0.0, 0.0})});
    expect_values(same, {12, 48});
    expect_values(pushed, {24.5, 50});
    expect_error<lz::ShapeError>([&] { lz::jvp(f, at, {at[0], at[0]}); },
                                 {"jvp", "tangent 1", "f32[2]", "f32[3]"});
    expect_error<lz::StateError>([&] { lz::jvp(f, at, {at[0]}); }, {"jvp", "1 tangents", "2 arguments"});
}

// From PyTorch. At zeros, and where two terms are the same, a formula may be right whose derivative is not.
TEST(Transforms, HessiansAtZerosAndTies) {
    const auto rows = [](const Tensor &x) {
        return (x.reshape({2, 3}).cumprod(1) * lz::tensor({1.0, 2.0, 3.0})).sum();
    };
    expect_values(lz::hessian(rows, lz::tensor({2.0, 0.0, 0.0, 0.0, 5.0, 0.0})),
                  {0, 2, 0, 0, 0, 0,  2, 0, 6, 0, 0, 0, 0, 6, 0, 0,  0, 0,
                   0, 0, 0, 0, 2, 15, 0, 0, 0, 2, 0, 0, 0, 0, 0, 15, 0, 0},
                  1e-6);
    expect_values(lz::hessian([](const Tensor &x) { return x.cumprod(0).sum(); },
                              lz::tensor({2.0, 0.0, 3.0, 0.0, 5.0, 0.0})),
                  {0, 4,  0, 0, 0, 0, 4, 0, 2, 36, 0, 0, 0, 2, 0, 0, 0, 0,
                   0, 36, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0},
                  1e-6);
    const auto beside_the_most = [](const Tensor &x) { return lz::logaddexp(x, x.amax()).sum(); };
    expect_values(lz::hessian(beside_the_most, lz::tensor({1.0, 2.0, 0.5})),
                  {0.19661, -0.19661, 0, -0.19661, 0.34576, -0.14915, 0, -0.14915, 0.14915}, 1e-5);
    expect_values(
        lz::hessian([](const Tensor &x) { return lz::logaddexp(x, lz::zeros({2})).sum(); }, lz::zeros({2})),
        {0.25, 0, 0, 0.25}, 1e-6);
}

TEST(Transforms, JacobianAndHessian) {
    const Tensor x = lz::tensor({1.0, 2.0, 3.0}, {.dtype = lz::f64});
    const Tensor j = lz::jacobian([](const Tensor &v) { return v.cumsum(0) * v; }, x);
    expect_tensor(j, {3, 3}, lz::f64, {2, 0, 0, 2, 5, 0, 3, 3, 9});
    const Tensor h = lz::hessian([](const Tensor &v) { return v.prod() + (v * v * v).sum(); }, x);
    expect_tensor(h, {3, 3}, lz::f64, {6, 3, 2, 3, 12, 1, 2, 1, 18});
    EXPECT_EQ(lz::jacobian([](const Tensor &v) { return v.sum(); }, lz::ones({2, 2})).sizes(),
              (lz::Sizes{2, 2}));
    expect_values(lz::jacobian([](const Tensor &) { return lz::ones({2}); }, x), {0, 0, 0, 0, 0, 0});
}

TEST(Transforms, AnEmptyTensorIsAnErrorWithTheUsersLine) {
    const Tensor x = lz::ones({2});
    const auto nothing = [](const Tensor &) { return Tensor(); };
    const lz::TensorFunction of_several = [](const std::vector<Tensor> &) { return Tensor(); };
    expect_error<lz::StateError>([&] { lz::jacobian(nothing, x); }, {"jacobian", "the tensor is empty"});
    expect_error<lz::StateError>([&] { lz::hessian(nothing, x); }, {"hessian", "the tensor is empty"});
    expect_error<lz::StateError>([&] { lz::value_and_grad(nothing)(x); },
                                 {"value_and_grad", "the tensor is empty"});
    expect_error<lz::StateError>([&] { lz::vjp(of_several, {x}, x); }, {"vjp", "the tensor is empty"});
    expect_error<lz::StateError>([&] { lz::jvp(of_several, {x}, {x}); }, {"jvp", "the tensor is empty"});
    expect_error<lz::StateError>([&] { lz::jacobian([](const Tensor &v) { return v; }, Tensor()); },
                                 {"jacobian", "the tensor is empty"});
}

} // namespace
