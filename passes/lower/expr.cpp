#include "passes/lower/expr.h"

#include "ir/diagnostic.h"
#include "ir/graph/checks.h"
#include "passes/operations.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

uint64_t key(uint32_t high, uint32_t low) {
    return uint64_t{high} << 32 | low;
}

uint32_t axes_of(const Index &index) {
    uint32_t mask = 0;
    for (size_t a = 0; a < index.axes.size(); ++a)
        if (index.axes[a] != 0)
            mask |= 1u << a;
    return mask;
}

} // namespace

DType accumulation_dtype(Op op, DType operand) {
    if (op == Op::ReduceSum || op == Op::ReduceProd)
        return info(operand).accumulate;
    if (is_float(operand))
        return info(operand).compute;
    return operand == DType::I32 ? DType::I32 : DType::I64;
}

void ClusterExprs::reset(Domain domain) {
    domain_ = std::move(domain);
    exprs_.clear();
    addresses_.clear();
    reductions_.clear();
    maps_.clear();
    memo_.clear();
    guarded_.clear();
    casts_.clear();
    reduce_of_.clear();
    begins_of_.clear();
}

void ClusterExprs::shift(const Domain &part) {
    LZ_CHECK(part.extents == domain_.extents, "parts that are lowered together have other extents");
    domain_.full = part.full;
    domain_.rows = part.rows;
    domain_.point = part.point;
}

// --- roots

IndexMap ClusterExprs::full_map(const Shape &shape) {
    if (!domain_.point.empty() && shape == domain_.shape)
        return domain_.point;
    if (domain_.per_dimension && shape == domain_.shape) {
        IndexMap map;
        for (int d = 0; d < shape.rank(); ++d)
            map.push_back(Index::axis(d));
        return map;
    }
    return delinearize(domain_.full, shape, domain_.extents, *this);
}

ExprId ClusterExprs::pull_full(ValueId v) {
    source_ = graph_.value(v).producer;
    return pull(v, intern(full_map(graph_.type(v).shape)), kNoExpr);
}

ExprId ClusterExprs::pull_row(ValueId v) {
    source_ = graph_.value(v).producer;
    const Shape &shape = graph_.type(v).shape;
    if (domain_.per_dimension && shape == domain_.row_shape) {
        IndexMap map;
        for (int a = 0; a < static_cast<int>(domain_.extents.size()); ++a)
            if (!(domain_.reduced >> a & 1))
                map.push_back(Index::axis(a));
        return pull(v, intern(std::move(map)), kNoExpr);
    }
    return pull(v, intern(delinearize(domain_.rows, shape, domain_.extents, *this)), kNoExpr);
}

ExprId ClusterExprs::pull_at(ValueId v, IndexMap map) {
    source_ = graph_.value(v).producer;
    return pull(v, intern(std::move(map)), kNoExpr);
}

// --- the recursion

ClusterExprs::MapId ClusterExprs::intern(IndexMap map) {
    for (size_t i = 0; i < maps_.size(); ++i)
        if (maps_[i] == map)
            return static_cast<MapId>(i);
    maps_.push_back(std::move(map));
    return static_cast<MapId>(maps_.size() - 1);
}

ExprId ClusterExprs::pull(ValueId v, MapId map, ExprId predicate) {
    const Value &value = graph_.value(v);
    if (predicate == kNoExpr) {
        if (const auto it = memo_.find(key(v, map)); it != memo_.end())
            return it->second;
    } else {
        for (const Guarded &g : guarded_)
            if (g.value == v && g.map == map && g.predicate == predicate)
                return g.expr;
    }
    const NodeId outer = source_;
    ExprId e;
    if (!inside(v)) {
        const IndexMap at = maps_[map];
        e = load(v, at, predicate);
    } else {
        source_ = value.producer;
        e = compute(v, graph_.node(value.producer), map, predicate);
    }
    source_ = outer;
    if (predicate == kNoExpr)
        memo_.emplace(key(v, map), e);
    else
        guarded_.push_back({v, map, predicate, e});
    return e;
}

