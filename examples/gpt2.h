// GPT-2 (Radford et al. 2019) as modules, for gpt2.cpp: the names of parameters are those of the published
// files.
#pragma once

#include <lazuli/lazuli.h>
#include <lazuli/nn.h>

#include <cstdint>
#include <vector>

namespace gpt2 {

namespace nn = lz::nn;
namespace F = lz::nn::functional;
using lz::Tensor;

struct Config {
    int64_t layers = 12, width = 768, heads = 12, context = 1024, vocabulary = 50257;
};

/// The keys and values of the tokens so far, [n, heads, room, width / heads] of each layer: with them a token
/// computes nothing of those before it again.
struct Cache {
    Cache(const Config &config, int64_t n, int64_t room, const lz::TensorOptions &options) : room(room) {
        for (int64_t i = 0; i < config.layers; ++i)
            for (std::vector<Tensor> *part : {&keys, &values})
                part->push_back(lz::zeros({n, config.heads, room, config.width / config.heads}, options));
    }
    int64_t room, length = 0;
    std::vector<Tensor> keys, values;

    /// Takes in what comes next in layer `i`.
    void put(size_t i, const Tensor &key, const Tensor &value) {
        const lz::Slice places(length, length + key.size(2));
        keys[i].at({lz::Ellipsis, places, lz::Slice()}) = key;
        values[i].at({lz::Ellipsis, places, lz::Slice()}) = value;
    }
    /// [tokens, room]: whether one of `tokens` that come next sees a place.
    Tensor seen(int64_t tokens) const {
        const lz::Device device = keys[0].device();
        return lz::arange(room, {.device = device}) <=
               lz::arange(tokens, {.device = device}).unsqueeze(1) + length;
    }
};

/// Linear, but its weight is [in, out], as the files have it.
struct Conv1DImpl : nn::Module {
    Conv1DImpl(int64_t in, int64_t out)
        : weight(register_parameter("weight", lz::randn({in, out}) * 0.02)),
          bias(register_parameter("bias", lz::zeros({out}))) {}
    Tensor weight, bias;

    Tensor forward(const Tensor &x) { return lz::matmul(x, weight) + bias; }
};
LZ_MODULE(Conv1D);

struct AttentionImpl : nn::Module {
    explicit AttentionImpl(const Config &config) : config(config) {}
    Config config;
    Conv1D c_attn{register_module("c_attn", Conv1D(config.width, 3 * config.width))};
    Conv1D c_proj{register_module("c_proj", Conv1D(config.width, config.width))};

    Tensor forward(const Tensor &x) { return attend(x); }
    Tensor attend(const Tensor &x, Cache *cache = nullptr, size_t layer = 0) {
        const int64_t n = x.size(0), length = x.size(1), heads = config.heads;
        const std::vector<Tensor> parts =
            c_attn(x).view({n, length, 3, heads, config.width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
        Tensor y;
        if (cache) {
            cache->put(layer, parts[1], parts[2]);
            y = F::scaled_dot_product_attention(parts[0], cache->keys[layer], cache->values[layer],
                                                cache->seen(length));
        } else {
            y = F::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
        }
        return c_proj(y.transpose(1, 2).reshape({n, length, config.width}));
    }
};
LZ_MODULE(Attention);

struct MlpImpl : nn::Module {
    explicit MlpImpl(const Config &config) : config(config) {}
    Config config;
    Conv1D c_fc{register_module("c_fc", Conv1D(config.width, 4 * config.width))};
    Conv1D c_proj{register_module("c_proj", Conv1D(4 * config.width, config.width))};

    Tensor forward(const Tensor &x) { return c_proj(lz::gelu(c_fc(x), lz::Gelu::Tanh)); }
};
LZ_MODULE(Mlp);

struct BlockImpl : nn::Module {
    explicit BlockImpl(const Config &config) : config(config) {}
    Config config;
    nn::LayerNorm ln_1{register_module("ln_1", nn::LayerNorm(config.width))};
    Attention attn{register_module("attn", Attention(config))};
    nn::LayerNorm ln_2{register_module("ln_2", nn::LayerNorm(config.width))};
    Mlp mlp{register_module("mlp", Mlp(config))};

    Tensor forward(const Tensor &x) { return behind(x); }
    Tensor behind(const Tensor &x, Cache *cache = nullptr, size_t layer = 0) {
        const Tensor y = x + attn->attend(ln_1(x), cache, layer);
        return y + mlp(ln_2(y));
    }
};
LZ_MODULE(Block);

/// Tokens i64[n, length] to logits [n, length, vocabulary].
struct Gpt2Impl : nn::Module {
    explicit Gpt2Impl(const Config &config) : config(config) {
        for (int64_t i = 0; i < config.layers; ++i)
            h->push_back(Block(config));
        nn::init::normal_(wte->weight, 0, 0.02);
        nn::init::normal_(wpe->weight, 0, 0.01);
    }
    Config config;
    nn::Embedding wte{register_module("wte", nn::Embedding(config.vocabulary, config.width))};
    nn::Embedding wpe{register_module("wpe", nn::Embedding(config.context, config.width))};
    nn::Sequential h{register_module("h", nn::Sequential())};
    nn::LayerNorm ln_f{register_module("ln_f", nn::LayerNorm(config.width))};

    Tensor forward(const Tensor &tokens) {
        const Tensor places = lz::arange(tokens.size(1), {.device = tokens.device()});
        return lz::matmul(ln_f(h(wte(tokens) + wpe(places))), wte->weight.t());
    }

    /// The logits of the last of `tokens`, [n, vocabulary], which follow those that `cache` has.
    Tensor next(const Tensor &tokens, Cache &cache) {
        const int64_t length = tokens.size(1);
        Tensor x = wte(tokens) + wpe(lz::arange(length, {.device = tokens.device()}) + cache.length);
        for (size_t i = 0; i < h->size(); ++i)
            x = h->at<Block>(i).behind(x, &cache, i);
        cache.length += length;
        return lz::matmul(ln_f(x.select(1, -1)), wte->weight.t());
    }
};
LZ_MODULE(Gpt2);

} // namespace gpt2
