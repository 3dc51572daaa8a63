// Modules beside those of PyTorch, which a script stored (inputs/make_pytorch_modules.py): their printed
// form, the names, order and shapes of their state dicts, results, gradients, and buffers afterwards.
#include "tests/support/files/data.h"

#include "stored.h"
#include "support.h"

#include <lazuli/io.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <tuple>

namespace {

using namespace lz::test;
using lz::Tensor;
namespace nn = lz::nn;
using Inputs = std::vector<Tensor>;

/// A module, and how it is called; several results are flattened and joined.
struct Made {
    std::shared_ptr<nn::Module> module;
    std::function<Tensor(const Inputs &)> call;
};
using Maker = std::function<Made()>;

void flatten(const Tensor &t, Inputs &out) {
    if (t.defined())
        out.push_back(t);
}
template <class... T>
void flatten(const std::tuple<T...> &results, Inputs &out) {
    std::apply([&](const auto &...result) { (flatten(result, out), ...); }, results);
}

template <class T>
Tensor joined(const T &results) {
    Inputs all;
    flatten(results, all);
    if (all.size() == 1)
        return all[0];
    for (Tensor &one : all)
        one = one.flatten();
    return lz::cat(all);
}

/// Of one input, of two, and of three.
template <class Holder>
Made one(Holder holder) {
    return {holder.ptr(), [holder](const Inputs &i) { return joined(holder(i[0])); }};
}
template <class Holder>
Made two(Holder holder) {
    return {holder.ptr(), [holder](const Inputs &i) { return joined(holder(i[0], i[1])); }};
}
template <class Holder>
Made three(Holder holder) {
    return {holder.ptr(), [holder](const Inputs &i) { return joined(holder(i[0], i[1], i[2])); }};
}

template <class Holder>
Made in_eval_mode(Holder holder) {
    holder->eval();
    return one(holder);
}

/// The modules of the script, by its names.
const std::map<std::string, Maker> &makers() {
#define LZ_ONE(name, ...)                                                                                    \
    {                                                                                                        \
        #name, [] { return one(nn::__VA_ARGS__); }                                                           \
    }
#define LZ_TWO(name, ...)                                                                                    \
    {                                                                                                        \
        #name, [] { return two(nn::__VA_ARGS__); }                                                           \
    }
#define LZ_THREE(name, ...)                                                                                  \
    {                                                                                                        \
        #name, [] { return three(nn::__VA_ARGS__); }                                                         \
    }
    static const auto &all = *new std::map<std::string, Maker>{
        LZ_ONE(linear, Linear(4, 3)),
        LZ_ONE(linear_without_bias, Linear(4, 3, false)),
        LZ_TWO(bilinear, Bilinear(2, 3, 4)),
        LZ_ONE(flatten, Flatten()),
        LZ_ONE(unflatten, Unflatten(1, lz::Sizes{2, 3})),
        LZ_ONE(identity, Identity()),
        LZ_ONE(sequential, Sequential(nn::Linear(4, 3), nn::Tanh(), nn::Linear(3, 2))),
        LZ_ONE(elu, ELU(1.5)),
        LZ_ONE(hardshrink, Hardshrink()),
        LZ_ONE(hardsigmoid, Hardsigmoid()),
        LZ_ONE(hardtanh, Hardtanh(-1, 3)),
        LZ_ONE(hardswish, Hardswish()),
        LZ_ONE(leaky_relu, LeakyReLU(0.1)),
        LZ_ONE(logsigmoid, LogSigmoid()),
        LZ_ONE(prelu, PReLU()),
        LZ_ONE(prelu_channels, PReLU(3, 0.5)),
        LZ_ONE(relu, ReLU()),
        LZ_ONE(relu6, ReLU6()),
        LZ_ONE(selu, SELU()),
        LZ_ONE(celu, CELU(2.0)),
        LZ_ONE(gelu, GELU()),
        LZ_ONE(gelu_tanh, GELU(nn::GELUOptions().approximate("tanh"))),
        LZ_ONE(sigmoid, Sigmoid()),
        LZ_ONE(silu, SiLU()),
        LZ_ONE(mish, Mish()),
        LZ_ONE(softplus, Softplus(2, 10)),
        LZ_ONE(softshrink, Softshrink()),
        LZ_ONE(softsign, Softsign()),
        LZ_ONE(tanh, Tanh()),
        LZ_ONE(tanhshrink, Tanhshrink()),
        LZ_ONE(threshold, Threshold(0.5, -2)),
        LZ_ONE(glu, GLU()),
        LZ_ONE(softmin, Softmin(1)),
        LZ_ONE(softmax, Softmax(1)),
        LZ_ONE(softmax2d, Softmax2d()),
        LZ_ONE(log_softmax, LogSoftmax(0)),
        LZ_ONE(embedding, Embedding(5, 3)),
        LZ_ONE(embedding_padding, Embedding(nn::EmbeddingOptions(5, 3).padding_idx(-4))),
        LZ_ONE(embedding_max_norm, Embedding(nn::EmbeddingOptions(5, 3).max_norm(1))),
        LZ_ONE(embedding_bag, EmbeddingBag(5, 3)),
        LZ_TWO(embedding_bag_sum,
               EmbeddingBag(
                   nn::EmbeddingBagOptions(5, 3).mode(lz::kSum).padding_idx(1))),
        LZ_TWO(embedding_bag_mean, EmbeddingBag(nn::EmbeddingBagOptions(5, 3).padding_idx(1))),
        LZ_TWO(embedding_bag_max,
               EmbeddingBag(nn::EmbeddingBagOptions(5, 3).mode(nn::EmbeddingBagMode::Max))),
        LZ_THREE(embedding_bag_weights,
                 EmbeddingBag(nn::EmbeddingBagOptions(5, 3).mode(nn::EmbeddingBagMode::Sum))),
        LZ_ONE(layer_norm, LayerNorm({2, 3})),
        LZ_ONE(layer_norm_without_bias, LayerNorm(nn::LayerNormOptions({3}).bias(false))),
        LZ_ONE(rms_norm, RMSNorm(3, 1e-6)),
        LZ_ONE(rms_norm_default, RMSNorm(3)),
        LZ_ONE(group_norm, GroupNorm(2, 4)),
        LZ_ONE(batch_norm, BatchNorm1d(3)),
        LZ_ONE(batch_norm_length, BatchNorm1d(nn::BatchNorm1dOptions(3).momentum(std::nullopt))),
        LZ_ONE(batch_norm_2d, BatchNorm2d(nn::BatchNorm2dOptions(3).affine(false))),
        {"batch_norm_eval", [] { return in_eval_mode(nn::BatchNorm1d(3)); }},
        {"batch_norm_untracked",
         [] { return in_eval_mode(nn::BatchNorm2d(nn::BatchNorm2dOptions(3).track_running_stats(false))); }},
        {"dropout", [] { return in_eval_mode(nn::Dropout(0.3)); }},
        LZ_ONE(rnn, RNN(3, 2)),
        LZ_TWO(rnn_relu,
               RNN(nn::RNNOptions(3, 2).num_layers(2).nonlinearity("relu").bidirectional(true).batch_first(true))),
        LZ_ONE(gru, GRU(nn::GRUOptions(3, 2).num_layers(2).bidirectional(true))),
        LZ_TWO(gru_unbatched, GRU(nn::GRUOptions(3, 2).bias(false))),
        {"lstm",
         [] {
             return in_eval_mode(nn::LSTM(nn::LSTMOptions(3, 2).num_layers(2).batch_first(true).dropout(0.5)));
         }},
        {"lstm_states",
         []() -> Made {
             const nn::LSTM lstm(nn::LSTMOptions(3, 2).bidirectional(true));
             return {lstm.ptr(),
                     [lstm](const Inputs &i) { return joined(lstm(i[0], std::make_tuple(i[1], i[2]))); }};
         }},
        LZ_TWO(rnn_cell, RNNCell(nn::RNNCellOptions(3, 2).nonlinearity("relu"))),
        LZ_TWO(gru_cell, GRUCell(3, 2)),
        LZ_ONE(lstm_cell, LSTMCell(3, 2)),
        LZ_THREE(attention, MultiheadAttention(4, 2)),
        {"attention_itself",
         []() -> Made {
             const nn::MultiheadAttention attention(
                 nn::MultiheadAttentionOptions(4, 2).batch_first(true).bias(false));
             return {attention.ptr(),
                     [attention](const Inputs &i) { return joined(attention(i[0], i[0], i[0])); }};
         }},
        LZ_THREE(attention_extents,
                 MultiheadAttention(
                     nn::MultiheadAttentionOptions(4, 2).kdim(3).vdim(5).add_bias_kv(true).add_zero_attn(
                         true))),
        {"attention_masks",
         []() -> Made {
             const nn::MultiheadAttention attention(nn::MultiheadAttentionOptions(4, 2).add_bias_kv(true));
             return {attention.ptr(), [attention](const Inputs &i) {
                         const Tensor padding = lz::tensor({{false, false, true}, {false, false, false}});
                         return joined(attention(i[0], i[0], i[0], padding, true,
                                                 lz::ones({3, 3}, {.dtype = lz::boolean}).triu(1), false));
                     }};
         }},
        LZ_THREE(attention_unbatched, MultiheadAttention(4, 2)),
        LZ_ONE(encoder_layer,
               TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(3).dropout(0))),
        LZ_ONE(encoder_layer_norm_first, TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(4, 2)
                                                                     .dim_feedforward(3)
                                                                     .dropout(0)
                                                                     .activation("gelu")
                                                                     .batch_first(true)
                                                                     .norm_first(true))),
        LZ_ONE(encoder,
               TransformerEncoder(nn::TransformerEncoderLayer(
                                      nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(3).dropout(0)),
                                  2, nn::LayerNorm({4}))),
        {"rrelu",
         [] { return in_eval_mode(nn::RReLU()); }},
    };
    return all;
}

