#pragma once
/// The walk from results back to what they were computed from.

#include "lazuli/tensor.h"

#include <span>
#include <vector>

namespace lz::detail {

struct BackwardOptions {
    bool retain_graph = false; ///< steps keep what they saved, for another walk
    bool create_graph = false; ///< what is recorded has a history of its own
    bool accumulate = false;   ///< into the gradients of leaves; else gradients are those of `inputs`
    bool allow_unused = false; ///< no output need depend on an input
    const char *function = ""; ///< what the user called
};

/// Records the gradients of `outputs`, each weighted by the tensor of `gradients` in its place (undefined: 1,
/// for one element). Gives those of `inputs`. Throws StateError for one that no output depends on, before
/// anything is recorded, or gives an undefined gradient. Nothing of leaves has changed if it throws while
/// rules are recorded.
std::vector<Tensor> run_backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
                                 std::span<const Tensor> inputs, const BackwardOptions &options,
                                 Location loc);

} // namespace lz::detail
