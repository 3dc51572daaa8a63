// What layers promise beside PyTorch's numbers: modes, initial values, in-place forms, clones, errors.
#include "support.h"

#include <cmath>

namespace {

using namespace lz::test;
using lz::Tensor;
namespace nn = lz::nn;
namespace F = lz::nn::functional;

TEST(Layers, BeginAsInPyTorch) {
    lz::manual_seed(3);
    const auto expect_uniform = [](const Tensor &t, double bound) {
        EXPECT_LE(t.abs().max().item<double>(), bound);
        EXPECT_NEAR(t.mean().item<double>(), 0, bound / 10);
        EXPECT_NEAR(t.std().item<double>(), bound / std::sqrt(3), bound / 10);
    };
    nn::Linear linear(64, 100);
    expect_uniform(linear->weight, 1 / 8.0);
    expect_uniform(linear->bias, 1 / 8.0);
    nn::GRU gru(5, 64);
    expect_uniform(gru->named_parameters().at("weight_ih_l0"), 1 / 8.0);
    nn::MultiheadAttention attention(32, 4);
    expect_uniform(attention->in_proj_weight, std::sqrt(6.0 / (32 * 4)));
    EXPECT_EQ(attention->in_proj_bias.abs().max().item<float>(), 0);
    EXPECT_EQ(attention->out_proj->bias.abs().max().item<float>(), 0);
    nn::Embedding embedding(nn::EmbeddingOptions(100, 64).padding_idx(7));
    EXPECT_NEAR(embedding->weight.std().item<double>(), 1, 0.05);
    EXPECT_EQ(Tensor(embedding->weight.at({7})).abs().max().item<float>(), 0);
    // The seed says which.
    lz::manual_seed(3);
    nn::Linear again(64, 100);
    EXPECT_EQ(floats(again->weight), floats(linear->weight));
}

TEST(Layers, BatchNormFollowsItsBatchesInTrainingOnly) {
    nn::BatchNorm1d norm(2);
    const Tensor x = lz::tensor({{1.0, 10.0}, {3.0, 30.0}});
    norm(x);
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
    EXPECT_EQ(floats(norm->running_mean), (std::vector<float>{0.2F, 2}));
    const std::vector<float> variance = floats(norm->running_var);
    EXPECT_NEAR(variance[0], 0.9 + 0.1 * 2, 1e-6);
    EXPECT_NEAR(variance[1], 0.9 + 0.1 * 200, 1e-5);
    EXPECT_FALSE(norm->running_mean.requires_grad());
    norm->eval();
    const Tensor y = norm(x);
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
    EXPECT_NEAR(floats(y)[0], (1 - 0.2) / std::sqrt(1.1 + 1e-5), 1e-5);
    EXPECT_EQ(norm->state_dict().keys(), (std::vector<std::string>{"weight", "bias", "running_mean",
                                                                   "running_var", "num_batches_tracked"}));
    norm->train();
    const Caught error = caught<lz::ShapeError>([&] { norm(lz::ones({1, 2})); });
    EXPECT_TRUE(error.has("has 1 value a channel")) << error.what;
    EXPECT_TRUE(caught<lz::ShapeError>([&] { norm(lz::ones({2, 2, 2, 2})); }).has("it needs 2 or 3"));
    EXPECT_TRUE(caught<lz::ShapeError>([&] { norm(lz::ones({2, 3})); }).has("axis 1 of the input extent 3"));
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1); // what was refused does not count
}

TEST(Layers, DropoutDropsInTrainingOnly) {
    nn::Dropout dropout(0.25);
    const Tensor x = lz::ones({4000}, {.requires_grad = true});
    const Tensor y = dropout(x);
    y.sum().backward();
    EXPECT_EQ(floats(x.grad()), floats(y)); // the same elements
    const float kept = (y > 0).to(lz::f32).mean().item<float>();
    EXPECT_NEAR(kept, 0.75, 0.05);
    EXPECT_NEAR(y.max().item<float>(), 1 / 0.75, 1e-6);
    dropout->eval();
    EXPECT_TRUE(dropout(x).same_tensor(x));
    EXPECT_TRUE(caught<lz::IndexError>([] { nn::Dropout(1.5); }).has("out of [0, 1]"));
    // Whole channels.
    const std::vector<float> sums = floats(nn::Dropout2d(0.5)(lz::ones({3, 5, 2, 2})).sum({2, 3}));
    for (const float sum : sums)
        EXPECT_TRUE(sum == 0 || sum == 8) << sum;
    EXPECT_EQ(nn::Dropout(1)(lz::ones({3})).sum().item<float>(), 0);
}