ExprId ClusterExprs::compute(ValueId v, const Node &node, MapId map, ExprId predicate) {
    const auto operands = graph_.operands(node);
    switch (info(node.op).family) {
    case OpFamily::Elementwise: {
        const DType result = graph_.type(v).dtype;
        if (node.op == Op::Cast) {
            const DType from = graph_.type(operands[0]).dtype;
            ExprId x = cast(pull(operands[0], map, predicate), info(from).compute);
            return cast(cast(x, info(result).compute), result);
        }
        ExprNode e{.kind = ExprKind::Elementwise, .dtype = result, .op = node.op, .rounded = result};
        for (size_t i = 0; i < operands.size(); ++i) {
            const ExprId x = pull(operands[i], repeated(v, operands[i], map), predicate);
            e.operands[i] = cast(x, info(exprs_[x].dtype).compute);
        }
        if (has_checks(node.op, result)) {
            e.operands[2] = predicate;
            e.on_demand = true;
        }
        const DType computed =
            info(node.op).rule == ElementwiseRule::Compare || info(node.op).rule == ElementwiseRule::FloatTest
                ? DType::Bool
                : info(result).compute;
        e.dtype = computed;
        e.expensive = is_expensive(node.op);
        e.weight = static_cast<uint16_t>(scalar_ops(node.op));
        return cast(add(e), result);
    }
    case OpFamily::Maker: {
        const IndexMap at = maps_[map];
        return maker(node, at);
    }
    case OpFamily::View:
        return view(node, map, predicate);
    case OpFamily::Update:
        return update_slice(node, map, predicate);
    case OpFamily::Gather:
        if (node.op == Op::Gather)
            return gather(node, map, predicate);
        break;
    case OpFamily::Reduction: {
        if (!reduces(graph_, node)) {
            const DType from = graph_.type(operands[0]).dtype, to = graph_.type(v).dtype;
            const ExprId x = cast(pull(operands[0], map, predicate), info(from).compute);
            return cast(cast(x, info(to).compute), to);
        }
        const IndexMap at = maps_[map];
        return reduce(v, node, at);
    }
    case OpFamily::Contraction: {
        const Index linear = linearize(maps_[map], graph_.type(v).shape, this);
        LZ_CHECK(same_place(linear, domain_.full) || graph_.type(v).numel() == 0,
                 "a product is read elsewhere than where it is made");
        const DType result = graph_.type(v).dtype;
        const ExprId sum = add({.kind = ExprKind::Product,
                                .dtype = info(result).compute,
                                .axes = (1u << domain_.extents.size()) - 1,
                                .expensive = true});
        return cast(sum, result);
    }
    default:
        break;
    }
    internal_failure(__FILE__, __LINE__, std::string(name(node.op)) + " cannot stand inside a kernel");
}

/// Where an elementwise operand is read: NumPy's rules repeat it.
ClusterExprs::MapId ClusterExprs::repeated(ValueId result, ValueId operand, MapId map) {
    const Shape &shape = graph_.type(operand).shape;
    if (shape == graph_.type(result).shape)
        return map;
    return intern(through_broadcast(maps_[map], shape));
}

ExprId ClusterExprs::gather(const Node &node, MapId map, ExprId predicate) {
    const auto axis = static_cast<size_t>(graph_.attrs(node).integer(attr::kAxis));
    const auto operands = graph_.operands(node);
    const ExprId index = cast(pull(operands[1], map, predicate), DType::I64);
    const int64_t extent = graph_.type(operands[0]).shape[static_cast<int>(axis)];
    const ExprId safe = add({.kind = ExprKind::Bounded,
                             .dtype = DType::I64,
                             .operands = {index, predicate},
                             .number = extent,
                             .on_demand = true,
                             .weight = 2});
    exprs_[safe].expensive = true;
    IndexMap inner = maps_[map];
    inner[axis] = {};
    inner[axis].terms.push_back({safe, 1});
    ExprId source = predicate;
    if (extent == 0) // there is no element to read in place of one that is out of range
        source = both(predicate, add({.kind = ExprKind::Elementwise,
                                      .dtype = DType::Bool,
                                      .op = Op::Ne,
                                      .operands = {safe, safe},
                                      .weight = 1}));
    const ExprId element = pull(operands[0], intern(std::move(inner)), source);
    // An operand that is the same along the axis does not look at the index; the check must stand all the
    // same.
    if (reads(element, safe))
        return element;
    const ExprId checked = add({.kind = ExprKind::Elementwise,
                                .dtype = DType::Bool,
                                .op = Op::Eq,
                                .operands = {safe, safe},
                                .weight = 1});
    return choose(checked, element, element);
}

