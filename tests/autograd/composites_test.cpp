// The rules of compositions beside central differences; corners are PyTorch's.
#include "check.h"

#include <cmath>

namespace {

using namespace lz::test;
using lz::Tensor;

Case of(const char *name, const std::function<Tensor(const Tensor &)> &function, const lz::Sizes &sizes,
        double low = -2, double high = 2) {
    return {name, [=](const Inputs &x) { return function(x[0]); }, {numbers(sizes, low, high)}};
}

TEST(Gradients, Activations) {
    check_all({
        of("relu", [](const Tensor &x) { return lz::relu(x); }, {2, 3}),
        of("silu", [](const Tensor &x) { return lz::silu(x); }, {2, 3}),
        of("gelu", [](const Tensor &x) { return lz::gelu(x); }, {2, 3}),
        of("gelu by tanh", [](const Tensor &x) { return lz::gelu(x, lz::Gelu::Tanh); }, {2, 3}),
        of("softplus", [](const Tensor &x) { return lz::softplus(x, 2, 1.5); }, {2, 3}),
        of("leaky_relu", [](const Tensor &x) { return lz::leaky_relu(x, 0.2); }, {2, 3}),
        of("clamp", [](const Tensor &x) { return lz::square(x.clamp(-0.7, 1.1)); }, {7}),
        of("clamp from below", [](const Tensor &x) { return lz::square(x.clamp(-0.7)); }, {7}),
        {"clamp by tensors",
         [](const Inputs &x) { return lz::square(lz::clamp(x[0], x[1], x[2])); },
         {numbers({7}), numbers({7}, -1.5, 0), numbers({7}, -0.5, 1.5)}},
        {"clamp by numbers",
         [](const Inputs &x) { return lz::square(lz::clamp(x[0], x[1], x[2])); },
         {numbers({7}), numbers({}, -1.5, -1), numbers({}, 0.5, 1)}},
    });
}

TEST(Gradients, CompositionsOverAxes) {
    check_all({
        of("softmax", [](const Tensor &x) { return x.softmax(1); }, {2, 3}),
        of("softmax over the first axis", [](const Tensor &x) { return x.softmax(0); }, {3, 2}),
        of("log_softmax", [](const Tensor &x) { return x.log_softmax(-1); }, {2, 3}),
        of(
            "softmax of a number", [](const Tensor &x) { return x.softmax(0) * x; }, lz::Sizes()),
        of("logsumexp", [](const Tensor &x) { return x.logsumexp({0, 1}, true); }, {2, 3}),
        of("var", [](const Tensor &x) { return x.var({0, 2}, 0); }, {2, 2, 3}),
        of("std", [](const Tensor &x) { return x.std(1, 1, true); }, {2, 3}),
        of("norm", [](const Tensor &x) { return x.norm(2, 1); }, {2, 3}),
        of("norm 1", [](const Tensor &x) { return x.norm(1); }, {2, 3}),
        of("norm 1.5", [](const Tensor &x) { return x.norm(1.5, 0); }, {2, 3}),
        of("norm 3", [](const Tensor &x) { return x.norm(3, 0); }, {2, 3}),
        of("norm inf", [](const Tensor &x) { return lz::square(x.norm(INFINITY, 1)); }, {2, 3}),
        of("norm 0", [](const Tensor &x) { return x.norm(0) * x; }, {3}),
        of("max", [](const Tensor &x) { return lz::square(x.max(1).values); }, {2, 3}),
        of("min that keeps the axis", [](const Tensor &x) { return lz::square(x.min(0, true).values); },
           {2, 3}),
    });
}

TEST(Gradients, DistancesQuantilesAndRunningExtremes) {
    const auto distances = [](double p, int64_t mode) {
        return [=](const Inputs &x) { return lz::cdist(x[0], x[1], p, mode); };
    };
    std::vector<Case> cases = {
        {"euclidean", distances(2, 2), {numbers({3, 2}), numbers({4, 2}, -1.3, 2.9)}},
        {"by products", distances(2, 1), {numbers({3, 2}), numbers({4, 2}, -1.3, 2.9)}},
        {"by products, batches that broadcast",
         distances(2, 1),
         {numbers({2, 1, 3, 2}), numbers({3, 2, 2}, -1.3, 2.9)}},
        {"sums", distances(1, 0), {numbers({2, 3, 2}), numbers({2, 2}, -1.3, 2.9)}},
        {"p = 3", distances(3, 0), {numbers({3, 2}), numbers({2, 2}, -1.3, 2.9)}},
        of("cummax", [](const Tensor &x) { return lz::square(x.cummax(1).values); }, {3, 5}),
        of("cummin", [](const Tensor &x) { return lz::square(x.cummin(0).values); }, {5, 3}),
        of("quantile",
           [](const Tensor &x) { return lz::square(x.quantile(lz::tensor({0.1, 0.6}, lz::f64), 1)); },
           {2, 4}),
        of("median of all by quantile", [](const Tensor &x) { return x.quantile(0.5); }, {7}),
    };
    check_all(cases);
}

TEST(Gradients, ProductsThatAreAdded) {
    const auto added = [](auto function) {
        return [=](const Inputs &x) { return function(x[0], x[1], x[2]); };
    };
    check_all({
        {"addmv",
         added([](const Tensor &x, const Tensor &a, const Tensor &b) { return x.addmv(a, b, 0.5, 2); }),
         {numbers({2}), numbers({2, 3}), numbers({3})}},
        {"addr",
         added([](const Tensor &x, const Tensor &a, const Tensor &b) { return x.addr(a, b, 0.5, 2); }),
         {numbers({2, 3}), numbers({2}), numbers({3})}},
        {"baddbmm",
         added([](const Tensor &x, const Tensor &a, const Tensor &b) { return x.baddbmm(a, b, 0.5, 2); }),
         {numbers({3}), numbers({2, 2, 2}), numbers({2, 2, 3})}},
        {"addbmm",
         added([](const Tensor &x, const Tensor &a, const Tensor &b) { return x.addbmm(a, b, 0.5, 2); }),
         {numbers({2, 1}), numbers({2, 2, 2}), numbers({2, 2, 3})}},
        {"kron", [](const Inputs &x) { return lz::kron(x[0], x[1]); }, {numbers({2, 2}), numbers({3})}},
        {"kron of many axes",
         [](const Inputs &x) { return lz::kron(x[0], x[1]); },
         {numbers({2, 1, 1, 2, 1}), numbers({1, 2, 1, 1, 2})}},
        {"tensordot",
         [](const Inputs &x) { return lz::tensordot(x[0], x[1], {0, 2}, {1, 0}); },
         {numbers({2, 2, 3}), numbers({3, 2, 2})}},
        {"tensordot of one element",
         [](const Inputs &x) { return lz::tensordot(x[0], x[1], {1}, {0}); },
         {numbers({2, 1}), numbers({3, 2})}},
    });
}

TEST(Gradients, OfWhatIsPutAroundAndIn) {
    const Tensor at = lz::tensor({2, 0});
    check_all({
        of("mirrored", [](const Tensor &x) { return lz::square(lz::pad(x, {2, 1, 1, 0}, lz::kReflect)); },
           {2, 3}),
        of("the outermost",
           [](const Tensor &x) { return lz::square(lz::pad(x, {2, 1, -1, 1}, lz::kReplicate)); }, {2, 3}),
        of("the other end",
           [](const Tensor &x) { return lz::square(lz::pad(x, {2, 1, 1, 0}, lz::kCircular)); }, {2, 3}),
        {"index_fill",
         [=](const Inputs &x) { return lz::square(x[0].index_fill(1, at, x[1])); },
         {numbers({2, 3}), numbers(lz::Sizes())}},
        {"index_copy",
         [=](const Inputs &x) { return lz::square(x[0].index_copy(0, at, x[1])); },
         {numbers({3, 2}), numbers({2, 2})}},
    });
}

TEST(Gradients, OfPathsThroughALabelling) {
    // Of logits: what is added to the gradient of logarithms of probabilities does not change theirs.
    const Tensor targets = lz::tensor({{1, 1, 2}, {3, 2, 0}});
    std::vector<Case> cases;
    for (const lz::Reduction reduction : {lz::Reduction::Mean, lz::Reduction::Sum, lz::Reduction::None})
        cases.push_back({"ctc_loss",
                         [=](const Inputs &x) {
                             return lz::ctc_loss(x[0].log_softmax(2), targets, {5, 4}, {3, 2}, 0, reduction);
                         },
                         {numbers({5, 2, 4})},
                         {.second = false}});
    check_all(cases);
}

TEST(Gradients, Normalizations) {
    const Tensor x = numbers({2, 3, 4}), w = numbers({4}, 0.5, 2), b = numbers({4}),
                 v = numbers({3, 4}, 0.5, 2);
    check_all({
        {"layer_norm", [](const Inputs &i) { return lz::layer_norm(i[0], {4}, i[1], i[2]); }, {x, w, b}},
        {"layer_norm alone", [](const Inputs &i) { return lz::layer_norm(i[0], {3, 4}); }, {x}},
        {"layer_norm of what is fixed",
         [=](const Inputs &i) { return lz::square(lz::layer_norm(x, {4}, i[0], i[1])); },
         {w, b}},
        {"layer_norm, bias alone",
         [=](const Inputs &i) { return lz::square(lz::layer_norm(x, {4}, w, i[0])); },
         {b}},
        {"rms_norm", [](const Inputs &i) { return lz::rms_norm(i[0], {3, 4}, i[1]); }, {x, v}},
        {"rms_norm alone", [](const Inputs &i) { return lz::rms_norm(i[0], {4}, {}, 0.1); }, {x}},
    });
}

TEST(Gradients, Losses) {
    const Tensor scores = numbers({4, 3}), labels = lz::tensor({2, 0, -100, 1}), image = numbers({2, 3, 2}),
                 places = lz::tensor({{0, 2}, {1, 1}}), p = numbers({4, 3}, 0.1, 0.6);
    std::vector<Case> cases;
    for (const lz::Reduction reduction : {lz::Reduction::Mean, lz::Reduction::Sum, lz::Reduction::None})
        for (const double smooth : {0.0, 0.2}) {
            const lz::CrossEntropyOptions options{.reduction = reduction, .label_smoothing = smooth};
            cases.push_back({"cross_entropy",
                             [=](const Inputs &i) { return lz::cross_entropy(i[0], labels, options); },
                             {scores}});
            cases.push_back({"cross_entropy of images",
                             [=](const Inputs &i) { return lz::cross_entropy(i[0], places, options); },
                             {image}});
            cases.push_back({"cross_entropy of probabilities",
                             [=](const Inputs &i) { return lz::cross_entropy(i[0], i[1], options); },
                             {scores, p}});
            cases.push_back({"nll_loss",
                             [=](const Inputs &i) { return lz::square(lz::nll_loss(i[0], labels, options)); },
                             {scores}});
            cases.push_back({"mse_loss",
                             [=](const Inputs &i) { return lz::mse_loss(i[0], i[1], reduction); },
                             {scores, p}});
        }
    cases.push_back({"cross_entropy of one sample",
                     [](const Inputs &i) { return lz::cross_entropy(i[0], lz::tensor(1)); },
                     {numbers({3})}});
    check_all(cases);
}

TEST(Gradients, OfDropoutDrawTheSameNumbersAgain) {
    lz::manual_seed(5);
    Tensor x = lz::ones({1000}, {.requires_grad = true});
    const Tensor y = lz::dropout(x, 0.25), other = lz::dropout(x, 0.25);
    (y * 2).sum().backward();
    const std::vector<float> values = y.to_vector<float>(), slopes = x.grad().to_vector<float>();
    int kept = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_FLOAT_EQ(slopes[i], 2 * values[i]);
        kept += values[i] != 0;
    }
    EXPECT_NEAR(kept, 750, 60);
    EXPECT_FALSE(lz::equal(y, other));
    EXPECT_TRUE(lz::dropout(x, 0.5, false).same_tensor(x));
    EXPECT_TRUE(lz::dropout(x, 0).same_tensor(x));
    EXPECT_TRUE(lz::equal(lz::dropout(x, 1), lz::zeros({1000})));
}

