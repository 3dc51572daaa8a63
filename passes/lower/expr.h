#pragma once
/// The scalar expressions of one cluster. Stored values are pulled through the cluster's nodes at index maps;
/// what is pulled twice at one place is one expression. Which axes and which reductions an expression needs
/// says where in the loop nest it belongs; `emit.h` puts it there.

#include "ir/graph/graph.h"
#include "ir/kernel/kernel.h"
#include "passes/lower/domain.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lz::passes {

enum class ExprKind : uint8_t {
    Load,        ///< payload: index in `addresses`, operands[0]: predicate
    Literal,     ///< payload: node
    Scalar,      ///< payload: runtime word
    Word,        ///< payload: runtime word, as an i64 argument
    Position,    ///< payload: index in `addresses`; an Index as i64
    Quotient,    ///< operands[0] / number
    Remainder,   ///< operands[0] % number
    InRange,     ///< 0 <= operands[0] < number
    Bounded,     ///< CheckIndex(operands[0], number), where operands[1] holds
    Elementwise, ///< op; of integer divisions operands[2] says where they count
    Cast,
    Philox,  ///< operands: position, Word offset, Word seed
    Affine,  ///< operands: start, step, position as floating-point or i64 numbers
    And,     ///< of predicates
    Choose,  ///< predicate, value, value
    Reduce,  ///< payload: index in `reductions`; part by number
    Product, ///< of the cluster's contraction
};

/// Up to three: those that are not given are kNoExpr (of an array they would be expression 0).
class ExprOperands {
public:
    ExprOperands(ExprId first = kNoExpr, ExprId second = kNoExpr, ExprId third = kNoExpr)
        : ids_{first, second, third} {}
    ExprId &operator[](size_t i) { return ids_[i]; }
    ExprId operator[](size_t i) const { return ids_[i]; }
    const ExprId *begin() const { return ids_.data(); }
    const ExprId *end() const { return ids_.data() + ids_.size(); }

private:
    std::array<ExprId, 3> ids_;
};

struct ExprNode {
    ExprKind kind;
    ir::DType dtype;
    ir::Op op = ir::Op::Add;
    ir::DType rounded =
        ir::DType::F64; ///< Elementwise: the node's dtype, to which the value is rounded at once
    ExprOperands operands = {};
    uint32_t payload = 0;
    int64_t number = 0;
    ir::NodeId source = ir::kNone;
    ir::ValueId value = ir::kNone; ///< Load: what is loaded
    uint32_t axes = 0;             ///< bit a: it changes along axis a
    uint8_t depth = 0;             ///< reductions that must have run, one after another, before it
    bool expensive = false;        ///< it, or what it is made of up to loads, should not be done twice
    /// It, or what it is made of, may be computed only where somebody asks for it: loads, checks, integer
    /// divisions (ir::may_speculate).
    bool on_demand = false;
    uint16_t weight = 0; ///< scalar operations from its loads on
};

struct ReduceExpr {
    ir::Op op;
    ir::NodeId node;
    ExprId operand;  ///< in the accumulation dtype
    ir::DType dtype; ///< accumulation dtype
    uint8_t depth;   ///< 1: depends on no other reduction
};

class ClusterExprs final : public IndexValues {
public:
    ClusterExprs(const ir::Graph &graph, ir::NodeId first, ir::NodeId end)
        : graph_(graph), first_(first), end_(end) {}

    /// Starts anew with another domain.
    void reset(Domain domain);
    /// Goes on at another part of the whole, with as many points along each axis; what was pulled stays.
    void shift(const Domain &part);
    const Domain &domain() const { return domain_; }

    /// The value's element at the domain's point: values over all axes, or over the rows.
    ExprId pull_full(ir::ValueId v);
    ExprId pull_row(ir::ValueId v);
    /// Its element elsewhere.
    ExprId pull_at(ir::ValueId v, IndexMap map);

    std::span<const ExprNode> exprs() const { return exprs_; }
    const ExprNode &expr(ExprId e) const { return exprs_[e]; }
    std::span<const Index> addresses() const { return addresses_; }
    std::span<const ReduceExpr> reductions() const { return reductions_; }
    const ir::Graph &graph() const { return graph_; }
    bool inside(ir::ValueId v) const {
        const ir::NodeId p = graph_.value(v).producer;
        return p >= first_ && p < end_;
    }

    ExprId quotient(const Index &index, int64_t divisor) override;
    ExprId remainder(const Index &index, int64_t divisor) override;
    const Index *divided(ExprId value, int64_t divisor, bool remainder) const override;

private:
    using MapId = uint32_t;

    MapId intern(IndexMap map);
    IndexMap full_map(const ir::Shape &shape);
    ExprId pull(ir::ValueId v, MapId map, ExprId predicate);
    ExprId compute(ir::ValueId v, const ir::Node &node, MapId map, ExprId predicate);
    MapId repeated(ir::ValueId result, ir::ValueId operand, MapId map);
    ExprId view(const ir::Node &node, MapId map, ExprId predicate);
    const Index *element_number(const IndexMap &map, const ir::Shape &shape) const;
    ExprId pad(const ir::Node &node, const IndexMap &map, ExprId predicate);
    ExprId concat(const ir::Node &node, const IndexMap &map, ExprId predicate);
    /// The lowest and highest value of an index, where they are known before the run.
    std::optional<std::pair<int64_t, int64_t>> range_of(const Index &index) const;
    std::span<const int64_t> begins_of(const ir::Node &concat);
    ExprId update_slice(const ir::Node &node, MapId map, ExprId predicate);
    ExprId gather(const ir::Node &node, MapId map, ExprId predicate);
    bool reads(ExprId e, ExprId part) const;
    ExprId maker(const ir::Node &node, const IndexMap &map);
    ExprId reduce(ir::ValueId v, const ir::Node &node, const IndexMap &map);
    ExprId load(ir::ValueId v, const IndexMap &map, ExprId predicate);
    ExprId position(const Index &index);
    ExprId divide(ExprKind kind, const Index &index, int64_t divisor);
    ExprId in_range(const Index &index, int64_t extent);
    ExprId both(ExprId a, ExprId b);
    ExprId choose(ExprId predicate, ExprId a, ExprId b);
    ExprId cast(ExprId e, ir::DType to);
    ExprId word(uint32_t position);
    ExprId scalar(uint32_t word, ir::DType dtype);
    ExprId add(ExprNode e);
    bool same_place(const Index &a, const Index &b) const;

    const ir::Graph &graph_;
    ir::NodeId first_, end_;
    Domain domain_;
    ir::NodeId source_ = ir::kNone;
    std::vector<ExprNode> exprs_;
    std::vector<Index> addresses_;
    std::vector<ReduceExpr> reductions_;
    std::vector<IndexMap> maps_;
    std::unordered_map<uint64_t, ExprId> memo_; ///< (value, map) without predicate
    struct Guarded {
        ir::ValueId value;
        MapId map;
        ExprId predicate, expr;
    };
    std::vector<Guarded> guarded_; ///< the same with a predicate
    std::unordered_map<uint64_t, ExprId> casts_;
    std::unordered_map<ir::NodeId, uint32_t> reduce_of_;
    std::unordered_map<const ir::Node *, std::vector<int64_t>>
        begins_of_; ///< of a join's operands, and its end
};

/// Accumulation dtype of a reduction's partial results.
ir::DType accumulation_dtype(ir::Op op, ir::DType operand);

} // namespace lz::passes
