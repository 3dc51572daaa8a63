#include "passes/simplify/eliminate_common.h"

#include "passes/devices/places.h"
#include "passes/hashed.h"
#include "passes/simplify/rewrite.h"

#include <algorithm>
#include <bit>

namespace lz::passes {

using namespace ir;

namespace {

/// Representatives by hash: open addressing over ids of nodes, sized once.
class NodeTable {
public:
    NodeTable(const Graph &graph, const std::vector<ValueId> &value_of)
        : graph_(graph), value_of_(value_of), places_(graph),
          slots_(std::bit_ceil(graph.nodes().size() * 2 + 2), kNone) {}

    /// The first node equal to this one: itself when there is none yet.
    NodeId find_or_insert(NodeId id) {
        const size_t mask = slots_.size() - 1;
        for (size_t slot = hash(id) & mask;; slot = (slot + 1) & mask) {
            if (slots_[slot] == kNone)
                return slots_[slot] = id;
            if (equal(slots_[slot], id))
                return slots_[slot];
        }
    }

private:
    static uint64_t mix(uint64_t h, uint64_t word) {
        h = (h ^ word) * 0x9E3779B97F4A7C15ULL;
        return h ^ (h >> 29);
    }

    uint64_t hash(NodeId id) const {
        const Node &n = graph_.node(id);
        uint64_t h = mix(static_cast<uint64_t>(n.op), places_.epoch(id));
        for (int64_t word : graph_.attrs(n).structural)
            h = mix(h, hashed(word));
        for (ValueId v : graph_.operands(n))
            h = mix(h, value_of_[v]);
        return h ^ (h >> 32);
    }

    bool equal(NodeId a, NodeId b) const {
        const Node &x = graph_.node(a), &y = graph_.node(b);
        return x.op == y.op && x.stream == y.stream && places_.epoch(a) == places_.epoch(b) &&
               std::ranges::equal(graph_.attrs(x).structural, graph_.attrs(y).structural) &&
               std::ranges::equal(graph_.operands(x), graph_.operands(y),
                                  [&](ValueId v, ValueId w) { return value_of_[v] == value_of_[w]; });
    }

    const Graph &graph_;
    const std::vector<ValueId> &value_of_;
    const Places places_; ///< effects end an epoch of their place
    std::vector<NodeId> slots_;
};

bool may_merge(const Node &node) {
    return node.runtime_count == 0 && node.order_count == 0 && node.op != Op::Call &&
           info(node.op).family != OpFamily::Effect;
}

} // namespace

Graph eliminate_common(Graph graph, Graph *recycled) {
    const auto count = static_cast<NodeId>(graph.nodes().size());
    std::vector<ValueId> value_of(graph.values().size());
    for (ValueId v = 0; v < value_of.size(); ++v)
        value_of[v] = v;
    std::vector<NodeId> first_equal(count);
    NodeTable table(graph, value_of);
    bool changed = false;
    for (NodeId id = 0; id < count; ++id) {
        const Node &node = graph.node(id);
        first_equal[id] = may_merge(node) ? table.find_or_insert(id) : id;
        if (first_equal[id] == id)
            continue;
        changed = true;
        for (uint32_t k = 0; k < node.result_count; ++k)
            value_of[node.first_result + k] = graph.node(first_equal[id]).first_result + k;
    }
    if (!changed)
        return graph;

    return remade(graph, recycled, [&](Graph memory) {
        Rewriter rewriter(graph, std::move(memory));
        for (NodeId id = 0; id < count; ++id) {
            const Node &node = graph.node(id);
            if (first_equal[id] == id) {
                rewriter.keep(id);
                continue;
            }
            for (uint32_t k = 0; k < node.result_count; ++k)
                rewriter.replace(node.first_result + k, rewriter.value(value_of[node.first_result + k]));
        }
        return rewriter.finish();
    });
}

} // namespace lz::passes
