#pragma once
/// The way from a Tensor to its cell and node, for the library's own files.

#include "frontend/record/node.h"
#include "lazuli/tensor.h"

namespace lz::detail {

struct Access {
    static Cell *cell(const Tensor &t) { return t.cell_; }
    static Node *node(const Tensor &t) {
        Node *n = t.cell_->current;
        if (n->state.load(std::memory_order_acquire) == State::Failed) [[unlikely]]
            return newest_that_did_not_fail(n);
        return n;
    }
    /// Whether `t` is a Part through a mask, whose elements have not been selected yet; it is not `defined`.
    static bool unread(const Tensor &t) { return reinterpret_cast<uintptr_t>(t.cell_) == Tensor::kUnread; }
    static void set_unread(Tensor &t) {
        t = Tensor();
        t.cell_ = reinterpret_cast<Cell *>(Tensor::kUnread); // NOLINT(performance-no-int-to-ptr): no address
    }
    /// Whether an argument that may be left out is there.
    static bool given(const Tensor &t) { return t.defined() || unread(t); }
    /// The operand's tensor where it is a temporary, else nullptr.
    static Tensor *temporary(const Operand &x) { return x.temporary_; }
    /// Takes over one handle of the cell.
    static Tensor wrap(Cell *cell) { return Tensor(cell); }
};

} // namespace lz::detail
