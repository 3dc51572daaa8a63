// Which value a tensor stands for, for those who count its changes on the host.
#include "frontend/record/access.h"
#include "frontend/record/node.h"
#include "lazuli/compiled.h"

namespace lz {

ValueMark::ValueMark(const Tensor &tensor, Location loc) : node_(nullptr) {
    if (!tensor.defined())
        throw StateError("ValueMark: the tensor is empty", loc);
    detail::Node *const node = detail::newest_that_did_not_fail(detail::Access::cell(tensor)->current);
    node->refs.fetch_add(detail::Node::kHold, std::memory_order_relaxed); // its memory is no other node's
    node_ = node;
}

ValueMark::~ValueMark() {
    if (node_)
        detail::drop_hold(static_cast<detail::Node *>(node_));
}

bool ValueMark::is_again_that_of(const Tensor &tensor) const {
    detail::Node *const current = tensor.defined() ? detail::Access::cell(tensor)->current : nullptr;
    return current && current != node_ && detail::newest_that_did_not_fail(current) == node_;
}

bool ValueMark::is_alive() const {
    return node_ && static_cast<const detail::Node *>(node_)->uses() != 0;
}

} // namespace lz
