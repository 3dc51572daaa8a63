#include "bench/peers/torch/training.h"

#include <torch/torch.h>

namespace lz::bench::torch {

namespace {

namespace pt = ::torch;

struct DigitsImpl : pt::nn::Module {
    pt::nn::Linear fc1{register_module("fc1", pt::nn::Linear(64, 128))};
    pt::nn::Linear fc2{register_module("fc2", pt::nn::Linear(128, 64))};
    pt::nn::Linear fc3{register_module("fc3", pt::nn::Linear(64, 10))};
    pt::nn::Dropout dropout{register_module("dropout", pt::nn::Dropout(0.2))};
    pt::Tensor forward(const pt::Tensor &x) { return fc3(dropout(pt::relu(fc2(dropout(pt::relu(fc1(x))))))); }
};
using Digits = pt::nn::ModuleHolder<DigitsImpl>;

constexpr int64_t kWidth = 128, kHeads = 4, kContext = 128, kBatch = 16, kVocabulary = 76;

struct BlockImpl : pt::nn::Module {
    pt::nn::LayerNorm norm1{register_module("norm1", pt::nn::LayerNorm(pt::nn::LayerNormOptions({kWidth})))};
    pt::nn::Linear qkv{register_module("qkv", pt::nn::Linear(kWidth, 3 * kWidth))};
    pt::nn::Linear out{register_module("out", pt::nn::Linear(kWidth, kWidth))};
    pt::nn::LayerNorm norm2{register_module("norm2", pt::nn::LayerNorm(pt::nn::LayerNormOptions({kWidth})))};
    pt::nn::Linear up{register_module("up", pt::nn::Linear(kWidth, 4 * kWidth))};
    pt::nn::Linear down{register_module("down", pt::nn::Linear(4 * kWidth, kWidth))};
    pt::Tensor forward(const pt::Tensor &x) {
        const std::vector<pt::Tensor> parts = qkv(norm1(x))
                                                  .view({x.size(0), x.size(1), 3, kHeads, kWidth / kHeads})
                                                  .permute({2, 0, 3, 1, 4})
                                                  .unbind(0);
        const pt::Tensor attended =
            pt::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
        const pt::Tensor y = x + out(attended.transpose(1, 2).reshape(x.sizes()));
        return y + down(pt::gelu(up(norm2(y)), "tanh"));
    }
};
using Block = pt::nn::ModuleHolder<BlockImpl>;

struct GptImpl : pt::nn::Module {
    pt::nn::Embedding characters{register_module("characters", pt::nn::Embedding(kVocabulary, kWidth))};
    pt::nn::Embedding places{register_module("places", pt::nn::Embedding(kContext, kWidth))};
    pt::nn::Sequential blocks{
        register_module("blocks", pt::nn::Sequential(Block(), Block(), Block(), Block()))};
    pt::nn::LayerNorm norm{register_module("norm", pt::nn::LayerNorm(pt::nn::LayerNormOptions({kWidth})))};
    pt::nn::Linear head{register_module("head", pt::nn::Linear(kWidth, kVocabulary))};
    pt::Tensor forward(const pt::Tensor &text) {
        return head(norm(blocks->forward(characters(text) + places(pt::arange(text.size(1))))));
    }
};
using Gpt = pt::nn::ModuleHolder<GptImpl>;

} // namespace

Round digits_step() {
    Digits net;
    auto optimizer = std::make_shared<pt::optim::AdamW>(net->parameters(),
                                                        pt::optim::AdamWOptions(1e-3).weight_decay(0.01));
    return [net, optimizer, x = pt::rand({64, 64}), y = pt::randint(10, {64}, pt::kInt64)]() mutable {
        optimizer->zero_grad();
        pt::nn::functional::cross_entropy(net(x), y).backward();
        optimizer->step();
    };
}

Round char_gpt_step() {
    Gpt net;
    auto optimizer = std::make_shared<pt::optim::AdamW>(net->parameters(),
                                                        pt::optim::AdamWOptions(1e-3).weight_decay(0.1));
    return [net, optimizer, text = pt::randint(kVocabulary, {kBatch, kContext + 1}, pt::kInt64)]() mutable {
        optimizer->zero_grad();
        const pt::Tensor logits = net(text.narrow(1, 0, kContext));
        pt::nn::functional::cross_entropy(logits.flatten(0, 1), text.narrow(1, 1, kContext).flatten())
            .backward();
        optimizer->step();
    };
}

Round adamw_step() {
    std::vector<pt::Tensor> parameters;
    for (int64_t i = 0; i < 200; ++i) {
        parameters.push_back(pt::randn({16 + 8 * (i % 10), 64}).requires_grad_());
        parameters.back().mutable_grad() = pt::randn(parameters.back().sizes());
    }
    auto optimizer = std::make_shared<pt::optim::AdamW>(parameters, pt::optim::AdamWOptions(1e-3));
    return [optimizer] { optimizer->step(); };
}

} // namespace lz::bench::torch
