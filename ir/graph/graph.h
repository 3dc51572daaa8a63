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
    uint32_t donated_to = kNone;  ///< donated: the result that alone may have its memory; kNone: any
    bool kept = false;    ///< donated to a result: should that one fail, it must still hold what it held
    int32_t storage = -1; ///< parameters with the same non-negative number share memory
    Location loc;         ///< where its value was recorded, if known
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

} // namespace lz::ir
