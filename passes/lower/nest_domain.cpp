#include "passes/lower/nest_domain.h"

#include "passes/hashed.h"
#include "passes/operations.h"

#include <algorithm>
#include <array>

namespace lz::passes {

using namespace ir;

void NestDomain::choose() {
    find_reduction();
    if (updates_in_place())
        choose_update(true);
    else
        choose_points(false);
    if (reduction_ && static_cast<int>(loops_.size()) != fold_.reduced_groups())
        choose_points(true);
}

void NestDomain::choose(const Piece &piece) {
    exprs_.reset(piece.parts[0]);
    for (const Domain &part : piece.parts) {
        exprs_.shift(part);
        for (const ValueId v : cluster_.stored) {
            NestOutput &o = outputs_.emplace_back();
            o.value = v;
            o.expr = exprs_.pull_full(v);
            o.address = part.full;
        }
    }
    choose_axes();
}

uint32_t NestDomain::grid_mask() const {
    uint32_t all = 0, mask = 0;
    for (const uint32_t m : axes_.members)
        all |= m;
    for (const int k : grid_)
        mask |= axes_.members[static_cast<size_t>(k)];
    return mask | ~all;
}

void NestDomain::find_reduction() {
    for (NodeId n = cluster_.first; n < cluster_.end; ++n)
        if (reduces(graph_, graph_.node(n))) {
            reduction_ = &graph_.node(n);
            reduced_ = reduced_axes(graph_, *reduction_);
            fold_ = fold_of(graph_.type(graph_.operands(*reduction_)[0]).shape, reduced_);
            return;
        }
}

/// Values over the rows, where their number of elements does not say so.
std::vector<bool> NestDomain::row_values() const {
    std::vector<bool> row(cluster_.end - cluster_.first, false);
    for (NodeId n = cluster_.first; n < cluster_.end; ++n) {
        const Node &node = graph_.node(n);
        bool is_row = reduces(graph_, node);
        const OpFamily family = info(node.op).family;
        if (family == OpFamily::Elementwise || family == OpFamily::Reduction || node.op == Op::Reshape)
            for (const ValueId v : graph_.operands(node))
                is_row = is_row || (exprs_.inside(v) && row[graph_.value(v).producer - cluster_.first] &&
                                    graph_.type(v).numel() == graph_.type(graph_.result(node)).numel());
        row[n - cluster_.first] = is_row;
    }
    return row;
}

/// Whether each element of an operand that is repeated by NumPy's rules is that of a row, or none is
/// repeated.
bool NestDomain::is_of_points_or_rows(const Shape &result, const Shape &operand) const {
    std::array<int64_t, kMaxRank> repeated{};
    size_t count = 0;
    const int skipped = result.rank() - operand.rank();
    for (int d = 0; d < result.rank(); ++d)
        if ((d < skipped ? 1 : operand[d - skipped]) != result[d])
            repeated[count++] = d;
    return count == 0 || (reduction_ && fold_of(result, {repeated.data(), count}) == fold_);
}

/// Nodes whose elements are those of the points, or of the rows, in their order. That there are as many does
/// not say so: of the points [8, n, 32] a value [8, n] that is repeated along the last axis may have as many
/// elements as there are rows.
std::vector<bool> NestDomain::nodes_of_points_or_rows() const {
    std::vector<bool> found(cluster_.end - cluster_.first, false);
    const auto add = [&](ValueId v) {
        if (exprs_.inside(v))
            found[graph_.value(v).producer - cluster_.first] = true;
    };
    for (const ValueId v : cluster_.stored)
        add(v);
    for (NodeId n = cluster_.end; n-- > cluster_.first;) {
        if (!found[n - cluster_.first])
            continue;
        const Node &node = graph_.node(n);
        const OpFamily family = info(node.op).family;
        const bool in_order = node.op == Op::Reshape || node.op == Op::Flip || node.op == Op::Broadcast ||
                              (node.op == Op::Permute && keeps_order(graph_, node));
        if (family == OpFamily::View && !in_order)
            continue; // of some of them, or in another order
        const bool repeats = node.op == Op::Broadcast || family == OpFamily::Elementwise;
        for (const ValueId v : graph_.operands(node))
            if (!repeats ||
                is_of_points_or_rows(graph_.type(graph_.result(node)).shape, graph_.type(v).shape))
                add(v);
    }
    return found;
}

void NestDomain::choose_points(bool one_axis_a_group) {
    std::vector<Shape> full, rows;
    const auto classify = [&](const Shape &shape, bool row) {
        auto &list = row ? rows : full;
        const auto is_same = [&](const Shape &other) {
            return std::ranges::equal(shape, other, {}, identity<int64_t>, identity<int64_t>);
        };
        if (std::ranges::none_of(list, is_same))
            list.push_back(shape);
    };
    const int64_t numel = reduction_ ? fold_.numel() : graph_.type(cluster_.stored.front()).numel();
    const bool ambiguous = reduction_ && fold_.rows() == numel;
    const std::vector<bool> row = ambiguous ? row_values() : std::vector<bool>();
    const std::vector<bool> counts = nodes_of_points_or_rows();
    outputs_.clear();
    for (const ValueId v : cluster_.stored) {
        const NodeId producer = graph_.value(v).producer;
        const bool is_row =
            reduction_ && (ambiguous ? row[producer - cluster_.first] : graph_.type(v).numel() != numel);
        NestOutput &o = outputs_.emplace_back();
        o.value = v;
        o.row = is_row;
        classify(graph_.type(v).shape, is_row);
    }
    for (NodeId n = cluster_.first; n < cluster_.end; ++n) {
        const Node &node = graph_.node(n);
        if (reduces(graph_, node))
            classify(graph_.type(graph_.operands(node)[0]).shape, false);
        if (node.op != Op::Reshape || !counts[n - cluster_.first])
            continue;
        for (const ValueId v : {graph_.operands(node)[0], graph_.result(node)}) {
            const Shape &shape = graph_.type(v).shape;
            if (shape.numel() == numel)
                classify(shape, ambiguous && row[n - cluster_.first]);
            else if (reduction_ && shape.numel() == fold_.rows())
                classify(shape, true);
        }
    }
    if (reduction_)
        exprs_.reset(row_domain(graph_.type(graph_.operands(*reduction_)[0]).shape, reduced_, full, rows,
                                one_axis_a_group));
    else
        exprs_.reset(loop_domain(full));
    for (NestOutput &o : outputs_) {
        o.expr = o.row ? exprs_.pull_row(o.value) : exprs_.pull_full(o.value);
        o.address = o.row ? exprs_.domain().rows : exprs_.domain().full;
    }
    choose_axes();
}

/// An update whose operand is stored elsewhere writes the slice only.
bool NestDomain::updates_in_place() const {
    const Node *node = graph_.producer(cluster_.stored.front());
    return cluster_.stored.size() == 1 && node->op == Op::UpdateSlice &&
           !exprs_.inside(graph_.operands(*node)[0]);
}

void NestDomain::choose_update(bool in_place) {
    const ValueId v = cluster_.stored.front();
    const Node &node = *graph_.producer(v);
    const AttrView attrs = graph_.attrs(node);
    const auto [x, update] = std::pair(graph_.operands(node)[0], graph_.operands(node)[1]);
    const Shape shapes[] = {graph_.type(update).shape};
    exprs_.reset(loop_domain(shapes));
    IndexMap map;
    for (int d = 0; d < shapes[0].rank(); ++d)
        map.push_back(Index::axis(d));
    map = through_slice(map, shapes[0], graph_.type(x).shape,
                        node.runtime_begin + static_cast<uint32_t>(attrs.runtime_index(attr::kUpdateStarts)),
                        attrs.ints(attr::kUpdateSteps));
    NestOutput &o = outputs_.emplace_back();
    o.value = v;
    o.expr = exprs_.pull_full(update);
    o.replaces = in_place ? x : kNone;
    o.address = linearize(map, graph_.type(x).shape, nullptr);
    choose_axes();
}

bool NestDomain::reads_what_it_replaces() const {
    if (outputs_.size() != 1 || outputs_[0].replaces == kNone)
        return false;
    return std::ranges::any_of(exprs_.exprs(), [&](const ExprNode &e) {
        return e.kind == ExprKind::Load && e.value == outputs_[0].replaces &&
               !(exprs_.addresses()[e.payload] == outputs_[0].address);
    });
}

void NestDomain::choose_replaced() {
    choose_update(false);
}

/// Both sides are one range of places that goes on at the beginning of the axis: how many they are is known
/// before the run, though where they begin is not. The axis comes first, so that its place is that of a row.
void NestDomain::choose_beside(int axis) {
    const ValueId v = cluster_.stored.front();
    const Node &node = *graph_.producer(v);
    const ValueId x = graph_.operands(node)[0];
    const Shape &whole = graph_.type(x).shape, &update = graph_.type(graph_.operands(node)[1]).shape;
    const auto start =
        node.runtime_begin + static_cast<uint32_t>(graph_.attrs(node).runtime_index(attr::kUpdateStarts));
    Domain domain;
    domain.extents.push_back(whole[axis] - update[axis]);
    for (int d = 0; d < whole.rank(); ++d)
        if (d != axis)
            domain.extents.push_back(d < axis ? update[d] : whole[d]);
    exprs_.reset(domain);
    IndexMap map;
    for (int d = 0; d < whole.rank(); ++d) {
        Index &at = map.emplace_back(Index::axis(d == axis ? 0 : d < axis ? d + 1 : d));
        if (d <= axis && update[d] != whole[d])
            at.words.push_back({start + static_cast<uint32_t>(d), 1});
        if (d == axis) {
            at.constant = update[d];
            Index beside;
            beside.terms.push_back({exprs_.remainder(at, whole[d]), 1});
            at = std::move(beside);
        }
    }
    NestOutput &o = outputs_.emplace_back();
    o.value = v;
    o.address = linearize(map, whole, &exprs_);
    o.expr = exprs_.pull_at(x, std::move(map));
    choose_axes();
}

void NestDomain::choose_axes() {
    std::vector<Index> addresses(exprs_.addresses().begin(), exprs_.addresses().end());
    for (const NestOutput &o : outputs_)
        addresses.push_back(o.address);
    if (reduction_) {
        // Rows are numbered in partial results and row buffers too.
        addresses.push_back(exprs_.domain().rows);
        addresses.push_back(exprs_.domain().full);
    }
    axes_ = collapse(exprs_.domain(), addresses, !reduction_);
    grid_.clear();
    loops_.clear();
    for (int k = 0; k < static_cast<int>(axes_.extents.size()); ++k)
        (axes_.reduced[static_cast<size_t>(k)] ? loops_ : grid_).push_back(k);
}

} // namespace lz::passes
