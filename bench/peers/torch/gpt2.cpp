#include "bench/peers/torch/torch.h"

#include <torch/torch.h>

#include <memory>
#include <vector>

namespace lz::bench::torch {

namespace {

namespace pt = ::torch;

constexpr int64_t kLayers = 12, kWidth = 768, kHeads = 12, kContext = 1024, kVocabulary = 50257;

/// As in the published model: weights are [in, out].
struct Conv1D {
    pt::Tensor weight, bias;
    Conv1D(int64_t in, int64_t out) : weight(pt::randn({in, out}) * 0.02), bias(pt::zeros({out})) {}
    pt::Tensor operator()(const pt::Tensor &x) const {
        std::vector<int64_t> shape(x.sizes().begin(), x.sizes().end());
        shape.back() = weight.size(1);
        return pt::addmm(bias, x.reshape({-1, x.size(-1)}), weight).view(shape);
    }
};

struct Norm {
    pt::Tensor weight = pt::ones({kWidth}), bias = pt::zeros({kWidth});
    pt::Tensor operator()(const pt::Tensor &x) const { return pt::layer_norm(x, {kWidth}, weight, bias); }
};

/// Keys and values of a layer, [1, heads, room, width / heads].
struct Cache {
    pt::Tensor keys, values;
};

struct Block {
    Norm norm1, norm2;
    Conv1D qkv{kWidth, 3 * kWidth}, out{kWidth, kWidth}, up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};
    /// The last place of the cache is the token's.
    pt::Tensor next(const pt::Tensor &x, Cache &cache) const {
        const auto parts =
            qkv(norm1(x)).view({1, 1, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4}).unbind(0);
        cache.keys.narrow(2, cache.keys.size(2) - 1, 1).copy_(parts[1]);
        cache.values.narrow(2, cache.values.size(2) - 1, 1).copy_(parts[2]);
        const pt::Tensor attended = pt::scaled_dot_product_attention(parts[0], cache.keys, cache.values);
        const pt::Tensor y = x + out(attended.transpose(1, 2).reshape(x.sizes()));
        return y + down(pt::gelu(up(norm2(y)), "tanh"));
    }
    pt::Tensor operator()(const pt::Tensor &x) const {
        const auto parts = qkv(norm1(x))
                               .view({x.size(0), x.size(1), 3, kHeads, kWidth / kHeads})
                               .permute({2, 0, 3, 1, 4})
                               .unbind(0);
        const pt::Tensor attended =
            pt::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
        const pt::Tensor y = x + out(attended.transpose(1, 2).reshape(x.sizes()));
        return y + down(pt::gelu(up(norm2(y)), "tanh"));
    }
};

struct Gpt2 {
    pt::Tensor tokens = pt::randn({kVocabulary, kWidth}) * 0.02,
               places = pt::randn({kContext, kWidth}) * 0.01;
    std::vector<Block> blocks = std::vector<Block>(kLayers);
    Norm norm;
    pt::Tensor operator()(const pt::Tensor &text) const {
        pt::Tensor x = pt::embedding(tokens, text) + pt::embedding(places, pt::arange(text.size(1)));
        for (const Block &block : blocks)
            x = block(x);
        return pt::matmul(norm(x), tokens.t());
    }
    pt::Tensor next(const pt::Tensor &token, std::vector<Cache> &cache) const {
        pt::Tensor x = pt::embedding(tokens, token) + places[cache[0].keys.size(2) - 1];
        for (size_t i = 0; i < blocks.size(); ++i)
            x = blocks[i].next(x, cache[i]);
        return pt::matmul(norm(x), tokens.t());
    }
};

} // namespace

Round gpt2(int64_t batch, int64_t length) {
    return [net = std::make_shared<Gpt2>(), text = pt::randint(kVocabulary, {batch, length}, pt::kInt64)] {
        const pt::NoGradGuard guard;
        const pt::Tensor logits = (*net)(text);
        (void)logits;
    };
}

Round gpt2_token(int64_t room) {
    std::vector<Cache> cache;
    for (int64_t i = 0; i < kLayers; ++i)
        cache.push_back(
            {pt::zeros({1, kHeads, room, kWidth / kHeads}), pt::zeros({1, kHeads, room, kWidth / kHeads})});
    return [net = std::make_shared<Gpt2>(), cache,
            token = pt::randint(kVocabulary, {1, 1}, pt::kInt64)]() mutable {
        const pt::NoGradGuard guard;
        const pt::Tensor logits = net->next(token, cache);
        (void)logits;
    };
}

} // namespace lz::bench::torch
