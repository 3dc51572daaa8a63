#include "passes/fuse/partition/strided_rows.h"

#include "passes/schedule/schedule.h"

#include <algorithm>
#include <numeric>

namespace lz::passes {

using namespace ir;

namespace {

class PermutesBelowRows {
public:
    PermutesBelowRows(const Graph &graph, const Target &target)
        : graph_(graph), target_(target), parent_(graph.nodes().size()),
          elements_of_(graph.values().size(), kNone), rows_of_(graph.values().size(), kNone),
          stored_(graph.nodes().size(), false) {
        std::iota(parent_.begin(), parent_.end(), NodeId{0});
    }

    std::vector<bool> run() {
        for (NodeId n = 0; n < graph_.nodes().size(); ++n)
            visit(n);
        std::vector<bool> stored(stored_.size());
        for (NodeId n = 0; n < stored.size(); ++n)
            stored[n] = stored_[find(n)] && parts_elements(graph_.node(n)) && is_large(graph_.node(n));
        return stored;
    }

private:
    void visit(NodeId n) {
        const Node &node = graph_.node(n);
        if (parts_elements(node)) {
            elements_of_[graph_.result(node)] = n;
            return;
        }
        switch (info(node.op).family) {
        case OpFamily::Elementwise:
            combine(node);
            break;
        case OpFamily::Reduction:
            reduce(node);
            break;
        case OpFamily::View:
            if (node.op == Op::Reshape || node.op == Op::Broadcast)
                rows_of_[graph_.result(node)] = rows_of_[graph_.operands(node)[0]];
            break;
        default:
            break;
        }
    }

    /// Whether it is a permute whose innermost axis was another one.
    bool parts_elements(const Node &node) const {
        if (node.op != Op::Permute)
            return false;
        const TensorType &to = graph_.type(graph_.result(node));
        const Shape &from = graph_.type(graph_.operands(node)[0]).shape;
        const Node *const source = graph_.producer(graph_.operands(node)[0]);
        const int last = from.rank() - 1;
        return last >= 1 && graph_.attrs(node).ints(attr::kAxes).back() != last && from[last] > 1 &&
               to.shape[last] > 1 && !(source && (source->op == Op::Broadcast || source->operand_count == 0));
    }
    bool is_large(const Node &permute) const {
        const TensorType &to = graph_.type(graph_.result(permute));
        return to.bytes() >= row_limits(target_, to.device).least_permuted;
    }

    /// Elements beside elements stay elements of the rows; elements beside what their rows were reduced to
    /// are another pass.
    void combine(const Node &node) {
        const ValueId result = graph_.result(node);
        NodeId elements = kNone, rows = kNone;
        for (const ValueId v : graph_.operands(node)) {
            if (elements_of_[v] != kNone && graph_.type(v).shape == graph_.type(result).shape)
                elements = elements == kNone ? find(elements_of_[v]) : unite(elements, elements_of_[v]);
            if (rows_of_[v] != kNone)
                rows = find(rows_of_[v]);
        }
        if (elements == kNone) {
            rows_of_[result] = rows;
            return;
        }
        elements_of_[result] = elements;
        if (rows != kNone && find(rows) == find(elements))
            stored_[find(elements)] = true;
    }

    void reduce(const Node &node) {
        if (node.op == Op::ArgMax || node.op == Op::ArgMin) // who reads an index reads no row again
            return;
        const ValueId v = graph_.operands(node)[0];
        const auto axes = graph_.attrs(node).ints(attr::kAxes);
        if (elements_of_[v] != kNone &&
            std::ranges::find(axes, graph_.type(v).shape.rank() - 1) != axes.end())
            rows_of_[graph_.result(node)] = elements_of_[v];
    }

    NodeId find(NodeId n) {
        while (parent_[n] != n)
            n = parent_[n] = parent_[parent_[n]];
        return n;
    }

    NodeId unite(NodeId a, NodeId b) {
        a = find(a);
        b = find(b);
        parent_[b] = a;
        stored_[a] = stored_[a] || stored_[b];
        return a;
    }

    const Graph &graph_;
    const Target &target_;
    std::vector<NodeId> parent_; ///< permutes whose elements meet are one set
    std::vector<NodeId>
        elements_of_;             ///< by value: the permute whose elements it has, or what was made of them
    std::vector<NodeId> rows_of_; ///< by value: the permute whose rows were reduced to it
    std::vector<bool> stored_;    ///< by the first of a set
};

} // namespace

std::vector<bool> permutes_below_rows(const Graph &graph, const Target &target) {
    return PermutesBelowRows(graph, target).run();
}

} // namespace lz::passes
