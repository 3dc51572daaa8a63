#pragma once
/// Graph IR: SSA over tensors. What the frontend records and what passes rewrite.
///
/// A Graph owns flat pools; nodes and values are named by dense ids. Node order is a valid execution order
/// (operands come before uses), ids are positions. Nothing is ever deleted in place: a pass that removes or
/// reorders builds a new Graph through GraphBuilder, node by node (`clone_node`).

#include "ir/location.h"
#include "ir/op.h"
#include "ir/stream.h"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lz::ir {

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr uint32_t kNone = UINT32_MAX;

struct Value {
    TensorType type;
    NodeId producer = kNone; ///< kNone for parameters
    uint32_t result = 0;     ///< which result of the producer; for parameters: which parameter
};

/// Why there is a transfer, for `explain`.
enum class TransferCause : uint8_t {
    User,   ///< it was recorded
    Scalar, ///< a 0-dim CPU tensor beside GPU operands
    Peer,   ///< an operand on a GPU with peer access to the operation's
    Side,   ///< TransferMode::Automatic: the smaller side of the operation
    Return, ///< TransferMode::Automatic: the result of an operation that ran where its larger operand is
};
std::string_view name(TransferCause cause);

struct Node {
    Op op;
    TransferCause cause = TransferCause::User; ///< Transfer
    Location loc;
    uint32_t operand_begin = 0, operand_count = 0;
    uint32_t structural_begin = 0, structural_count = 0;
    uint32_t runtime_begin = 0, runtime_count = 0; ///< positions in the Graph's runtime words
    uint32_t order_begin = 0, order_count = 0;     ///< nodes that must come before although no value says so
    ValueId first_result = kNone;
    uint32_t result_count = 0;
    int32_t stream = kNoStream;
    int32_t cluster = -1; ///< index in Graph::clusters after `fuse`
    uint32_t recorded =
        kNone; ///< index in the canonical recording (what errors name), kNone if made by a pass
};

/// How a parameter gets its data when a dump is replayed.
enum class InitKind : uint8_t { None, Dense, Random };

struct Param {
    ValueId value;
    std::string name; ///< without the `%`
    InitKind init = InitKind::None;
    uint64_t seed = 0;            ///< Random: uniform in [0, 1) for floats, small integers else
    std::vector<std::byte> bytes; ///< Dense: row-major elements in storage format
    bool donated = false;         ///< its memory may be overwritten by the program
    uint32_t heir = kNone;        ///< donated: the result that alone may have its memory; kNone: any
    int32_t storage = -1;         ///< parameters with the same non-negative number share memory
    Location loc;                 ///< where its value was recorded, if known
};

enum class ClusterKind : uint8_t {
    Loop,
    Row,
    Reduce,
    Contraction,
    Scan,
    Sort,
    Scatter,
    Call,
    Transfer,
    Effect
};
std::string_view name(ClusterKind kind);

/// What `fuse` decided to make one kernel (or one library call). Its nodes carry its index and are
/// consecutive.
struct Cluster {
    ClusterKind kind = ClusterKind::Loop;
    /// Clusters with the same non-negative group are launched together as segments of one kernel.
    int32_t group = -1;
};

class Graph {
public:
    std::string name = "main";
    std::vector<Param> params;
    std::vector<ValueId> results;
    std::vector<Cluster> clusters; ///< empty before `fuse`

    std::span<const Node> nodes() const { return nodes_; }
    const Node &node(NodeId id) const { return nodes_[id]; }
    std::span<const Value> values() const { return values_; }
    const Value &value(ValueId id) const { return values_[id]; }
    const TensorType &type(ValueId id) const { return values_[id].type; }
    std::span<const ValueId> operands(const Node &n) const {
        return {operands_.data() + n.operand_begin, n.operand_count};
    }
    std::span<const NodeId> order(const Node &n) const {
        return {order_.data() + n.order_begin, n.order_count};
    }
    AttrView attrs(const Node &n) const {
        return {n.op,
                {structural_.data() + n.structural_begin, n.structural_count},
                {runtime_.data() + n.runtime_begin, n.runtime_count}};
    }
    /// All runtime attribute words of the graph. A node's are at Node::runtime_begin. On a repeated program
    /// the engine passes another array of the same length: `Program` refers to positions in it.
    std::span<const int64_t> runtime_words() const { return runtime_; }
    ValueId result(const Node &n, uint32_t k = 0) const { return n.first_result + k; }
    /// The producer of a value, or nullptr for a parameter.
    const Node *producer(ValueId v) const {
        return values_[v].producer == kNone ? nullptr : &nodes_[values_[v].producer];
    }

    void set_cluster(NodeId id, int32_t cluster) { nodes_[id].cluster = cluster; }
    void set_stream(NodeId id, int32_t stream) { nodes_[id].stream = stream; }
    void set_recorded(NodeId id, uint32_t recorded) { nodes_[id].recorded = recorded; }

private:
    friend class GraphBuilder;
    std::vector<Node> nodes_;
    std::vector<Value> values_;
    std::vector<ValueId> operands_;
    std::vector<NodeId> order_;
    std::vector<int64_t> structural_, runtime_;
};

/// Builds a Graph node by node; types are inferred (and so checked) by the op's rule. Passes, the parser, the
/// recorder's conversion and gradients all write through it.
class GraphBuilder {
public:
    GraphBuilder() = default;
    explicit GraphBuilder(std::string graph_name) { graph_.name = std::move(graph_name); }
    /// Builds in the memory of a graph that nobody needs any more: large ones cost as much to make as to
    /// fill.
    GraphBuilder(std::string graph_name, Graph room);

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

    Graph graph_;
    const Graph *words_of_ = nullptr;       // the graph whose runtime words were taken over
    std::vector<const TensorType *> types_; // of the operands of the node that is being added
};

/// Well-formedness: ids in range, operands before uses, attribute words match the schema, types equal what
/// the rules infer, results exist, clusters consecutive. Throws Failure(Internal) whose message names the
/// node and carries the printed graph.
void verify(const Graph &graph);

} // namespace lz::ir