TEST(Layers, WorkInPlaceWhereAsked) {
    Tensor x = lz::tensor({-1.0, 2.0});
    const Tensor y = nn::ReLU(true)(x);
    EXPECT_EQ(floats(x), (std::vector<float>{0, 2}));
    EXPECT_TRUE(y.same_tensor(x));
    x = lz::tensor({-1.0, 2.0});
    nn::ReLU()(x);
    EXPECT_EQ(floats(x), (std::vector<float>{-1, 2}));
    // With gradients.
    const Tensor leaf = lz::tensor({-1.0, 2.0}, {.requires_grad = true});
    Tensor z = leaf * 3;
    nn::LeakyReLU(0.1, true)(z);
    z.sum().backward();
    EXPECT_EQ(floats(z), (std::vector<float>{-0.3F, 6}));
    EXPECT_NEAR(floats(leaf.grad())[0], 0.3, 1e-6);
    EXPECT_TRUE(caught<lz::StateError>([&] { nn::ELU(1, true)(leaf); }).has("is a leaf that requires grad"));
}

TEST(Layers, ComputeHalfTypesInF32) {
    const Tensor x = lz::linspace(-4, 4, 33).to(lz::f16);
    for (Tensor (*const function)(const Tensor &, lz::Location) :
         {F::selu, F::hardswish, F::softsign, F::logsigmoid, F::mish, F::tanhshrink}) {
        const Tensor y = function(x, lz::Location::current());
        EXPECT_EQ(y.dtype(), lz::f16);
        EXPECT_TRUE(y.equal(function(x.to(lz::f32), lz::Location::current()).to(lz::f16)));
    }
}

TEST(Layers, EmbeddingsOfAMaximalNormAreShortened) {
    nn::Embedding embedding(nn::EmbeddingOptions(3, 2).max_norm(1));
    embedding->load_state_dict({{"weight", lz::tensor({{3.0, 4.0}, {0.3, 0.4}, {6.0, 8.0}})}});
    const std::vector<float> rows = floats(embedding(lz::tensor({0, 1})));
    const std::vector<float> expected = {0.6F, 0.8F, 0.3F, 0.4F};
    for (size_t i = 0; i < 4; ++i)
        EXPECT_NEAR(rows[i], expected[i], 1e-6);
    EXPECT_EQ(floats(embedding->weight)[4], 6); // was not looked up
    const nn::Embedding given = nn::Embedding::from_pretrained(lz::ones({4, 2}));
    EXPECT_FALSE(given->weight.requires_grad());
    EXPECT_TRUE(caught<lz::IndexError>([] {
                    nn::Embedding(nn::EmbeddingOptions(3, 2).padding_idx(3));
                }).has("padding_idx is 3, and there are 3 vectors"));
    EXPECT_TRUE(caught<lz::StateError>([] {
                    nn::EmbeddingBag(3, 2)(lz::tensor({0, 1}), lz::tensor({0}), lz::ones({2}));
                }).has("in the mode Sum only"));
}

TEST(Layers, ACausalHintIsACausalMask) {
    nn::MultiheadAttention attention(4, 2);
    const Tensor x = lz::randn({3, 2, 4});
    const Tensor mask = lz::ones({3, 3}, {.dtype = lz::boolean}).triu(1);
    const Tensor masked = std::get<0>(attention(x, x, x, Tensor(), false, mask));
    const auto [hinted, none] = attention(x, x, x, Tensor(), false, Tensor(), true, true);
    EXPECT_TRUE(masked.allclose(hinted, 1e-6, 1e-6));
    EXPECT_FALSE(none.defined());
    const Tensor q = lz::randn({2, 3, 4});
    const Tensor added = lz::zeros({3, 3}).masked_fill(mask, -INFINITY);
    const Tensor causal = F::scaled_dot_product_attention(q, q, q, {}, 0, true);
    EXPECT_TRUE(causal.allclose(F::scaled_dot_product_attention(q, q, q, added), 1e-6, 1e-6));
    EXPECT_TRUE(causal.allclose(F::scaled_dot_product_attention(q, q, q, lz::logical_not(mask)), 1e-6, 1e-6));
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    F::scaled_dot_product_attention(q, q, q, mask, 0, true);
                }).has("is_causal is itself a mask"));
}

