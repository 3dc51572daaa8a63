#include "passes/fuse/partition/single.h"

#include "passes/lower/products/dot.h"
#include "passes/operations.h"

namespace lz::passes {

using namespace ir;

ClusterKind kind_alone(const Graph &graph, const Node &node) {
    switch (info(node.op).family) {
    case OpFamily::Reduction:
        return reduces(graph, node) ? ClusterKind::Reduce : ClusterKind::Loop;
    case OpFamily::Scan:
        return ClusterKind::Scan;
    case OpFamily::Contraction:
        return ClusterKind::Contraction;
    case OpFamily::Sort:
        return ClusterKind::Sort;
    case OpFamily::Transfer:
        return ClusterKind::Transfer;
    case OpFamily::Call:
        return ClusterKind::Call;
    case OpFamily::Effect:
        return ClusterKind::Effect;
    case OpFamily::Gather:
        return node.op == Op::Scatter ? ClusterKind::Scatter : ClusterKind::Loop;
    default:
        return ClusterKind::Loop;
    }
}

std::vector<bool> stored_views(const Graph &graph, const Target &target) {
    std::vector<bool> stored(graph.nodes().size(), false);
    const auto free_producer = [&](ValueId v) {
        const Node *p = graph.producer(v);
        return p && is_free(p->op);
    };
    const auto store = [&](ValueId v) {
        if (free_producer(v))
            stored[graph.value(v).producer] = true;
    };
    for (const ValueId r : graph.results)
        store(r);
    for (const Node &node : graph.nodes()) {
        const auto operands = graph.operands(node);
        switch (kind_alone(graph, node)) {
        case ClusterKind::Loop:
        case ClusterKind::Reduce:
            break;
        case ClusterKind::Contraction: {
            const bool gathers = gathers_operands(graph, node, target);
            for (int i = 0; i < 2; ++i)
                if (const ValueId v = operands[static_cast<size_t>(i)];
                    free_producer(v) && !dot_operand(graph, node, i, gathers, free_producer))
                    store(v);
            break;
        }
        default:
            for (size_t k = 0; k < operands.size(); ++k) {
                // A reshape of what is in memory is in memory, and so is one run of it for a copy.
                ValueId v = node.op == Op::Scatter && k == 1 ? scatter_index(graph, node).value : operands[k];
                const ValueId whole = v;
                while (free_producer(v) &&
                       (graph.producer(v)->op == Op::Reshape ||
                        (node.op == Op::Transfer && begin_of_run(graph, *graph.producer(v)))))
                    v = graph.operands(*graph.producer(v))[0];
                if (free_producer(v))
                    store(whole);
            }
            break;
        }
    }
    return stored;
}

Partition partition_single(const Graph &graph, const Target &target) {
    Partition p;
    p.stored_view = stored_views(graph, target);
    p.cluster.assign(graph.nodes().size(), kInlined);
    for (NodeId n = 0; n < graph.nodes().size(); ++n) {
        const Op op = graph.node(n).op;
        if (is_free(op) && !p.stored_view[n])
            continue;
        p.cluster[n] = static_cast<int32_t>(p.kind.size());
        p.kind.push_back(kind_alone(graph, graph.node(n)));
    }
    return p;
}

} // namespace lz::passes
