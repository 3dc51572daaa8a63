#pragma once
/// The table of gradients.def: for each primitive, what the gradient of each operand is, and what that reads.

#include "frontend/autograd/rule_call.h"
#include "ir/op.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace lz::detail {

/// What becomes of one operand.
struct Entry {
    enum class Kind : uint8_t {
        None,       ///< carries no gradient: indices, bool, what cannot be differentiated
        Zero,       ///< differentiable, and the gradient is 0
        Expression, ///< `function` gives it
        Into,       ///< `function` gives what has been gathered with it added
    };
    Kind kind = Kind::None;
    uint32_t keeps = 0; ///< what `function` reads: bits as of Step::saved_mask
    Value (*function)(const RuleCall &call, size_t input) = nullptr;
};

/// A row of gradients.def.
struct Row {
    std::array<Entry, 3> entries;
    size_t count = 0;
    /// Of operand i. The last entry stands for all that follow, where there may be any number.
    const Entry &of(size_t i) const { return entries[i < count ? i : count - 1]; }
};

/// Of a primitive.
const Row &gradient_row(ir::Op op);
/// Runs the row of the step's operation.
extern const Rule kRowRule;

} // namespace lz::detail
