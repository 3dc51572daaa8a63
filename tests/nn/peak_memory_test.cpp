// How much memory a training step of a transformer needs: a contract, as counts of kernels are.
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace {

namespace nn = lz::nn;
using lz::Tensor;

constexpr int64_t kWidth = 128, kHeads = 4, kContext = 128, kBatch = 16, kVocabulary = 76;

struct BlockImpl : nn::Module {
    nn::LayerNorm norm1{register_module("norm1", nn::LayerNorm(kWidth))};
    nn::Linear qkv{register_module("qkv", nn::Linear(kWidth, 3 * kWidth))};
    nn::Linear out{register_module("out", nn::Linear(kWidth, kWidth))};
    nn::LayerNorm norm2{register_module("norm2", nn::LayerNorm(kWidth))};
    nn::Linear up{register_module("up", nn::Linear(kWidth, 4 * kWidth))};
    nn::Linear down{register_module("down", nn::Linear(4 * kWidth, kWidth))};
    Tensor forward(const Tensor &x) {
        const std::vector<Tensor> parts = qkv(norm1(x))
                                              .view({x.size(0), x.size(1), 3, kHeads, kWidth / kHeads})
                                              .permute({2, 0, 3, 1, 4})
                                              .unbind(0);
        const Tensor attended =
            nn::functional::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
        const Tensor y = x + out(attended.transpose(1, 2).reshape(x.sizes()));
        return y + down(lz::gelu(up(norm2(y)), lz::Gelu::Tanh));
    }
};
LZ_MODULE(Block);

struct GptImpl : nn::Module {
    nn::Embedding characters{register_module("characters", nn::Embedding(kVocabulary, kWidth))};
    nn::Embedding places{register_module("places", nn::Embedding(kContext, kWidth))};
    nn::Sequential blocks{register_module("blocks", nn::Sequential(Block(), Block(), Block(), Block()))};
    nn::LayerNorm norm{register_module("norm", nn::LayerNorm(kWidth))};
    nn::Linear head{register_module("head", nn::Linear(kWidth, kVocabulary))};
    Tensor forward(const Tensor &text) {
        return head(norm(blocks(characters(text) + places(lz::arange(text.size(1))))));
    }
};
LZ_MODULE(Gpt);

/// The number of MiB behind `words`.
double mebibytes_after(const std::string &text, const std::string &words) {
    const size_t at = text.find(words);
    return at == std::string::npos ? -1 : std::stod(text.substr(at + words.size()));
}

TEST(PeakMemory, OfACharGptStepIsFourFifthsOfPyTorchsAndAsPlanned) {
    // PyTorch's eager step takes 82.8 MiB (bench/peers/peak_memory.py, PyTorch 2.15).
    constexpr double kMiB = 1 << 20, kPyTorch = 82.8;
    const Gpt net;
    lz::optim::AdamW optimizer(net->parameters(), lz::optim::AdamWOptions(1e-3).weight_decay(0.1));
    const Tensor text = lz::randint(kVocabulary, {kBatch, kContext + 1});
    lz::eval({text});
    const auto record = [&] {
        optimizer.zero_grad();
        const Tensor logits = net(text.narrow(1, 0, kContext));
        lz::cross_entropy(logits.flatten(0, 1), text.narrow(1, 1, kContext).flatten()).backward();
        optimizer.step();
    };
    record();
    lz::sync();
    lz::reset_peak_memory_stats();
    record();
    const std::string said = lz::explain();
    const double planned = mebibytes_after(said, "Planned peak: ");
    lz::sync();
    const double measured = static_cast<double>(lz::max_memory_allocated()) / kMiB;
    EXPECT_LE(planned, 62) << said.substr(said.find("Planned peak"), 200);
    EXPECT_LE(measured, 0.8 * kPyTorch);
    EXPECT_NEAR(planned, measured, 0.05 * measured);
    EXPECT_NE(said.find("9636.0 KiB of results take over the memory of an input."), std::string::npos)
        << "parameters and what AdamW keeps of them are not changed where they are";
}

} // namespace
