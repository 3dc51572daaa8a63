#include "passes/fuse/products.h"

#include "ir/graph/builder.h"
#include "passes/lower/products/dot.h"
#include "passes/simplify/rewrite.h"

#include <algorithm>
#include <numeric>

namespace lz::passes {

using namespace ir;

namespace {

bool strided(const Graph &graph, const Node &dot, int which) {
    return dot_operand(graph, dot, which, [](ValueId) { return false; }).has_value();
}

void append(std::vector<int64_t> &words, std::span<const int64_t> list) {
    words.push_back(static_cast<int64_t>(list.size()));
    words.insert(words.end(), list.begin(), list.end());
}

/// The dot again, with operands in canonical order where they are not strided.
void rewrite(const Graph &graph, Rewriter &rewriter, NodeId id) {
    const Node &dot = graph.node(id);
    const AttrView attrs = graph.attrs(dot);
    GraphBuilder &b = rewriter.builder();
    // As in dot_dims: contracted dimensions in the order of lhs.
    const auto lc = attrs.ints(attr::kDotLhsContract);
    std::vector<size_t> order(lc.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t x, size_t y) { return lc[x] < lc[y]; });

    std::vector<ValueId> operands;
    std::vector<std::vector<int64_t>> batch(2), contract(2);
    for (int i = 0; i < 2; ++i) {
        const auto side = static_cast<size_t>(i);
        const auto old_batch = attrs.ints(i == 0 ? attr::kDotLhsBatch : attr::kDotRhsBatch);
        const auto old_contract = attrs.ints(i == 0 ? attr::kDotLhsContract : attr::kDotRhsContract);
        const ValueId v = graph.operands(dot)[side];
        ValueId now = rewriter.value(v);
        batch[side].assign(old_batch.begin(), old_batch.end());
        for (const size_t k : order)
            contract[side].push_back(old_contract[k]);
        if (!strided(graph, dot, i)) {
            const int rank = graph.type(v).shape.rank();
            std::vector<int64_t> axes = batch[side];
            for (int64_t d = 0; d < rank; ++d)
                if (std::find(old_batch.begin(), old_batch.end(), d) == old_batch.end() &&
                    std::find(old_contract.begin(), old_contract.end(), d) == old_contract.end())
                    axes.push_back(d);
            axes.insert(axes.end(), contract[side].begin(), contract[side].end());
            now = b.permute(now, axes, dot.loc);
            b.set_stream(dot.stream);
            std::iota(batch[side].begin(), batch[side].end(), int64_t{0});
            std::iota(contract[side].begin(), contract[side].end(),
                      rank - static_cast<int64_t>(contract[side].size()));
        }
        operands.push_back(now);
    }
    std::vector<int64_t> words;
    append(words, batch[0]);
    append(words, batch[1]);
    append(words, contract[0]);
    append(words, contract[1]);
    words.push_back(attrs.integer(attr::kDotDType));
    b.add(Op::Dot, operands, words, {}, dot.loc);
    b.set_stream(dot.stream);
    b.set_recorded(dot.recorded);
    rewriter.kept(id);
}

/// One side has one row, or column, for each batch.
bool is_vector_product(const DotDims &dims) {
    return dims.depth() > 0 && (dims.rows() == 1 || dims.columns() == 1);
}

/// The product of a matrix and a vector as sums over [batch.., free.., contracted..] of products, whichever
/// side the vector is on: the order of the sum, and so the bits, are those of the sizes whatever lies where.
void sum_products(const Graph &graph, Rewriter &rewriter, NodeId id) {
    const Node &dot = graph.node(id);
    const AttrView attrs = graph.attrs(dot);
    const DotDims dims = dot_dims(graph, dot);
    const TensorType &type = graph.type(graph.result(dot));
    const int matrix = dims.columns() == 1 ? 0 : 1; // the other one is the vector
    GraphBuilder &b = rewriter.builder();
    const auto made = [&](ValueId v) {
        rewriter.part_of(id);
        return v;
    };
    const auto cast = [&](ValueId v, DType to) {
        return b.graph().type(v).dtype == to ? v : made(b.cast(v, to, dot.loc));
    };
    const auto lc = attrs.ints(attr::kDotLhsContract);
    std::vector<size_t> order(lc.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t k) { return lc[k]; }); // as in dot_dims