/// Beside the mean and the variance of each group, written out in f64.
TEST(Layers, GroupNormTakesEachChannelsNumbers) {
    for (const auto &[sizes, groups] : std::vector<std::pair<lz::Sizes, int64_t>>{
             {{3, 4, 5}, 2}, {{2, 6}, 3}, {{2, 6}, 6}, {{1, 4, 3, 3}, 1}, {{2, 8, 2, 3, 4}, 4}}) {
        const int64_t n = sizes[0], channels = sizes[1];
        const Tensor x = lz::randn(sizes) * 3 + 1, weight = lz::randn({channels}),
                     bias = lz::randn({channels});
        const Tensor y = nn::functional::group_norm(x, groups, weight, bias, 0.25);
        const std::vector<float> in = x.to_vector<float>(), out = y.to_vector<float>(),
                                 w = weight.to_vector<float>(), b = bias.to_vector<float>();
        const size_t each = in.size() / static_cast<size_t>(n * groups),
                     places = in.size() / static_cast<size_t>(n * channels);
        for (size_t first = 0; first < in.size(); first += each) {
            double sum = 0, squares = 0;
            for (size_t i = first; i < first + each; ++i)
                sum += in[i];
            const double mean = sum / static_cast<double>(each);
            for (size_t i = first; i < first + each; ++i)
                squares += (in[i] - mean) * (in[i] - mean);
            const double scale = 1 / std::sqrt(squares / static_cast<double>(each) + 0.25);
            for (size_t i = first; i < first + each; ++i) {
                const size_t c = i / places % static_cast<size_t>(channels);
                EXPECT_NEAR(out[i], (in[i] - mean) * scale * w[c] + b[c], 1e-5) << i;
            }
        }
    }
}

TEST(Layers, GroupNormOfNothingHasGradientsOfZero) {
    for (const lz::Sizes &sizes : {lz::Sizes{0, 4, 3}, {2, 4, 0}}) {
        nn::GroupNorm norm(2, 4);
        norm(lz::ones(sizes)).sum().backward();
        EXPECT_EQ(norm->weight.grad().to_vector<float>(), std::vector<float>(4, 0));
        EXPECT_EQ(norm->bias.grad().to_vector<float>(), std::vector<float>(4, 0));
    }
}

TEST(Layers, SayWhatDoesNotFit) {
    EXPECT_TRUE(
        caught<lz::ShapeError>([] { nn::MultiheadAttention(5, 2); }).has("5, is not divided by 2 heads"));
    nn::MultiheadAttention attention(4, 2);
    const Tensor x = lz::ones({3, 2, 4});
    EXPECT_TRUE(caught<lz::ShapeError>([&] {
                    attention(x, x, x, lz::ones({3, 2}));
                }).has("key_padding_mask is (3, 2); it needs (2, 3)"));
    EXPECT_TRUE(caught<lz::ShapeError>([&] {
                    attention(x, x, x, Tensor(), true, lz::ones({2, 2}));
                }).has("attn_mask is (2, 2); it needs (3, 3) or (4, 3, 3)"));
    EXPECT_TRUE(caught<lz::DTypeError>([&] {
                    attention(x, x, x, Tensor(), true, lz::ones({3, 3}, {.dtype = lz::i64}));
                }).has("needs bool or floats"));
    EXPECT_TRUE(
        caught<lz::ShapeError>([] { nn::GroupNorm(3, 4); }).has("4 channels are not divided by 3 groups"));
    EXPECT_TRUE(caught<lz::DTypeError>([] {
                    nn::functional::group_norm(lz::ones({2, 4, 3}, {.dtype = lz::i32}), 2);
                }).has("group_norm: the input must be floats, not i32"));
    const Tensor six = lz::ones({4, 6}), five = lz::ones({5, 5});
    const auto attention_error = [&](const Tensor &q, const Tensor &k, const Tensor &v) {
        return caught<lz::ShapeError>([&] { nn::functional::scaled_dot_product_attention(q, k, v); });
    };
    EXPECT_TRUE(attention_error(six, five, five).has("the query is (4, 6) and the key (5, 5)"));
    EXPECT_TRUE(attention_error(six, six, five).has("the key is (4, 6) and the value (5, 5)"));
    EXPECT_TRUE(attention_error(six, lz::ones({6}), six).has("it needs 2 axes or more"));
    nn::LSTM lstm(3, 2);
    const uint32_t line = __LINE__ + 1;
    Caught error = caught<lz::ShapeError>([&] { lstm(lz::ones({4, 2, 5})); });
    EXPECT_TRUE(error.has("LSTM: the input is (4, 2, 5)")) << error.what;
    EXPECT_EQ(error.line, line);
    EXPECT_TRUE(caught<lz::ShapeError>([&] { lstm(lz::ones({0, 2, 3})); }).has("has no steps"));
    error = caught<lz::ShapeError>(
        [&] { lstm(lz::ones({4, 2, 3}), std::make_tuple(lz::ones({1, 2, 2}), lz::ones({1, 1, 2}))); });
    EXPECT_TRUE(error.has("c_0 is (1, 1, 2); it needs (1, 2, 2)")) << error.what;
    EXPECT_TRUE(
        caught<lz::IndexError>([] { nn::GRU(nn::GRUOptions(1, 1).num_layers(0)); }).has("num_layers is 0"));
    EXPECT_TRUE(caught<lz::StateError>([] {
                    nn::RNN(nn::RNNOptions(1, 1).nonlinearity("sin"));
                }).has("no nonlinearity \"sin\""));
    EXPECT_TRUE(
        caught<lz::StateError>([] { nn::GELU(nn::GELUOptions().approximate("erf")); }).has("\"tanh\""));
    EXPECT_TRUE(caught<lz::ShapeError>([] { nn::PReLU(3)(lz::ones({2, 4})); }).has("axis 1 of the input 4"));
    EXPECT_TRUE(caught<lz::ShapeError>([] { nn::GLU()(lz::ones({2, 3})); }).has("which has no half"));
    EXPECT_TRUE(caught<lz::ShapeError>([] {
                    nn::GRUCell(3, 2)(lz::ones({2, 3}), lz::ones({3, 2}));
                }).has("the state is (3, 2); it needs (2, 2)"));
}

