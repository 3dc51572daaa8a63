#pragma once
/// What passes share that make a new version of a graph: where values and nodes of the old one are in the new
/// one.

#include "ir/graph/builder.h"

#include <vector>

namespace lz::passes {

/// Copies a graph node by node, in order, while the pass decides what becomes of each. Parameters are copied
/// by the constructor, results by `finish`; runtime words keep their positions (GraphBuilder::clone_node).
class Rewriter {
public:
    /// `recycled`: see GraphBuilder.
    explicit Rewriter(const ir::Graph &from, ir::Graph recycled = {});

    ir::GraphBuilder &builder() { return builder_; }
    /// The new value of an old one; kNone when its node was dropped.
    ir::ValueId value(ir::ValueId old) const { return values_[old]; }
    /// The new values of a node's operands, good until the next call.
    std::span<const ir::ValueId> operands(const ir::Node &node);
    /// Copies the node with its mapped operands, order edges and stream.
    void keep(ir::NodeId id);
    /// As `keep`, for a copy of the node that was just added with operands of the caller's choice.
    void kept(ir::NodeId id);
    /// The node that was just added is a part of what is computed for `id`: it has its stream and order
    /// edges.
    void part_of(ir::NodeId id);
    /// Uses `now` wherever `old` was used; order edges to its node go to the node that makes `now`.
    void replace(ir::ValueId old, ir::ValueId now);
    /// Maps the results and hands the new graph out.
    ir::Graph finish();

private:
    void copy_order(const ir::Node &node);

    const ir::Graph &from_;
    ir::GraphBuilder builder_;
    std::vector<ir::ValueId> values_;
    std::vector<ir::NodeId> nodes_;
    std::vector<ir::ValueId> operands_;
    std::vector<ir::NodeId> order_;
};

/// A pass that makes a new version of its graph, as passes of the pipeline take turns with two graphs'
/// memory: `make(recycled)` is the new one, and the old one is what the next pass recycles.
template <class Make>
ir::Graph remade(ir::Graph &graph, ir::Graph *recycled, Make &&make) {
    ir::Graph made = make(recycled ? std::move(*recycled) : ir::Graph());
    if (recycled)
        *recycled = std::move(graph);
    return made;
}

} // namespace lz::passes
