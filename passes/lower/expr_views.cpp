// Views, joins and updates in an expression: another place of the operand, or a choice between operands.
#include "passes/lower/expr.h"

#include "ir/diagnostic.h"
#include "ir/graph/checks.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

ExprId ClusterExprs::view(const Node &node, MapId map, ExprId predicate) {
    const AttrView attrs = graph_.attrs(node);
    const ValueId x = graph_.operands(node)[0];
    const Shape &operand = graph_.type(x).shape;
    const IndexMap at = maps_[map];
    IndexMap inner;
    switch (node.op) {
    case Op::Reshape: {
        const Shape &shape = graph_.type(graph_.result(node)).shape;
        if (!domain_.point.empty() && operand == domain_.shape && at == full_map(shape))
            inner = domain_.point; // there and back again
        else if (const Index *number = element_number(at, shape))
            inner = delinearize(*number, operand, domain_.extents, *this);
        else
            inner = through_reshape(at, shape, operand, domain_.extents, *this);
        break;
    }
    case Op::Permute:
        inner = through_permute(at, attrs.ints(attr::kAxes));
        break;
    case Op::Broadcast:
        inner = through_broadcast(at, operand);
        break;
    case Op::Slice:
        inner =
            through_slice(at, graph_.type(graph_.result(node)).shape, operand,
                          node.runtime_begin + static_cast<uint32_t>(attrs.runtime_index(attr::kSliceStarts)),
                          attrs.ints(attr::kSliceSteps));
        break;
    case Op::Flip:
        inner = through_flip(at, attrs.ints(attr::kAxes), operand);
        break;
    case Op::Window:
        inner = through_window(at, attrs);
        break;
    case Op::Pad:
        return pad(node, at, predicate);
    default:
        return concat(node, at, predicate);
    }
    return pull(x, intern(std::move(inner)), predicate);
}

/// The number of the point, or of its row, if that is what is read, but written with quotients: from shape to
/// shape these would be divided again, until nobody sees which row it is.
const Index *ClusterExprs::element_number(const IndexMap &map, const Shape &shape) const {
    if (std::ranges::all_of(map, &Index::affine))
        return nullptr;
    const Index number = linearize(map, shape, this);
    return same_place(number, domain_.full)   ? &domain_.full
           : same_place(number, domain_.rows) ? &domain_.rows
                                              : nullptr;
}

/// Where the domain lies within the operand, or outside of it, nothing is tested.
ExprId ClusterExprs::pad(const Node &node, const IndexMap &map, ExprId predicate) {
    const AttrView attrs = graph_.attrs(node);
    const auto operands = graph_.operands(node);
    const Shape &shape = graph_.type(operands[0]).shape;
    const auto low = attrs.ints(attr::kPadLow), high = attrs.ints(attr::kPadHigh);
    IndexMap inner = map;
    std::vector<size_t> tested;
    for (size_t d = 0; d < map.size(); ++d) {
        inner[d].constant -= low[d];
        if (low[d] == 0 && high[d] == 0)
            continue;
        const int64_t extent = shape[static_cast<int>(d)];
        const auto range = range_of(inner[d]);
        if (range && (range->second < 0 || range->first >= extent))
            return pull(operands[1], intern({}), predicate);
        if (!range || range->first < 0 || range->second >= extent)
            tested.push_back(d);
    }
    ExprId valid = kNoExpr;
    for (const size_t d : tested)
        valid = both(valid, in_range(inner[d], shape[static_cast<int>(d)]));
    const ExprId x = pull(operands[0], intern(std::move(inner)), both(predicate, valid));
    if (valid == kNoExpr)
        return x;
    return choose(valid, x, pull(operands[1], intern({}), predicate));
}

std::optional<std::pair<int64_t, int64_t>> ClusterExprs::range_of(const Index &index) const {
    if (!index.words.empty() || !index.terms.empty())
        return std::nullopt;
    int64_t low = index.constant, high = index.constant;
    for (size_t a = 0; a < domain_.extents.size(); ++a) {
        if (domain_.extents[a] == 0)
            return std::nullopt;
        const int64_t reach = index.axes[a] * (domain_.extents[a] - 1);
        (reach < 0 ? low : high) += reach;
    }
    return std::pair(low, high);
}

