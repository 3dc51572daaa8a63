#include "ir/graph/uses.h"

namespace lz::ir {

Uses::Uses(const Graph &graph) : begin_(graph.values().size() + 1), results_(graph.values().size()) {
    // Count, sum up, fill: begin_[v + 1] first counts the uses of v, then says where the next one of v goes.
    for (const Node &n : graph.nodes())
        for (const ValueId v : graph.operands(n))
            ++begin_[v + 1];
    for (size_t v = 1; v < begin_.size(); ++v)
        begin_[v] += begin_[v - 1];
    users_.resize(begin_.back());
    std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
    for (NodeId id = 0; id < graph.nodes().size(); ++id)
        for (const ValueId v : graph.operands(graph.node(id)))
            users_[next[v]++] = id;
    for (const ValueId v : graph.results)
        ++results_[v];
}

bool has_effect(const Node &node) {
    return info(node.op).family == OpFamily::Effect;
}

std::vector<bool> live_nodes(const Graph &graph) {
    std::vector<bool> live(graph.nodes().size());
    for (const ValueId v : graph.results)
        if (graph.value(v).producer != kNone)
            live[graph.value(v).producer] = true;
    // Ids are an execution order: all users of a node were seen before it is.
    for (NodeId id = static_cast<NodeId>(live.size()); id-- > 0;) {
        const Node &n = graph.node(id);
        if (!live[id] && !has_effect(n))
            continue;
        live[id] = true;
        for (const ValueId v : graph.operands(n))
            if (graph.value(v).producer != kNone)
                live[graph.value(v).producer] = true;
        for (const NodeId before : graph.order(n))
            live[before] = true;
    }
    return live;
}

} // namespace lz::ir