ExprId ClusterExprs::maker(const Node &node, const IndexMap &map) {
    const AttrView attrs = graph_.attrs(node);
    const TensorType &type = graph_.type(graph_.result(node));
    const auto runtime = [&](int attribute) {
        return node.runtime_begin + static_cast<uint32_t>(attrs.runtime_index(attribute));
    };
    switch (node.op) {
    case Op::Constant:
        return cast(scalar(runtime(attr::kMakerValue), type.dtype), type.dtype);
    case Op::Literal:
        return add({.kind = ExprKind::Literal, .dtype = type.dtype, .payload = source_});
    case Op::Iota: {
        const auto axis = static_cast<size_t>(attrs.integer(attr::kIotaAxis));
        const DType number = is_float(type.dtype) ? DType::F64 : DType::I64;
        const ExprId at = cast(position(map[axis]), number);
        const ExprId e = add({.kind = ExprKind::Affine,
                              .dtype = number,
                              .operands = {scalar(runtime(attr::kIotaStart), number),
                                           scalar(runtime(attr::kIotaStep), number), at},
                              .weight = 3});
        return cast(cast(e, info(type.dtype).compute), type.dtype);
    }
    default: {
        const ExprId at = position(linearize(map, type.shape, this));
        const ExprId e =
            add({.kind = ExprKind::Philox,
                 .dtype = DType::I32,
                 .operands = {at, word(runtime(attr::kPhiloxOffset)), word(runtime(attr::kPhiloxSeed))},
                 .weight = static_cast<uint16_t>(scalar_ops(Op::Philox))});
        exprs_[e].expensive = true;
        return e;
    }
    }
}

/// Extents of one make a coefficient meaningless.
bool ClusterExprs::same_place(const Index &a, const Index &b) const {
    if (a.constant != b.constant || !a.words.empty() || !a.terms.empty())
        return false;
    for (size_t i = 0; i < domain_.extents.size(); ++i)
        if (domain_.extents[i] > 1 && a.axes[i] != b.axes[i])
            return false;
    return true;
}

ExprId ClusterExprs::reduce(ValueId v, const Node &node, const IndexMap &map) {
    const ValueId x = graph_.operands(node)[0];
    const DType result = graph_.type(v).dtype;
    LZ_CHECK(same_place(linearize(map, graph_.type(v).shape, this), domain_.rows) ||
                 graph_.type(v).numel() == 0,
             "a reduction is read at another row than where it is made");
    const bool arg = node.op == Op::ArgMax || node.op == Op::ArgMin;
    auto it = reduce_of_.find(source_);
    if (it == reduce_of_.end()) {
        const DType dtype = accumulation_dtype(node.op, graph_.type(x).dtype);
        ExprId operand = pull(x, intern(full_map(graph_.type(x).shape)), kNoExpr);
        operand = cast(cast(operand, info(exprs_[operand].dtype).compute), dtype);
        it = reduce_of_.emplace(source_, static_cast<uint32_t>(reductions_.size())).first;
        reductions_.push_back(
            {node.op, source_, operand, dtype, static_cast<uint8_t>(exprs_[operand].depth + 1)});
    }
    const ReduceExpr &r = reductions_[it->second];
    const ExprId e = add({.kind = ExprKind::Reduce,
                          .dtype = arg ? DType::I64 : r.dtype,
                          .payload = it->second,
                          .number = arg ? 1 : 0,
                          .axes = ((1u << domain_.extents.size()) - 1) & ~domain_.reduced,
                          .depth = r.depth});
    return cast(cast(e, info(result).compute), result);
}

// --- leaves

ExprId ClusterExprs::load(ValueId v, const IndexMap &map, ExprId predicate) {
    Index address = linearize(map, graph_.type(v).shape, this);
    addresses_.push_back(std::move(address));
    return add({.kind = ExprKind::Load,
                .dtype = graph_.type(v).dtype,
                .operands = {predicate},
                .payload = static_cast<uint32_t>(addresses_.size() - 1),
                .value = v,
                .on_demand = true,
                .weight = 1});
}

ExprId ClusterExprs::position(const Index &index) {
    for (ExprId e = 0; e < exprs_.size(); ++e)
        if (exprs_[e].kind == ExprKind::Position && addresses_[exprs_[e].payload] == index)
            return e;
    addresses_.push_back(index);
    return add({.kind = ExprKind::Position,
                .dtype = DType::I64,
                .payload = static_cast<uint32_t>(addresses_.size() - 1),
                .weight = 2});
}

