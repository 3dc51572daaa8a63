#include "passes/simplify/eliminate_dead.h"

#include "ir/graph/uses.h"
#include "passes/simplify/rewrite.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

Graph eliminate_dead(Graph graph, Graph *recycled) {
    const size_t count = graph.nodes().size();
    std::vector<char> live(count, 0);
    for (ValueId v : graph.results)
        if (const NodeId producer = graph.value(v).producer; producer != kNone)
            live[producer] = 1;
    // Operands come before uses, so that one walk from the end sees every use first.
    for (size_t id = count; id-- > 0;) {
        const Node &node = graph.nodes()[id];
        if (!live[id] && !has_effect(node))
            continue;
        live[id] = 1;
        for (ValueId v : graph.operands(node))
            if (const NodeId producer = graph.value(v).producer; producer != kNone)
                live[producer] = 1;
    }
    if (std::all_of(live.begin(), live.end(), [](char l) { return l != 0; }))
        return graph;

    return remade(graph, recycled, [&](Graph memory) {
        Rewriter rewriter(graph, std::move(memory));
        for (NodeId id = 0; id < count; ++id)
            if (live[id])
                rewriter.keep(id);
        return rewriter.finish();
    });
}

} // namespace lz::passes
