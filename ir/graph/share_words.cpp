#include "ir/graph/share_words.h"

#include "ir/diagnostic.h"
#include "ir/graph/builder.h"

#include <algorithm>
#include <string>
#include <vector>

namespace lz::ir {

Graph share_words(Graph graph, std::span<const SharedWords> shared) {
    std::vector<NodeId> with(graph.nodes().size(), kNone);
    for (const SharedWords &s : shared) {
        LZ_CHECK(s.with < s.node && s.node < with.size() &&
                     std::ranges::equal(graph.attrs(graph.node(s.with)).runtime,
                                        graph.attrs(graph.node(s.node)).runtime),
                 "node " + std::to_string(s.node) + " has other words than node " + std::to_string(s.with));
        with[s.node] = s.with;
    }
    GraphBuilder builder(graph.name);
    for (const Param &param : graph.params)
        builder.clone_param(graph, param);
    for (NodeId id = 0; id < graph.nodes().size(); ++id) {
        Node node = graph.node(id);
        if (with[id] != kNone)
            node.runtime_begin = graph.node(with[id]).runtime_begin;
        builder.clone_node(graph, node, graph.operands(node)); // values have the same numbers
        builder.set_cluster(node.cluster);
        builder.add_order(graph.order(node));
    }
    builder.graph().results = graph.results;
    builder.graph().clusters = graph.clusters;
    return builder.take();
}

} // namespace lz::ir
