#pragma once
/// LAZULI_WARN=views: slices, views and transposes are values here (S24), and in PyTorch they are the memory
/// of what they were made of. Who changes one in place may expect that to change, and is told once a line.
///
/// Nothing of this is looked at unless the warning is on.

#include "frontend/record/node.h"
#include "lazuli/core/location.h"

namespace lz {
class Tensor;
}

namespace lz::detail {

/// `view` was just recorded from `base`: if PyTorch would have made it the same memory, that is remembered
/// for as long as the view's node is there. Any thread.
void note_view(const Tensor &view, const Tensor &base);
/// `last` is to be replaced by an in-place form that was written at `loc`: says so, once for each line, if it
/// is a view of a tensor that somebody still has. Any thread.
void warn_of_view(const Node *last, Location loc);
/// The node, which `note_view` marked, is not a view any more for what comes.
void forget_view(Node *view) noexcept;

} // namespace lz::detail
