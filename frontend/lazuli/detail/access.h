#pragma once
/// The way from a Tensor to its cell and node, for the library's own files.

#include "lazuli/detail/node.h"
#include "lazuli/tensor.h"

namespace lz::detail {

struct Access {
    static Cell *cell(const Tensor &t) { return t.cell_; }
    static Node *node(const Tensor &t) { return t.cell_->current; }
    /// Takes over one handle of the cell.
    static Tensor wrap(Cell *cell) { return Tensor(cell); }
};

} // namespace lz::detail