struct Stored {
    std::string name, prints;
    lz::StateDict state;
    Inputs inputs;
    Tensor output;
    std::vector<double> weights;
    std::vector<std::pair<std::string, std::vector<double>>> gradients, after;
};

std::vector<Stored> stored() {
    std::ifstream file(lz::test::test_data("/inputs/pytorch_modules.txt"));
    std::vector<Stored> out;
    for (std::string text; std::getline(file, text);) {
        std::istringstream line(text);
        std::string kind, word;
        line >> kind;
        if (kind == "module") {
            line >> word;
            out.emplace_back().name = word;
        } else if (kind == "prints") {
            std::string rest;
            std::getline(line >> std::ws, rest);
            for (size_t at = 0; (at = rest.find("\\n", at)) != std::string::npos;)
                rest.replace(at, 2, "\n");
            out.back().prints = rest;
        } else if (kind == "state") {
            line >> word;
            out.back().state.insert(word, tensor_of(line));
        } else if (kind == "input") {
            out.back().inputs.push_back(tensor_of(line).to(lz::get_default_device()).requires_grad_());
        } else if (kind == "integers") {
            out.back().inputs.push_back(tensor_of(line).to(lz::get_default_device(), lz::i64));
        } else if (kind == "output") {
            out.back().output = tensor_of(line);
        } else if (kind == "weights") {
            out.back().weights = numbers_of(line);
        } else {
            line >> word;
            (kind == "gradient" ? out.back().gradients : out.back().after)
                .emplace_back(word, numbers_of(line));
        }
    }
    return out;
}

