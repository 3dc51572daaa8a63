#include "passes/lower/joins/tests.h"

#include "passes/lower/joins/points.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

/// A join of more parts is no border of something: pieces.h.
constexpr uint32_t kMostParts = 8;

} // namespace

struct FindTests::Walk {
    const Box &box;
    BoxTests tests;
    std::set<std::pair<ValueId, Dims>> seen;

    void cut(int axis, int64_t at) {
        const auto a = static_cast<size_t>(axis);
        if (at > box.begin[a] && at < box.end[a])
            tests.cuts[a].push_back(at);
    }
};

FindTests::FindTests(const ClusterView &cluster) : cluster_(cluster), graph_(*cluster.graph) {
    find_shape();
}

bool FindTests::inside(ValueId v) const {
    const NodeId p = graph_.value(v).producer;
    return p >= cluster_.first && p < cluster_.end;
}

void FindTests::find_shape() {
    std::vector<ValueId> full;
    const auto look = [&](ValueId v, const Node &node) {
        full.push_back(v);
        if (node.op == Op::Concat && node.operand_count > kMostParts)
            return false;
        if (node.op == Op::Concat || node.op == Op::Pad) {
            pads_ = pads_ || node.op == Op::Pad;
            if (!shape_)
                shape_ = graph_.type(v).shape;
        }
        return true;
    };
    if (!visit_points(cluster_, look))
        shape_.reset();
    if (shape_)
        for (const ValueId v : full)
            if (graph_.type(v).shape == *shape_)
                roots_.push_back(v);
}

BoxTests FindTests::in(const Box &box) const {
    Walk walk{box, {}, {}};
    walk.tests.cuts.resize(box.begin.size());
    Dims dims;
    for (int d = 0; d < shape_->rank(); ++d)
        dims.push_back({d, 0});
    for (const ValueId v : roots_)
        visit(v, dims, walk);
    for (std::vector<int64_t> &cuts : walk.tests.cuts) {
        std::ranges::sort(cuts);
        const auto twice = std::ranges::unique(cuts);
        cuts.erase(twice.begin(), twice.end());
    }
    return std::move(walk.tests);
}

/// Dimensions of an operand that NumPy's rules repeat.
FindTests::Dims FindTests::repeated(const Node &node, ValueId operand, const Dims &dims) const {
    const Shape &from = graph_.type(operand).shape, &to = graph_.type(graph_.result(node)).shape;
    Dims out;
    const int skipped = to.rank() - from.rank();
    for (int d = 0; d < from.rank(); ++d)
        out.push_back(from[d] == to[d + skipped] ? dims[static_cast<size_t>(d + skipped)] : Dim{});
    return out;
}

void FindTests::visit(ValueId v, Dims dims, Walk &walk) const {
    if (!inside(v) || !walk.seen.emplace(v, dims).second)
        return;
    const Node &node = *graph_.producer(v);
    const AttrView attrs = graph_.attrs(node);
    const auto operands = graph_.operands(node);
    switch (node.op) {
    case Op::Pad:
        return visit_pad(node, std::move(dims), walk);
    case Op::Concat:
        return visit_concat(node, dims, walk);
    case Op::Broadcast:
        return visit(operands[0], repeated(node, operands[0], dims), walk);
    case Op::Permute: {
        const auto axes = attrs.ints(attr::kAxes);
        Dims inner(dims.size());
        for (size_t i = 0; i < dims.size(); ++i)
            inner[static_cast<size_t>(axes[i])] = dims[i];
        return visit(operands[0], std::move(inner), walk);
    }
    case Op::Slice: {
        const Shape &from = graph_.type(operands[0]).shape, &to = graph_.type(v).shape;
        for (size_t d = 0; d < dims.size(); ++d) // where the others begin is not known before the run
            if (from[static_cast<int>(d)] != to[static_cast<int>(d)])
                dims[d] = {};
        return visit(operands[0], std::move(dims), walk);
    }
    case Op::Flip:
        for (const int64_t axis : attrs.ints(attr::kAxes))
            dims[static_cast<size_t>(axis)] = {};
        return visit(operands[0], std::move(dims), walk);
    case Op::Window:
        dims.pop_back();
        dims[static_cast<size_t>(attrs.integer(attr::kAxis))] = {};
        return visit(operands[0], std::move(dims), walk);
    default:
        if (info(node.op).family == OpFamily::Elementwise)
            for (const ValueId x : operands)
                visit(x, repeated(node, x, dims), walk);
    }
}

void FindTests::visit_pad(const Node &node, Dims dims, Walk &walk) const {
    const AttrView attrs = graph_.attrs(node);
    const ValueId x = graph_.operands(node)[0];
    const auto low = attrs.ints(attr::kPadLow), high = attrs.ints(attr::kPadHigh);
    const auto axis = [&](size_t d) { return static_cast<size_t>(dims[d].axis); };
    const auto end = [&](size_t d) { return dims[d].offset + graph_.type(x).shape[static_cast<int>(d)]; };
    for (size_t d = 0; d < dims.size(); ++d)
        dims[d].offset += dims[d].axis < 0 ? 0 : low[d];
    for (size_t d = 0; d < dims.size(); ++d)
        if (dims[d].axis >= 0 &&
            (walk.box.end[axis(d)] <= dims[d].offset || walk.box.begin[axis(d)] >= end(d))) {
            walk.tests.outside.push_back(graph_.value(graph_.result(node)).producer);
            return;
        }
    for (size_t d = 0; d < dims.size(); ++d) {
        if (low[d] == 0 && high[d] == 0)
            continue;
        if (dims[d].axis < 0) {
            ++walk.tests.count;
            continue;
        }
        if (walk.box.begin[axis(d)] < dims[d].offset || walk.box.end[axis(d)] > end(d))
            ++walk.tests.count;
        walk.cut(dims[d].axis, dims[d].offset);
        walk.cut(dims[d].axis, end(d));
    }
    visit(x, std::move(dims), walk);
}

void FindTests::visit_concat(const Node &node, const Dims &dims, Walk &walk) const {
    const auto along = static_cast<size_t>(graph_.attrs(node).integer(attr::kAxis));
    int64_t begin = dims[along].offset, met = 0;
    for (const ValueId x : graph_.operands(node)) {
        const int64_t end = begin + graph_.type(x).shape[static_cast<int>(along)];
        Dims inner = dims;
        if (dims[along].axis >= 0) {
            const auto axis = static_cast<size_t>(dims[along].axis);
            inner[along].offset = begin;
            if (walk.box.end[axis] <= begin || walk.box.begin[axis] >= end) {
                begin = end;
                continue;
            }
            walk.cut(dims[along].axis, begin);
            walk.cut(dims[along].axis, end);
        }
        ++met;
        begin = end;
        visit(x, std::move(inner), walk);
    }
    walk.tests.count += std::max<int64_t>(met - 1, 0);
}

} // namespace lz::passes
