#pragma once
/// The way from a Tensor to its cell and node, for the library's own files.

#include "lazuli/detail/node.h"
#include "lazuli/tensor.h"

namespace lz::detail {

struct Access {
    static Cell *cell(const Tensor &t) { return t.cell_; }
    static Node *node(const Tensor &t) {
        Node *n = t.cell_->current;
        if (n->state.load(std::memory_order_acquire) == State::Failed && n->fallback) [[unlikely]]
            return restore(t.cell_);
        return n;
    }
    /// Takes over one handle of the cell.
    static Tensor wrap(Cell *cell) { return Tensor(cell); }
};

} // namespace lz::detail
