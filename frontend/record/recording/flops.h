#pragma once
/// What computing pending operations takes, as they were recorded.

#include "frontend/record/node.h"

#include <span>

namespace lz::detail {

/// Scalar operations of what `node` needs and is pending, each operation once and transcendental functions as
/// one; of products two for each multiply-add. What leads to `given` counts no more than what is computed.
double pending_flops(Node *node, std::span<Node *const> given);

} // namespace lz::detail
