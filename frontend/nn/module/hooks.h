#pragma once
/// The hooks of one module.

#include "lazuli/nn/module.h"

#include <array>
#include <vector>

namespace lz::nn::detail {

struct Hooks {
    enum Kind { kBeforeForward, kAfterForward, kBackward };
    struct Hook {
        unsigned number;
        std::function<Tensor(Module &, const Tensor &, const Tensor &)> function;
    };
    std::array<std::vector<Hook>, 3> of;
    unsigned next = 0;

    /// Of this kind, as it is now: hooks may take themselves off.
    std::vector<Hook> copy_of(Kind kind) const { return of[kind]; }
};

} // namespace lz::nn::detail
