#include "passes/simplify/rewrite.h"

#include "ir/diagnostic.h"

namespace lz::passes {

using namespace ir;

Rewriter::Rewriter(const Graph &from, Graph recycled)
    : from_(from), builder_(from.name, std::move(recycled)), values_(from.values().size(), kNone),
      nodes_(from.nodes().size(), kNone) {
    for (const Param &p : from.params)
        values_[p.value] = builder_.clone_param(from, p);
}

std::span<const ValueId> Rewriter::operands(const Node &node) {
    operands_.clear();
    for (ValueId v : from_.operands(node)) {
        LZ_CHECK(values_[v] != kNone, "an operand of `" + std::string(name(node.op)) + "` was dropped");
        operands_.push_back(values_[v]);
    }
    return operands_;
}

void Rewriter::keep(NodeId id) {
    builder_.clone_node(from_, from_.node(id), operands(from_.node(id)));
    kept(id);
}

void Rewriter::kept(NodeId id) {
    const Node &node = from_.node(id);
    const ValueId first = builder_.graph().node(builder_.last_node()).first_result;
    nodes_[id] = builder_.last_node();
    for (uint32_t k = 0; k < node.result_count; ++k)
        values_[node.first_result + k] = first + k;
    copy_order(node);
}

void Rewriter::part_of(NodeId id) {
    builder_.set_stream(from_.node(id).stream);
    copy_order(from_.node(id));
}

void Rewriter::copy_order(const Node &node) {
    if (node.order_count == 0)
        return;
    order_.clear();
    for (NodeId before : from_.order(node))
        if (nodes_[before] != kNone)
            order_.push_back(nodes_[before]);
    builder_.add_order(order_);
}

void Rewriter::replace(ValueId old, ValueId now) {
    values_[old] = now;
    if (const NodeId producer = from_.value(old).producer; producer != kNone)
        nodes_[producer] = builder_.graph().value(now).producer;
}

Graph Rewriter::finish() {
    for (ValueId v : from_.results) {
        LZ_CHECK(values_[v] != kNone, "a result was dropped");
        builder_.graph().results.push_back(values_[v]);
    }
    return builder_.take();
}

} // namespace lz::passes
