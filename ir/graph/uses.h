#pragma once
/// Who uses what: the reverse of a Graph's operand lists, and orders over its nodes.

#include "ir/graph/graph.h"

#include <span>
#include <vector>

namespace lz::ir {

/// The uses of every value in one flat array. Made in time linear in the graph; it holds for the graph as it
/// was.
class Uses {
public:
    explicit Uses(const Graph &graph);

    /// Nodes that have the value as an operand, ascending. A node stands there once for each operand that it
    /// is, so twice for `add %x, %x`.
    std::span<const NodeId> users(ValueId v) const {
        return std::span(users_).subspan(begin_[v], begin_[v + 1] - begin_[v]);
    }
    /// How often the value is a result of the graph.
    uint32_t results(ValueId v) const { return results_[v]; }
    /// Uses by nodes and by the graph's results together.
    size_t count(ValueId v) const { return users(v).size() + results_[v]; }

private:
    std::vector<uint32_t> begin_;
    std::vector<NodeId> users_;
    std::vector<uint32_t> results_;
};

/// Nodes that the results or an effect need, by operands and order edges. Effects are needed by themselves.
std::vector<bool> live_nodes(const Graph &graph);

/// Whether a node does something besides computing its results, so that nothing may drop, double or reorder
/// it freely.
bool has_effect(const Node &node);

} // namespace lz::ir
