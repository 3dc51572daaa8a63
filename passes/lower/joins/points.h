#pragma once
/// What a cluster without reductions computes at every point of its index space.

#include "passes/lower/nest.h"
#include "passes/operations.h"

#include <vector>

namespace lz::passes {

/// Calls visit(value, node) with what the stored values are made of at every point: themselves, and through
/// elementwise operations and reshapes whatever has as many elements, each once. False as soon as `visit`
/// says so, and where a part of a value is updated, which may be written in place.
template <class F>
bool visit_points(const ClusterView &cluster, F &&visit) {
    const ir::Graph &graph = *cluster.graph;
    std::vector<bool> seen(cluster.end - cluster.first);
    std::vector<ir::ValueId> open(cluster.stored);
    const int64_t numel = graph.type(open[0]).numel();
    while (!open.empty()) {
        const ir::ValueId v = open.back();
        open.pop_back();
        const ir::NodeId id = graph.value(v).producer;
        if (id < cluster.first || id >= cluster.end || graph.type(v).numel() != numel ||
            seen[id - cluster.first])
            continue;
        seen[id - cluster.first] = true;
        const ir::Node &node = graph.node(id);
        const ir::OpFamily family = ir::info(node.op).family;
        if (family == ir::OpFamily::Update || !visit(v, node))
            return false;
        if (node.op == ir::Op::Reshape || family == ir::OpFamily::Elementwise)
            for (const ir::ValueId x : graph.operands(node))
                open.push_back(x);
    }
    return true;
}

} // namespace lz::passes
