#pragma once
/// How a Graph is written.

#include "ir/graph/graph.h"

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lz::ir {

/// Builds a Graph node by node; types are inferred (and so checked) by the op's rule. Passes, the parser, the
/// recorder's conversion and gradients all write through it.
class GraphBuilder {
public:
    GraphBuilder() = default;
    explicit GraphBuilder(std::string graph_name) { graph_.name = std::move(graph_name); }
    /// Builds in the memory of a graph that nobody needs any more: large ones cost as much to make as to
    /// fill.
    GraphBuilder(std::string graph_name, Graph recycled);

    ValueId param(const TensorType &type, std::string name);
    /// Copies everything of the parameter but its value id.
    ValueId clone_param(const Graph &from, const Param &param);
    /// Appends a node, infers its result types and returns its first result (kNone if it has none).
    /// Throws Failure as `infer_types`, with `loc`, and Failure(Internal) where `operands` or the words are
    /// not what the op's row asks for; the graph is then as before.
    ValueId add(Op op, std::span<const ValueId> operands, std::span<const int64_t> structural = {},
                std::span<const int64_t> runtime = {}, const Location &loc = {});
    ValueId add(Op op, std::initializer_list<ValueId> operands,
                std::initializer_list<int64_t> structural = {}, std::initializer_list<int64_t> runtime = {},
                const Location &loc = {}) {
        return add(op, std::span(operands.begin(), operands.size()),
                   std::span(structural.begin(), structural.size()),
                   std::span(runtime.begin(), runtime.size()), loc);
    }
    /// The same op, attributes, location, stream and recorded index with other operands; types are inferred
    /// anew. Order edges and the cluster are not taken over: node ids and clusters are others here.
    /// The first graph cloned from (by clone_param or clone_node, before a node with runtime words is added)
    /// hands over all its runtime words, and clones of its nodes keep their Node::runtime_begin. So positions
    /// of words are those of the recording after any number of passes, which is what a Program refers to.
    ValueId clone_node(const Graph &from, const Node &node, std::span<const ValueId> operands);
    /// A maker (`constant`, `literal`, `iota`, `philox`) as clone_node copies it, on another device.
    ValueId clone_maker(const Graph &from, const Node &maker, Device device);
    /// Marks the node added last.
    void set_stream(int32_t stream) { graph_.nodes_.back().stream = stream; }
    void set_recorded(uint32_t recorded) { graph_.nodes_.back().recorded = recorded; }
    void set_cluster(int32_t cluster) { graph_.nodes_.back().cluster = cluster; }
    void set_cause(TransferCause cause) { graph_.nodes_.back().cause = cause; }
    void set_location(const Location &loc) { graph_.nodes_.back().loc = loc; }
    /// All runtime words of the graph, before it has nodes: each has its own where set_words says.
    void begin_words(std::span<const int64_t> words) { graph_.runtime_.assign(words.begin(), words.end()); }
    /// The words with which the node added last was added are those of begin_words from `begin` on.
    void set_words(uint32_t begin);
    /// Orders the node added last after these earlier nodes.
    void add_order(std::span<const NodeId> before);
    NodeId last_node() const { return static_cast<NodeId>(graph_.nodes_.size() - 1); }

    Graph &graph() { return graph_; }
    const Graph &graph() const { return graph_; }
    Graph take() { return std::move(graph_); }

    // Spelled-out helpers for passes, gradients and tests.
    ValueId binary(Op op, ValueId a, ValueId b, const Location &loc = {}) {
        return add(op, {a, b}, {}, {}, loc);
    }
    ValueId unary(Op op, ValueId a, const Location &loc = {}) { return add(op, {a}, {}, {}, loc); }
    ValueId cast(ValueId a, DType dtype, const Location &loc = {});
    ValueId constant(DType dtype, double value, const Shape &shape = {}, Device device = kCpu,
                     const Location &loc = {});
    ValueId literal(DType dtype, double value, const Shape &shape = {}, Device device = kCpu,
                    const Location &loc = {});
    ValueId reshape(ValueId a, const Shape &shape, const Location &loc = {});
    ValueId permute(ValueId a, std::span<const int64_t> axes, const Location &loc = {});
    ValueId broadcast(ValueId a, const Shape &shape, const Location &loc = {});
    ValueId iota(DType dtype, const Shape &shape, int64_t axis, double start = 0, double step = 1,
                 Device device = kCpu, const Location &loc = {});
    /// `a` itself where it is on that device already.
    ValueId transfer(ValueId a, Device to, const Location &loc = {});
    ValueId slice(ValueId a, std::span<const int64_t> starts, std::span<const int64_t> sizes,
                  std::span<const int64_t> steps, const Location &loc = {});
    ValueId reduce(Op op, ValueId a, std::span<const int64_t> axes, const Location &loc = {});
    ValueId matmul(ValueId a, ValueId b, const Location &loc = {}); ///< [m,k] x [k,n]

private:
    void adopt(const Graph &from);
    ValueId clone(const Graph &from, const Node &node, std::span<const ValueId> operands,
                  std::span<const int64_t> structural);
    ValueId append(const AttrView &attrs, std::span<const ValueId> operands,
                   std::span<const TensorType> types, const Location &loc);
    bool same_operand_types(const Graph &from, const Node &node, std::span<const ValueId> operands) const;
    void take_notes(const Node &node);

    Graph graph_;
    const Graph *words_of_ = nullptr;       // the graph whose runtime words were taken over
    std::vector<const TensorType *> types_; // of the operands of the node that is being added
};

} // namespace lz::ir
