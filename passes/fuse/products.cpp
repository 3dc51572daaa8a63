#include "passes/fuse/products.h"

#include "ir/graph/builder.h"
#include "passes/lower/products/dot.h"
#include "passes/operations.h"
#include "passes/simplify/rewrite.h"

#include <algorithm>
#include <numeric>

namespace lz::passes {

using namespace ir;

namespace {

/// Whether the operand is read as it is where it is in memory.
bool fits(const Graph &graph, const Node &dot, int which, bool gathers) {
    return dot_operand(graph, dot, which, gathers, [](ValueId) { return false; }).has_value();
}

/// Whether the operand has to be written to memory of its own, where it would be a strided matrix.
bool is_copied(const Graph &graph, const Node &dot, int which, bool gathers) {
    const auto is_view = [&](ValueId v) {
        const Node *const made = graph.producer(v);
        return made && is_free(made->op);
    };
    return is_view(graph.operands(dot)[static_cast<size_t>(which)]) &&
           !dot_operand(graph, dot, which, gathers, is_view);
}

void append(std::vector<int64_t> &words, std::span<const int64_t> list) {
    words.push_back(static_cast<int64_t>(list.size()));
    words.insert(words.end(), list.begin(), list.end());
}

/// An operand of a product in another order of its dimensions: [batch.., free.., contracted..], or [batch..,
/// contracted.., free..] where that is copied in longer runs of what is in memory.
class Reordered {
public:
    Reordered(const Graph &graph, ValueId operand, std::span<const int64_t> batch,
              std::span<const int64_t> contracted)
        : graph_(graph), operand_(operand), whole_(operand) {
        const Shape &shape = graph.type(operand).shape;
        std::vector<int64_t> free;
        for (int64_t d = 0; d < shape.rank(); ++d)
            if (std::ranges::find(batch, d) == batch.end() &&
                std::ranges::find(contracted, d) == contracted.end())
                free.push_back(d);
        find_parts();
        const std::vector<int64_t> free_first = joined(batch, free, contracted),
                                   free_last = joined(batch, contracted, free);
        contracted_first_ = run(free_last) > run(free_first);
        axes_ = contracted_first_ ? free_last : free_first;
        contracted_begin_ = static_cast<int64_t>(batch.size() + (contracted_first_ ? 0 : free.size()));
    }

    /// Whether the copy is made in longer runs than in the order that the operand has.
    bool is_better() const {
        std::vector<int64_t> own(static_cast<size_t>(graph_.type(operand_).shape.rank()));
        std::iota(own.begin(), own.end(), 0);
        return run(axes_) > run(own);
    }

    /// The first of the contracted dimensions.
    int64_t contracted_begin() const { return contracted_begin_; }

    ValueId make(Rewriter &rewriter, const Node &dot) const {
        GraphBuilder &b = rewriter.builder();
        const ValueId moved = b.permute(rewriter.value(whole_), parts_of(axes_), dot.loc);
        b.set_stream(dot.stream);
        if (whole_ == operand_)
            return moved;
        Shape shape;
        for (const int64_t d : axes_)
            shape.push_back(graph_.type(operand_).shape[static_cast<int>(d)]);
        const ValueId made = b.reshape(moved, shape, dot.loc);
        b.set_stream(dot.stream);
        return made;
    }

private:
    static std::vector<int64_t> joined(std::span<const int64_t> a, std::span<const int64_t> b,
                                       std::span<const int64_t> c) {
        std::vector<int64_t> all(a.begin(), a.end());
        all.insert(all.end(), b.begin(), b.end());
        all.insert(all.end(), c.begin(), c.end());
        return all;
    }

    /// Where the operand is a value whose neighbouring dimensions became one, those of that value are moved:
    /// what lies side by side in memory is seen there.
    void find_parts() {
        const Shape &shape = graph_.type(operand_).shape;
        begins_.resize(static_cast<size_t>(shape.rank()) + 1);
        std::iota(begins_.begin(), begins_.end(), 0);
        const Node *const made = graph_.producer(operand_);
        if (!made || made->op != Op::Reshape || shape.numel() == 0)
            return;
        const Shape &parts = graph_.type(graph_.operands(*made)[0]).shape;
        std::vector<int> begins = {0};
        for (int d = 0, p = 0; d < shape.rank(); ++d) {
            int64_t extent = 1;
            while (p < parts.rank() && (extent < shape[d] || (d + 1 == shape.rank() && parts[p] == 1)))
                extent *= parts[p++];
            if (extent != shape[d])
                return;
            begins.push_back(p);
        }
        if (begins.back() != parts.rank())
            return;
        begins_ = std::move(begins);
        whole_ = graph_.operands(*made)[0];
    }

    std::vector<int64_t> parts_of(std::span<const int64_t> axes) const {
        std::vector<int64_t> parts;
        for (const int64_t d : axes)
            for (int p = begins_[static_cast<size_t>(d)]; p < begins_[static_cast<size_t>(d) + 1]; ++p)
                parts.push_back(p);
        return parts;
    }

    /// Neighbours in memory that are neighbours in this order.
    int64_t run(std::span<const int64_t> axes) const {
        const auto strides = strides_through_views(graph_, whole_);
        if (!strides)
            return 0;
        const Shape &shape = graph_.type(whole_).shape;
        const std::vector<int64_t> parts = parts_of(axes);
        int64_t length = 1;
        for (size_t i = parts.size(); i-- > 0;) {
            const int64_t extent = shape[static_cast<int>(parts[i])];
            if (extent != 1 && (*strides)[static_cast<size_t>(parts[i])] != length)
                break;
            length *= extent;
        }
        return length;
    }

    const Graph &graph_;
    ValueId operand_, whole_;
    std::vector<int> begins_; ///< by dimension of the operand: its first one in `whole_`, and the end
    std::vector<int64_t> axes_;
    bool contracted_first_ = false;
    int64_t contracted_begin_ = 0;
};

/// The dot again, with operands that are not strided in an order in which they are copied.
void rewrite(const Graph &graph, const Target &target, Rewriter &rewriter, NodeId id) {
    const Node &dot = graph.node(id);
    const AttrView attrs = graph.attrs(dot);
    const bool gathers = gathers_operands(graph, dot, target);
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
        const bool stays = fits(graph, dot, i, gathers);
        if (!stays || is_copied(graph, dot, i, gathers)) {
            const Reordered reordered(graph, v, old_batch, contract[side]);
            if (!stays || reordered.is_better()) {
                now = reordered.make(rewriter, dot);
                std::iota(batch[side].begin(), batch[side].end(), int64_t{0});
                std::iota(contract[side].begin(), contract[side].end(), reordered.contracted_begin());
            }
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
        else if (const bool gathers = gathers_operands(graph, node, target);
                 !fits(graph, node, 0, gathers) || !fits(graph, node, 1, gathers) ||
                 is_copied(graph, node, 0, gathers) || is_copied(graph, node, 1, gathers))
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
            rewrite(graph, target, rewriter, n);
        else
            rewriter.keep(n);
    }
    return rewriter.finish();
}

} // namespace lz::passes