    const DType computed = product_accumulation(graph.type(graph.operands(dot)[0]).dtype, type.dtype);
    std::vector<int64_t> extents = dims.batch;
    const std::vector<int64_t> &own = matrix == 0 ? dims.m : dims.n;
    extents.insert(extents.end(), own.begin(), own.end());
    const size_t k_begin = extents.size();
    extents.insert(extents.end(), dims.k.begin(), dims.k.end());
    const auto canonical = [&](int side) {
        const auto batch = attrs.ints(side == 0 ? attr::kDotLhsBatch : attr::kDotRhsBatch);
        const auto contract = attrs.ints(side == 0 ? attr::kDotLhsContract : attr::kDotRhsContract);
        const ValueId v = graph.operands(dot)[static_cast<size_t>(side)];
        std::vector<int64_t> axes(batch.begin(), batch.end());
        const auto has = [](std::span<const int64_t> list, int64_t d) {
            return std::ranges::find(list, d) != list.end();
        };
        for (int64_t d = 0; d < graph.type(v).shape.rank(); ++d)
            if (!has(batch, d) && !has(contract, d))
                axes.push_back(d);
        for (const size_t k : order)
            axes.push_back(contract[k]);
        const ValueId now = made(b.permute(cast(rewriter.value(v), computed), axes, dot.loc));
        if (side == matrix)
            return now;
        std::vector<int64_t> one = extents;
        std::fill(one.begin() + static_cast<long>(dims.batch.size()),
                  one.begin() + static_cast<long>(k_begin), 1);
        return made(b.broadcast(made(b.reshape(now, Shape(one), dot.loc)), Shape(extents), dot.loc));
    };
    const ValueId lhs = canonical(0), rhs = canonical(1);
    std::vector<int64_t> axes(dims.k.size());
    std::iota(axes.begin(), axes.end(), static_cast<int64_t>(k_begin));
    ValueId sum = made(b.reduce(Op::ReduceSum, made(b.binary(Op::Mul, lhs, rhs, dot.loc)), axes, dot.loc));
    b.set_recorded(dot.recorded);
    rewriter.replace(graph.result(dot), cast(made(b.reshape(sum, type.shape, dot.loc)), type.dtype));
}

} // namespace

std::optional<Graph> prepare_products(const Graph &graph, const Target &target) {
    enum class Way : uint8_t { Keep, Permute, Sum };
    std::vector<Way> ways(graph.nodes().size(), Way::Keep);
    bool any = false;
    for (NodeId n = 0; n < graph.nodes().size(); ++n) {
        const Node &node = graph.node(n);
        if (node.op != Op::Dot)
            continue;
        const TensorType &type = graph.type(graph.result(node));
        // A sum of products has another order than a product.
        const bool in_order = target.modes.reproducible && is_float(type.dtype);
        if (is_vector_product(dot_dims(graph, node)) && type.numel() > 0 && type.dtype != DType::Bool &&
            !in_order && !library_multiplies(graph, node, target, type.device))
            ways[n] = Way::Sum;
        else if (!strided(graph, node, 0) || !strided(graph, node, 1))
            ways[n] = Way::Permute;
        any = any || ways[n] != Way::Keep;
    }
    if (!any)
        return std::nullopt;
    Rewriter rewriter(graph);
    for (NodeId n = 0; n < graph.nodes().size(); ++n) {
        if (ways[n] == Way::Sum)
            sum_products(graph, rewriter, n);
        else if (ways[n] == Way::Permute)
            rewrite(graph, rewriter, n);
        else
            rewriter.keep(n);
    }
    return rewriter.finish();
}

} // namespace lz::passes