std::span<const int64_t> ClusterExprs::begins_of(const Node &concat) {
    std::vector<int64_t> &begins = begins_of_[&concat];
    if (begins.empty()) {
        const auto axis = static_cast<int>(graph_.attrs(concat).integer(attr::kAxis));
        begins.push_back(0);
        for (const ValueId v : graph_.operands(concat))
            begins.push_back(begins.back() + graph_.type(v).shape[axis]);
    }
    return begins;
}

/// The operands that the domain can meet; one alone needs no predicate.
ExprId ClusterExprs::concat(const Node &node, const IndexMap &map, ExprId predicate) {
    const auto axis = static_cast<size_t>(graph_.attrs(node).integer(attr::kAxis));
    const auto operands = graph_.operands(node);
    const std::span<const int64_t> begins = begins_of(node);
    size_t first = 0, end = operands.size();
    const auto range = range_of(map[axis]);
    if (range && range->first >= 0 && range->second < begins.back()) {
        const auto part = [&](int64_t place) {
            return static_cast<size_t>(std::ranges::upper_bound(begins, place) - begins.begin()) - 1;
        };
        first = part(range->first);
        end = part(range->second) + 1;
    }
    std::vector<ExprId> inside, values;
    for (size_t k = first; k < end; ++k) {
        IndexMap inner = map;
        inner[axis].constant -= begins[k];
        if (end - first > 1)
            inside.push_back(in_range(inner[axis], begins[k + 1] - begins[k]));
        values.push_back(pull(operands[k], intern(std::move(inner)),
                              end - first > 1 ? both(predicate, inside.back()) : predicate));
    }
    ExprId result = values.back();
    for (size_t k = values.size() - 1; k-- > 0;)
        result = choose(inside[k], values[k], result);
    return result;
}

ExprId ClusterExprs::update_slice(const Node &node, MapId map, ExprId predicate) {
    const AttrView attrs = graph_.attrs(node);
    const auto operands = graph_.operands(node);
    const Shape &update = graph_.type(operands[1]).shape;
    const auto steps = attrs.ints(attr::kUpdateSteps);
    const uint32_t word0 =
        node.runtime_begin + static_cast<uint32_t>(attrs.runtime_index(attr::kUpdateStarts));
    const IndexMap at = maps_[map];
    IndexMap inner(at.size());
    ExprId replaced = kNoExpr;
    for (size_t d = 0; d < at.size(); ++d) {
        Index from_start = at[d];
        from_start.words.push_back({word0 + static_cast<uint32_t>(d), -1});
        replaced = both(replaced, in_range(from_start, update[static_cast<int>(d)] * steps[d]));
        if (steps[d] == 1) {
            inner[d] = from_start;
            continue;
        }
        inner[d].terms.push_back({quotient(from_start, steps[d]), 1});
        Index rest;
        rest.terms.push_back({remainder(from_start, steps[d]), 1});
        replaced = both(replaced, in_range(rest, 1));
    }
    const ExprId fresh = pull(operands[1], intern(std::move(inner)), both(predicate, replaced));
    if (replaced == kNoExpr)
        return fresh;
    return choose(replaced, fresh, pull(operands[0], map, predicate));
}

/// Whether `e` cannot be computed without `part`. Reductions are not looked into: one of no elements reads
/// nothing.
bool ClusterExprs::reads(ExprId e, ExprId part) const {
    std::vector<bool> seen(e + 1 - std::min(e, part)); // what came before `part` does not read it
    std::vector<ExprId> open;
    const auto visit = [&](ExprId next) {
        if (next == kNoExpr || next < part || seen[next - part])
            return;
        seen[next - part] = true;
        open.push_back(next);
    };
    visit(e);
    while (!open.empty()) {
        const ExprId id = open.back();
        const ExprNode &expr = exprs_[id];
        if (id == part)
            return true;
        open.pop_back();
        for (const ExprId operand : expr.operands)
            visit(operand);
        if (expr.kind == ExprKind::Load || expr.kind == ExprKind::Position)
            for (const Index::Term &term : addresses_[expr.payload].terms)
                visit(term.value);
    }
    return false;
}

} // namespace lz::passes