TEST(Gradients, OfCompositionsAreThoseOfPyTorchAtCorners) {
    const auto gradient = [](const std::function<Tensor(const Tensor &)> &f, const std::vector<double> &at) {
        Tensor x = lz::tensor<double>(at, {.requires_grad = true});
        f(x).sum().backward();
        return x.grad().to_vector<double>();
    };
    using V = std::vector<double>;
    EXPECT_EQ(gradient([](const Tensor &x) { return lz::relu(x); }, {-1, 0, 2}), (V{0, 0, 1}));
    // Of what a mask selects, which is read when it is used.
    EXPECT_EQ(gradient([](const Tensor &x) { return lz::relu(x.at(x < 1)); }, {-1, 0, 2}), (V{0, 0, 0}));
    EXPECT_EQ(gradient([](const Tensor &x) { return lz::gelu(x.at(x > 100)); }, {-1, 200}), (V{0, 1}));
    EXPECT_EQ(gradient([](const Tensor &x) { return lz::leaky_relu(x, 0.1); }, {-1, 0, 2}), (V{0.1, 0.1, 1}));
    EXPECT_EQ(gradient([](const Tensor &x) { return x.clamp(-1, 2); }, {-1, 0, 2, 3}), (V{0, 1, 0, 0}));
    EXPECT_EQ(gradient([](const Tensor &x) { return x.clamp(-1); }, {-2, -1, 0}), (V{0, 0, 1}));
    EXPECT_EQ(gradient([](const Tensor &x) { return x.max(0).values; }, {1, 3, 3}), (V{0, 1, 0}));
    EXPECT_EQ(gradient([](const Tensor &x) { return x.amax(0); }, {1, 3, 3}), (V{0, 0.5, 0.5}));
    const double nan = std::nan("");
    EXPECT_EQ(gradient([](const Tensor &x) { return x.median(); }, {1, 2, 2, 3}), (V{0, 0.5, 0.5, 0}));
    EXPECT_EQ(gradient([](const Tensor &x) { return x.median(); }, {1, nan, nan}), (V{0, 0.5, 0.5}));
    EXPECT_EQ(gradient([](const Tensor &x) { return x.median(0).values; }, {1, 2, 2, 3}), (V{0, 1, 0, 0}));
    EXPECT_EQ(gradient([](const Tensor &x) { return x.norm(); }, {0, 0}), (V{0, 0}));
    EXPECT_EQ(gradient([](const Tensor &x) { return x.norm(1.5); }, {0, 0}), (V{0, 0}));
    EXPECT_EQ(gradient([](const Tensor &x) { return x.std(); }, {2, 2}), (V{0, 0}));
    EXPECT_EQ(gradient([](const Tensor &x) { return lz::softplus(x, 1, 20); }, {0, 30}), (V{0.5, 1}));
}

TEST(Gradients, CompositionsKeepWhatTheirRulesRead) {
    // A composition whose input is all that is kept does not store what lies between, although a sync falls
    // before backward: two results, the value and nothing else.
    Tensor x = lz::randn({64, 64}, {.requires_grad = true});
    const Tensor y = lz::gelu(x, lz::Gelu::Tanh);
    const int64_t before = lz::memory_allocated(lz::Device::cpu());
    lz::sync();
    EXPECT_LE(lz::memory_allocated(lz::Device::cpu()) - before, 2 * 64 * 64 * 4 + 1024); // x and y
    y.sum().backward();
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

} // namespace