TEST(Modules, AreThoseOfPyTorch) {
    const lz::DefaultDTypeGuard doubles(lz::f64);
    const std::vector<Stored> all = stored();
    EXPECT_EQ(all.size(), makers().size());
    ASSERT_GE(all.size(), 73u);
    for (const Stored &stored : all) {
        SCOPED_TRACE(stored.name);
        const auto maker = makers().find(stored.name);
        ASSERT_NE(maker, makers().end());
        const Made made = maker->second();
        EXPECT_EQ(made.module->str(), stored.prints);
        const lz::StateDict own = made.module->state_dict();
        ASSERT_EQ(own.keys(), stored.state.keys());
        for (const auto &[name, value] : stored.state)
            EXPECT_EQ(own.at(name).sizes(), value.sizes()) << name;
        made.module->load_state_dict(stored.state);
        const Tensor result = made.call(stored.inputs);
        ASSERT_EQ(result.sizes(), stored.output.sizes());
        const Tensor weights = lz::tensor<double>(stored.weights, result.sizes());
        if (result.requires_grad())
            (result * weights).sum().backward();
        expect_near(result, stored.output.to_vector<double>());
        const auto parameters = made.module->named_parameters();
        for (const auto &[name, expected] : stored.gradients) {
            SCOPED_TRACE("gradient of " + name);
            const Tensor &of = std::isdigit(name[0]) && name.size() == 1
                                   ? stored.inputs[static_cast<size_t>(name[0] - '0')]
                                   : parameters.at(name);
            ASSERT_TRUE(of.grad().defined());
            // PyTorch multiplies by the 1/6 of f32 there.
            expect_near(of.grad(), expected, stored.name == "hardsigmoid" ? 1e-7 : 1e-11);
        }
        const auto buffers = made.module->named_buffers();
        for (const auto &[name, expected] : stored.after)
            expect_near(buffers.at(name), expected);
    }
}

