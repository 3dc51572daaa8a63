#include "passes/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

namespace lz::passes {

using namespace ir;

int scalar_ops(Op op) {
    return info(op).cost;
}

int fused_ops(const Graph &graph, const Node &node) {
    if (node.op == Op::Cast) {
        const DType from = graph.type(graph.operands(node)[0]).dtype,
                    to = graph.type(graph.result(node)).dtype;
        if ((is_half(from) && to == DType::F32) || (is_half(to) && from == DType::F32))
            return 0;
    }
    return scalar_ops(node.op);
}

bool is_expensive(Op op) {
    const OpFamily family = info(op).family;
    const bool moves_only = family == OpFamily::View || family == OpFamily::Update;
    return !moves_only && !is_free(op) && scalar_ops(op) > 1;
}

bool is_free(Op op) {
    switch (op) {
    case Op::Constant:
    case Op::Literal:
    case Op::Iota:
    case Op::Reshape:
    case Op::Permute:
    case Op::Broadcast:
    case Op::Slice:
    case Op::Flip:
    case Op::Window:
        return true;
    default:
        return false;
    }
}

bool joins_many(const Node &node) {
    constexpr uint32_t kFewParts = 3;
    return node.op == Op::Concat && node.operand_count > kFewParts;
}

std::optional<ArgSpec> begin_of_run(const Graph &graph, const Node &node) {
    if (node.op != Op::Slice)
        return std::nullopt;
    const AttrView attrs = graph.attrs(node);
    const Shape &from = graph.type(graph.operands(node)[0]).shape, &to = graph.type(graph.result(node)).shape;
    const auto steps = attrs.ints(attr::kSliceSteps);
    const auto strides = from.dense_strides();
    const auto starts = node.runtime_begin + static_cast<uint32_t>(attrs.runtime_index(attr::kSliceStarts));
    ArgSpec begin;
    bool one_place = true; // on the axes so far
    for (int axis = 0; axis < from.rank(); ++axis) {
        if ((!one_place && to[axis] != from[axis]) || (to[axis] > 1 && steps[static_cast<size_t>(axis)] != 1))
            return std::nullopt;
        if (to[axis] != from[axis]) // a whole axis starts at 0, whatever the word will be
            begin.terms.push_back({starts + static_cast<uint32_t>(axis), strides[static_cast<size_t>(axis)]});
        one_place = one_place && to[axis] == 1;
    }
    return begin;
}

ScatterIndex scatter_index(const Graph &graph, const Node &scatter, NodeId first) {
    const ValueId index = graph.operands(scatter)[1];
    const Shape &whole = graph.type(index).shape;
    const auto axis = static_cast<int>(graph.attrs(scatter).integer(attr::kAxis));
    const Node *producer = graph.producer(index);
    const bool repeats =
        producer && producer->op == Op::Broadcast &&
        (graph.value(index).producer >= first || !graph.producer(graph.operands(*producer)[0]));
    const ValueId from = repeats ? graph.operands(*producer)[0] : index;
    const Shape &shape = graph.type(from).shape;
    const int skipped = whole.rank() - shape.rank();
    const auto extent = [&](int d) { return d < skipped ? int64_t{1} : shape[d - skipped]; };
    // A group of dimensions is there whole, or repeated from one element, or a mixture.
    bool mixed = false;
    const auto elements = [&](int begin, int end) {
        int64_t there = 1, all = 1;
        for (int d = begin; d < end; ++d) {
            there *= extent(d);
            all *= whole[d];
        }
        mixed = mixed || (there != all && there != 1);
        return std::pair(there, all);
    };
    const auto [outer, all_outer] = elements(0, axis);
    const auto [along, all_along] = elements(axis, axis + 1);
    const auto [inner, all_inner] = elements(axis + 1, whole.rank());
    if (mixed)
        return {index, all_along * all_inner, all_inner, 1};
    return {from, outer == all_outer ? along * inner : 0, along == all_along ? inner : 0,
            inner == all_inner ? 1 : 0};
}

bool reduces(const Graph &graph, const Node &node) {
    if (info(node.op).family != OpFamily::Reduction)
        return false;
    return node.op == Op::ArgMax || node.op == Op::ArgMin || !graph.attrs(node).ints(attr::kAxes).empty();
}

bool keeps_order(const Graph &graph, const Node &permute) {
    const Shape &operand = graph.type(graph.operands(permute)[0]).shape;
    int64_t last = -1;
    for (const int64_t a : graph.attrs(permute).ints(attr::kAxes)) {
        if (operand[static_cast<int>(a)] == 1)
            continue;
        if (a < last)
            return false;
        last = a;
    }
    return true;
}

std::vector<int64_t> reduced_axes(const Graph &graph, const Node &node) {
    const AttrView attrs = graph.attrs(node);
    if (node.op == Op::ArgMax || node.op == Op::ArgMin)
        return {attrs.integer(attr::kAxis)};
    const auto axes = attrs.ints(attr::kAxes);
    return {axes.begin(), axes.end()};
}

std::string label_of(const Graph &graph, ClusterKind kind, std::span<const NodeId> nodes) {
    std::string text(name(kind));
    text += ':';
    if (kind == ClusterKind::Transfer) {
        const Node &node = graph.node(nodes.back());
        return fmt::format("{} {} to {}", text, to_string(graph.type(graph.operands(node)[0]).device),
                           to_string(graph.type(graph.result(node)).device));
    }
    int shown = 0, left = 0;
    for (const NodeId id : nodes) {
        const Op op = graph.node(id).op;
        if (is_free(op) && nodes.size() > 1)
            continue;
        if (shown == 12) {
            ++left;
            continue;
        }
        text += shown++ ? ", " : " ";
        text += name(op);
        if (op == Op::Call)
            text += fmt::format(" {}", graph.attrs(graph.node(id)).string(attr::kCallSymbol));
    }
    if (left > 0)
        text += fmt::format(", {} more", left);
    return text;
}

} // namespace lz::passes