ExprId ClusterExprs::divide(ExprKind kind, const Index &index, int64_t divisor) {
    const ExprId at = position(index);
    for (ExprId e = 0; e < exprs_.size(); ++e)
        if (exprs_[e].kind == kind && exprs_[e].operands[0] == at && exprs_[e].number == divisor)
            return e;
    return add({.kind = kind,
                .dtype = DType::I64,
                .operands = {at},
                .number = divisor,
                .on_demand = true,
                .weight = 4});
}

ExprId ClusterExprs::quotient(const Index &index, int64_t divisor) {
    return divide(ExprKind::Quotient, index, divisor);
}

ExprId ClusterExprs::remainder(const Index &index, int64_t divisor) {
    return divide(ExprKind::Remainder, index, divisor);
}

const Index *ClusterExprs::divided(ExprId value, int64_t divisor, bool remainder) const {
    const ExprNode &e = exprs_[value];
    if (e.kind != (remainder ? ExprKind::Remainder : ExprKind::Quotient) || e.number != divisor)
        return nullptr;
    return &addresses_[exprs_[e.operands[0]].payload];
}

ExprId ClusterExprs::in_range(const Index &index, int64_t extent) {
    const ExprId at = position(index);
    for (ExprId e = 0; e < exprs_.size(); ++e)
        if (exprs_[e].kind == ExprKind::InRange && exprs_[e].operands[0] == at && exprs_[e].number == extent)
            return e;
    return add(
        {.kind = ExprKind::InRange, .dtype = DType::Bool, .operands = {at}, .number = extent, .weight = 2});
}

ExprId ClusterExprs::both(ExprId a, ExprId b) {
    if (a == kNoExpr || b == kNoExpr || a == b)
        return a == kNoExpr ? b : a;
    for (ExprId e = 0; e < exprs_.size(); ++e)
        if (exprs_[e].kind == ExprKind::And && exprs_[e].operands[0] == a && exprs_[e].operands[1] == b)
            return e;
    return add({.kind = ExprKind::And, .dtype = DType::Bool, .operands = {a, b}, .weight = 1});
}

ExprId ClusterExprs::choose(ExprId predicate, ExprId a, ExprId b) {
    return add(
        {.kind = ExprKind::Choose, .dtype = exprs_[a].dtype, .operands = {predicate, a, b}, .weight = 1});
}

ExprId ClusterExprs::cast(ExprId e, DType to) {
    if (exprs_[e].dtype == to)
        return e;
    const uint64_t k = key(e, static_cast<uint32_t>(to));
    if (const auto it = casts_.find(k); it != casts_.end())
        return it->second;
    const ExprId c = add({.kind = ExprKind::Cast, .dtype = to, .operands = {e}, .weight = 1});
    casts_.emplace(k, c);
    return c;
}

ExprId ClusterExprs::word(uint32_t position) {
    return add({.kind = ExprKind::Word, .dtype = DType::I64, .payload = position});
}

ExprId ClusterExprs::scalar(uint32_t word, DType dtype) {
    ExprNode e{.kind = ExprKind::Scalar, .dtype = info(dtype).compute, .payload = word};
    e.number = static_cast<int64_t>(dtype);
    return add(e);
}

ExprId ClusterExprs::add(ExprNode e) {
    e.source = source_;
    if (e.kind == ExprKind::Load || e.kind == ExprKind::Position) {
        const Index &address = addresses_[e.payload];
        e.axes |= axes_of(address);
        for (const Index::Term &t : address.terms) {
            e.axes |= exprs_[t.value].axes;
            e.depth = std::max(e.depth, exprs_[t.value].depth);
            e.expensive = e.expensive || exprs_[t.value].expensive;
            e.on_demand = e.on_demand || exprs_[t.value].on_demand;
        }
    }
    uint32_t weight = e.weight;
    for (const ExprId x : e.operands) {
        if (x == kNoExpr)
            continue;
        e.axes |= exprs_[x].axes;
        e.depth = std::max(e.depth, exprs_[x].depth);
        e.expensive = e.expensive || exprs_[x].expensive;
        e.on_demand = e.on_demand || exprs_[x].on_demand;
        weight += exprs_[x].weight;
    }
    e.weight = static_cast<uint16_t>(std::min<uint32_t>(weight, UINT16_MAX));
    exprs_.push_back(e);
    return static_cast<ExprId>(exprs_.size() - 1);
}

} // namespace lz::passes
