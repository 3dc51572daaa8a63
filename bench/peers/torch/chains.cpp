#include "bench/peers/torch/chains.h"

#include <torch/torch.h>

#include <memory>
#include <utility>

namespace lz::bench::torch {

namespace {

namespace pt = ::torch;

struct Kept {
    std::vector<pt::Tensor> leaves;
    pt::Tensor start, last, ones;
};

template <class F>
Chain chain_of(bool gradients, std::vector<pt::Tensor> leaves, const pt::Tensor &start, F f) {
    for (pt::Tensor &x : leaves)
        x.requires_grad_(gradients);
    const auto kept = std::make_shared<Kept>(Kept{std::move(leaves), start, {}, pt::ones_like(start)});
    return {.forward =
                [kept, f](bool grad_mode) {
                    const pt::AutoGradMode mode(grad_mode);
                    kept->last = f(kept->start, kept->leaves);
                },
            .backward = [kept] { kept->last.backward(kept->ones); },
            .forget =
                [kept] {
                    kept->last = pt::Tensor();
                    for (pt::Tensor &x : kept->leaves)
                        x.mutable_grad() = pt::Tensor();
                }};
}

} // namespace

Chain pairs(bool gradients) {
    return chain_of(gradients, {pt::rand({8}), pt::rand({8})}, pt::rand({8}),
                    [](pt::Tensor x, const std::vector<pt::Tensor> &leaves) {
                        for (int i = 0; i < 500; ++i) {
                            x = x + leaves[0];
                            x = x * leaves[1];
                        }
                        return x;
                    });
}

Chain mixed(bool gradients) {
    return chain_of(gradients, {pt::rand({8, 8}), pt::rand({8}), pt::rand({8, 8})}, pt::rand({8, 8}),
                    [](pt::Tensor x, const std::vector<pt::Tensor> &leaves) {
                        for (int i = 0; i < 100; ++i) {
                            x = pt::matmul(x, leaves[0]);
                            x = x + leaves[1];
                            x = pt::tanh(x);
                            x = x * leaves[2];
                            x = x - leaves[1];
                            x = pt::relu(x);
                            x = x.transpose(0, 1);
                            x = x.reshape({4, 16});
                            x = x.reshape({8, 8});
                            x = x * 0.5;
                        }
                        return x;
                    });
}

} // namespace lz::bench::torch