TEST(Layers, AllCanBeCloned) {
    const auto expect_clone = [](nn::Module &module) {
        SCOPED_TRACE(module.name());
        module.eval();
        const std::shared_ptr<nn::Module> copy = module.clone();
        EXPECT_EQ(copy->str(), module.str());
        const lz::StateDict own = module.state_dict(), other = copy->state_dict();
        ASSERT_EQ(own.keys(), other.keys());
        for (const auto &[name, value] : own)
            EXPECT_TRUE(value.equal(other.at(name))) << name;
        const auto parameters = module.parameters(), others = copy->parameters();
        for (size_t i = 0; i < parameters.size(); ++i)
            EXPECT_FALSE(parameters[i].same_tensor(others[i]));
        EXPECT_FALSE(copy->is_training());
    };
    expect_clone(*nn::BatchNorm2d(3));
    expect_clone(*nn::LSTM(nn::LSTMOptions(2, 2).bidirectional(true)));
    expect_clone(*nn::GRUCell(2, 2));
    expect_clone(*nn::Embedding(3, 2));
    expect_clone(*nn::RMSNorm(4));
    expect_clone(*nn::TransformerEncoder(
        nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(3)), 2,
        nn::LayerNorm(4)));
    expect_clone(
        *nn::Sequential({{"fc", nn::Linear(2, 2)}, {"act", nn::PReLU()}, {"norm", nn::GroupNorm(1, 2)}}));
}

TEST(Layers, CostNoKernelMoreThanFunctions) {
    nn::Sequential net(nn::Linear(8, 16), nn::GELU(), nn::LayerNorm(16), nn::Linear(16, 4));
    net->eval();
    const std::vector<Tensor> p = net->parameters();
    const Tensor x = lz::randn({4, 8});
    lz::eval(p);
    lz::eval({x});
    const auto launches = [](auto &&f) {
        f();
        const int64_t before = lz::compile_stats().kernel_launches;
        const Tensor y = f();
        y.eval();
        return lz::compile_stats().kernel_launches - before;
    };
    const lz::NoGradGuard no_grad;
    const int64_t by_hand = launches([&] {
        return lz::linear(lz::layer_norm(lz::gelu(lz::linear(x, p[0], p[1])), {16}, p[2], p[3]), p[4], p[5]);
    });
    EXPECT_GT(by_hand, 0);
    EXPECT_EQ(launches([&] { return net(x); }), by_hand);
}

TEST(Utils, ParametersAreOneVectorAndBack) {
    nn::Linear fc(2, 2);
    const Tensor vector = nn::utils::parameters_to_vector(fc->parameters());
    EXPECT_EQ(vector.sizes(), lz::Sizes{6});
    EXPECT_TRUE(vector.requires_grad());
    (vector * vector).sum().backward();
    EXPECT_TRUE(fc->bias.grad().allclose(fc->bias * 2));
    nn::utils::vector_to_parameters(lz::arange(6.0), fc->parameters());
    EXPECT_EQ(floats(fc->weight), (std::vector<float>{0, 1, 2, 3}));
    EXPECT_EQ(floats(fc->bias), (std::vector<float>{4, 5}));
    EXPECT_TRUE(fc->weight.requires_grad() && fc->weight.is_leaf());
    EXPECT_TRUE(caught<lz::ShapeError>([&] {
                    nn::utils::vector_to_parameters(lz::ones({7}), fc->parameters());
                }).has("the parameters need 1 axis and 6 elements"));
    EXPECT_EQ(floats(fc->bias), (std::vector<float>{4, 5}));
    EXPECT_TRUE(caught<lz::StateError>([] {
                    nn::utils::parameters_to_vector(std::vector<Tensor>());
                }).has("there are no parameters"));
}

} // namespace
