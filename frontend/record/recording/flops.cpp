#include "frontend/record/recording/flops.h"

#include "frontend/record/recording/scratch.h"

#include <mutex>
#include <vector>

namespace lz::detail {

namespace {

double flops_of(Node *n) {
    const auto elements = static_cast<double>(n->type.shape.numel());
    switch (ir::info(n->op).family) {
    case ir::OpFamily::Elementwise:
        return n->op == ir::Op::Cast ? 0 : elements;
    case ir::OpFamily::Scan:
        return elements;
    case ir::OpFamily::Reduction:
        return static_cast<double>(n->operand_data()[0]->type.shape.numel());
    case ir::OpFamily::Contraction: {
        double depth = 2;
        for (const int64_t axis : n->attrs().ints(ir::attr::kDotLhsContract))
            depth *= static_cast<double>(n->operand_data()[0]->type.shape[static_cast<int>(axis)]);
        return elements * depth;
    }
    default: // moves values, or is not of numbers
        return 0;
    }
}

} // namespace

double pending_flops(Node *node, std::span<Node *const> given) {
    double flops = 0;
    std::vector<Node *> next;
    // Nobody claims a node meanwhile, so that what is pending holds its operands.
    const std::unique_lock lock(sync_mutex());
    const uint64_t epoch = ++last_epoch;
    for (Node *n : given)
        n->mark = epoch;
    const auto look_at = [&](Node *n) {
        if (n->mark == epoch || !n->pending())
            return;
        n->mark = epoch;
        next.push_back(n);
    };
    look_at(node);
    while (!next.empty()) {
        Node *const n = next.back();
        next.pop_back();
        if (n->projection == 0)
            flops += flops_of(n);
        for (Node *operand : n->read_operands())
            look_at(operand);
    }
    return flops;
}

} // namespace lz::detail