// Files that torch.save and safetensors wrote (inputs/make_pytorch_files.py), of every layer that has
// parameters or buffers: they load strictly, and the layer then gives what PyTorch's gave.
TEST(Modules, FilesThatPythonSavedGiveWhatPythonComputed) {
    std::map<std::string, Maker> makers_of_files = makers();
    makers_of_files.emplace("batch_norm_2d_affine", [] { return one(nn::BatchNorm2d(3)); });
    for (const char *format : {".pt", ".safetensors"}) {
        const lz::StateDict all = lz::load(lz::test::test_data("/inputs/pytorch_files") + format);
        std::vector<std::string> names;
        for (const auto &[name, value] : all)
            if (name.ends_with(".output"))
                names.push_back(name.substr(0, name.find('.')));
        ASSERT_EQ(names.size(), 20u);
        for (const std::string &name : names) {
            SCOPED_TRACE(name + " of " + format);
            const auto maker = makers_of_files.find(name);
            ASSERT_NE(maker, makers_of_files.end());
            const Made made = maker->second();
            made.module->eval();
            const lz::StateDict layer = all.part(name), state = layer.part("state");
            EXPECT_EQ(state.size(), made.module->state_dict().size());
            made.module->load_state_dict(state);
            Inputs inputs;
            for (const auto &[number, value] : layer.part("input"))
                inputs.push_back(value.to(lz::get_default_device()));
            const lz::NoGradGuard no_grad;
            const Tensor result = made.call(inputs);
            EXPECT_EQ(result.dtype(), lz::f32);
            // Sums of up to 30 products of f32, in another order.
            expect_near(result, layer.at("output").to(lz::f64).to_vector<double>(), 1e-5);
        }
    }
}

TEST(Modules, APartOfAFileIsLoadedIntoAModuleInside) {
    const lz::StateDict all = lz::load(lz::test::test_data("/inputs/pytorch_files.pt"));
    nn::Sequential net(nn::Linear(4, 3), nn::Linear(3, 2));
    net[0]->load_state_dict(all.part("linear.state"));
    expect_near(net->at<nn::Linear>(0).weight, all.at("linear.state.weight").to(lz::f64).to_vector<double>(),
                0);
    // And the other way: a checkpoint of several.
    lz::StateDict checkpoint;
    checkpoint.add_part(net->state_dict(), "net");
    checkpoint.add_part(all.part("gru.state"), "gru");
    EXPECT_EQ(checkpoint.keys()[0], "net.0.weight");
    EXPECT_EQ(checkpoint.part("net").keys(), net->state_dict().keys());
    const Caught error = caught<lz::IndexError>([&] { (void)all.part("decoder"); });
    EXPECT_TRUE(error.has("no name that begins with \"decoder.\"")) << error.what;
    EXPECT_EQ(error.line, static_cast<uint32_t>(__LINE__) - 2);
}

} // namespace
