#pragma once
/// LibTorch's eager forms of the chains of 1000 operations that bench_autograd records.

#include "bench/peers/torch/torch.h"

namespace lz::bench::torch {

/// A chain from leaves that want gradients, or do not.
struct Chain {
    std::function<void(bool grad_mode)> forward;
    Round backward; ///< from the last result of `forward`
    Round forget;   ///< that result, and the gradients
};

/// Sums and products of 8 elements.
Chain pairs(bool gradients);
/// Products, biases, activations and views of 8 x 8 elements.
Chain mixed(bool gradients);

} // namespace lz::bench::torch
