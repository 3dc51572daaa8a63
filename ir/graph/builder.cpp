#include "ir/graph/builder.h"

#include "ir/diagnostic.h"
#include "ir/graph/infer/infer.h"

#include <algorithm>
#include <array>

namespace lz::ir {

namespace {

uint32_t count(size_t n) {
    return static_cast<uint32_t>(n);
}

/// The word of a scalar attribute for a result of this dtype.
int64_t scalar_word_of(DType dtype, double value) {
    return is_float(dtype) ? scalar_word(value) : static_cast<int64_t>(value);
}

std::vector<int64_t> counted(std::span<const int64_t> values) {
    std::vector<int64_t> words{static_cast<int64_t>(values.size())};
    words.insert(words.end(), values.begin(), values.end());
    return words;
}

std::vector<int64_t> maker_words(DType dtype, const Shape &shape, Device device) {
    std::vector<int64_t> words{static_cast<int64_t>(dtype), shape.rank()};
    words.insert(words.end(), shape.begin(), shape.end());
    words.push_back(device_word(device));
    return words;
}

} // namespace

GraphBuilder::GraphBuilder(std::string graph_name, Graph recycled) : graph_(std::move(recycled)) {
    graph_.name = std::move(graph_name);
    graph_.params.clear();
    graph_.results.clear();
    graph_.clusters.clear();
    graph_.nodes_.clear();
    graph_.values_.clear();
    graph_.operands_.clear();
    graph_.order_.clear();
    graph_.structural_.clear();
    graph_.runtime_.clear();
}

ValueId GraphBuilder::param(const TensorType &type, std::string name) {
    const ValueId id = count(graph_.values_.size());
    graph_.values_.push_back({type, kNone, count(graph_.params.size())});
    Param p;
    p.value = id;
    p.name = std::move(name);
    graph_.params.push_back(std::move(p));
    return id;
}

void GraphBuilder::adopt(const Graph &from) {
    if (!words_of_ && graph_.runtime_.empty()) {
        words_of_ = &from;
        graph_.runtime_ = from.runtime_;
        // A new version of a graph is about as large.
        const auto about = [](size_t size) { return size + size / 4; };
        graph_.nodes_.reserve(about(from.nodes_.size()));
        graph_.values_.reserve(about(from.values_.size()));
        graph_.operands_.reserve(about(from.operands_.size()));
        graph_.structural_.reserve(about(from.structural_.size()));
    }
}

ValueId GraphBuilder::clone_param(const Graph &from, const Param &param) {
    adopt(from);
    const ValueId id = count(graph_.values_.size());
    graph_.values_.push_back({from.type(param.value), kNone, count(graph_.params.size())});
    graph_.params.push_back(param);
    graph_.params.back().value = id;
    return id;
}

ValueId GraphBuilder::add(Op op, std::span<const ValueId> operands, std::span<const int64_t> structural,
                          std::span<const int64_t> runtime, const Location &loc) {
    Graph &g = graph_;
    const AttrView attrs{op, structural, runtime};
    if (const std::string error = attrs_error(attrs); !error.empty())
        internal_failure(__FILE__, __LINE__, std::string(name(op)) + ": " + error);
    const auto results = static_cast<size_t>(num_results(attrs));
    const size_t first = g.values_.size();
    for (ValueId v : operands)
        LZ_CHECK(v < first,
                 std::string(name(op)) + " uses value " + std::to_string(v) + " of " + std::to_string(first));
    types_.clear();
    for (ValueId v : operands)
        types_.push_back(&g.values_[v].type);
    std::array<TensorType, 2> few;
    std::vector<TensorType> many(results > few.size() ? results : 0);
    const std::span<TensorType> types =
        results > few.size() ? std::span<TensorType>(many) : std::span<TensorType>(few).first(results);
    try {
        infer_types(attrs, types_, types);
    } catch (const Failure &f) {
        throw Failure(f.kind(), f.message(), loc);
    }

    return append(attrs, operands, types, loc);
}

ValueId GraphBuilder::append(const AttrView &attrs, std::span<const ValueId> operands,
                             std::span<const TensorType> types, const Location &loc) {
    Graph &g = graph_;
    const size_t first = g.values_.size();
    Node n{};
    n.op = attrs.op;
    n.loc = loc;
    n.operand_begin = count(g.operands_.size());
    n.operand_count = count(operands.size());
    n.structural_begin = count(g.structural_.size());
    n.structural_count = count(attrs.structural.size());
    n.runtime_begin = count(g.runtime_.size());
    n.runtime_count = count(attrs.runtime.size());
    n.order_begin = count(g.order_.size());
    n.result_count = count(types.size());
    n.first_result = types.empty() ? kNone : count(first);
    const NodeId id = count(g.nodes_.size());
    g.operands_.insert(g.operands_.end(), operands.begin(), operands.end());
    g.structural_.insert(g.structural_.end(), attrs.structural.begin(), attrs.structural.end());
    g.runtime_.insert(g.runtime_.end(), attrs.runtime.begin(), attrs.runtime.end());
    g.nodes_.push_back(n);
    for (size_t k = 0; k < types.size(); ++k)
        g.values_.push_back({types[k], id, count(k)});
    return n.first_result;
}

ValueId GraphBuilder::clone_node(const Graph &from, const Node &node, std::span<const ValueId> operands) {
    adopt(from);
    if (!same_operand_types(from, node, operands))
        return clone(from, node, operands, from.attrs(node).structural);
    AttrView attrs = from.attrs(node);
    const bool words_are_here = words_of_ == &from;
    if (words_are_here)
        attrs.runtime = {};
    std::array<TensorType, 2> few;
    std::vector<TensorType> many(node.result_count > few.size() ? node.result_count : 0);
    const std::span<TensorType> types =
        many.empty() ? std::span(few).first(node.result_count) : std::span(many);
    for (uint32_t k = 0; k < node.result_count; ++k)
        types[k] = from.type(node.first_result + k);
    const ValueId result = append(attrs, operands, types, node.loc);
    Node &added = graph_.nodes_.back();
    if (words_are_here) {
        added.runtime_begin = node.runtime_begin;
        added.runtime_count = node.runtime_count;
    }
    take_notes(node);
    return result;
}

/// Operands of the types that the node has in `from`: its results have theirs.
bool GraphBuilder::same_operand_types(const Graph &from, const Node &node,
                                      std::span<const ValueId> operands) const {
    const std::span<const ValueId> originals = from.operands(node);
    const auto same = [&](ValueId a, ValueId b) {
        return a < graph_.values_.size() && graph_.values_[a].type == from.type(b);
    };
    return std::ranges::equal(operands, originals, same);
}

/// What a copy of a node keeps beside its operands and attributes.
void GraphBuilder::take_notes(const Node &node) {
    set_stream(node.stream);
    set_cause(node.cause);
    set_recorded(node.recorded);
}

ValueId GraphBuilder::clone_maker(const Graph &from, const Node &maker, Device device) {
    LZ_CHECK(info(maker.op).family == OpFamily::Maker, std::string(name(maker.op)) + " is no maker");
    const AttrView attrs = from.attrs(maker);
    std::vector<int64_t> words(attrs.structural.begin(), attrs.structural.end());
    // The device stands after the shape, which stands after the dtype where there is one.
    const size_t shape = maker.op == Op::Philox ? 0 : 1;
    words[shape + 1 + static_cast<size_t>(words[shape])] = device_word(device);
    return clone(from, maker, {}, words);
}

ValueId GraphBuilder::clone(const Graph &from, const Node &node, std::span<const ValueId> operands,
                            std::span<const int64_t> structural) {
    adopt(from);
    const ValueId result = add(node.op, operands, structural, from.attrs(node).runtime, node.loc);
    take_notes(node);
    if (words_of_ == &from) {
        // The words are here already: drop the copy that `add` made.
        Node &added = graph_.nodes_.back();
        graph_.runtime_.resize(added.runtime_begin);
        added.runtime_begin = node.runtime_begin;
    }
    return result;
}

void GraphBuilder::set_words(uint32_t begin) {
    Node &last = graph_.nodes_.back();
    LZ_CHECK(size_t{begin} + last.runtime_count <= last.runtime_begin,
             "node " + std::to_string(last_node()) + " has words that the graph has not");
    graph_.runtime_.resize(last.runtime_begin);
    last.runtime_begin = begin;
}

void GraphBuilder::add_order(std::span<const NodeId> before) {
    Node &last = graph_.nodes_.back();
    for (NodeId id : before)
        LZ_CHECK(id < last_node(),
                 "node " + std::to_string(last_node()) + " cannot come after node " + std::to_string(id));
    graph_.order_.insert(graph_.order_.end(), before.begin(), before.end());
    last.order_count += count(before.size());
}

ValueId GraphBuilder::cast(ValueId a, DType dtype, const Location &loc) {
    return graph_.type(a).dtype == dtype ? a : add(Op::Cast, {a}, {static_cast<int64_t>(dtype)}, {}, loc);
}

ValueId GraphBuilder::constant(DType dtype, double value, const Shape &shape, Device device,
                               const Location &loc) {
    const std::vector<int64_t> words = maker_words(dtype, shape, device);
    const int64_t word = scalar_word_of(dtype, value);
    return add(Op::Constant, std::span<const ValueId>(), words, std::span(&word, 1), loc);
}

ValueId GraphBuilder::literal(DType dtype, double value, const Shape &shape, Device device,
                              const Location &loc) {
    std::vector<int64_t> words = maker_words(dtype, shape, device);
    words.push_back(scalar_word_of(dtype, value));
    return add(Op::Literal, std::span<const ValueId>(), words, {}, loc);
}

ValueId GraphBuilder::iota(DType dtype, const Shape &shape, int64_t axis, double start, double step,
                           Device device, const Location &loc) {
    std::vector<int64_t> words = maker_words(dtype, shape, device);
    words.push_back(axis);
    const std::array<int64_t, 2> runtime{scalar_word_of(dtype, start), scalar_word_of(dtype, step)};
    return add(Op::Iota, std::span<const ValueId>(), words, runtime, loc);
}

ValueId GraphBuilder::transfer(ValueId a, Device to, const Location &loc) {
    return graph_.type(a).device == to ? a : add(Op::Transfer, {a}, {device_word(to)}, {}, loc);
}

ValueId GraphBuilder::reshape(ValueId a, const Shape &shape, const Location &loc) {
    return add(Op::Reshape, std::span(&a, 1), counted(shape.extents()), {}, loc);
}

ValueId GraphBuilder::permute(ValueId a, std::span<const int64_t> axes, const Location &loc) {
    return add(Op::Permute, std::span(&a, 1), counted(axes), {}, loc);
}

ValueId GraphBuilder::broadcast(ValueId a, const Shape &shape, const Location &loc) {
    return add(Op::Broadcast, std::span(&a, 1), counted(shape.extents()), {}, loc);
}

ValueId GraphBuilder::slice(ValueId a, std::span<const int64_t> starts, std::span<const int64_t> sizes,
                            std::span<const int64_t> steps, const Location &loc) {
    std::vector<int64_t> words{static_cast<int64_t>(starts.size())};
    for (const auto &list : {counted(sizes), counted(steps)})
        words.insert(words.end(), list.begin(), list.end());
    return add(Op::Slice, std::span(&a, 1), words, starts, loc);
}

ValueId GraphBuilder::reduce(Op op, ValueId a, std::span<const int64_t> axes, const Location &loc) {
    return add(op, std::span(&a, 1), counted(axes), {}, loc);
}

ValueId GraphBuilder::matmul(ValueId a, ValueId b, const Location &loc) {
    return add(Op::Dot, {a, b}, {0, 0, 1, 1, 1, 0, static_cast<int64_t>(graph_.type(a).dtype)}, {}, loc);
}

} // namespace lz::ir
