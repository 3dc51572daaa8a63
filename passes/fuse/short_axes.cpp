#include "passes/fuse/short_axes.h"

#include "ir/graph/checks.h"
#include "ir/graph/uses.h"
#include "passes/lower/domain.h"
#include "passes/lower/products/dot.h"
#include "passes/operations.h"
#include "passes/simplify/eliminate_dead.h"
#include "passes/simplify/rewrite.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace lz::passes {

using namespace ir;

namespace {

/// What a value is made of has at most this part of its elements.
constexpr int64_t kMuchSmaller = 8;
/// Nodes that are looked at behind one reduction, and scalar operations that it may become: a kernel holds
/// several such reductions (Target::max_scalar_ops).
constexpr size_t kMostNodes = 48;
constexpr int kMostOps = 160;
/// Rows from which on a kernel has work for its lanes when each element of the short axis is a reduction by
/// itself.
constexpr int64_t kLeastRows = 16;

/// Elements of a row of which one is picked down columns, rows from which on that is worth it, and terms of
/// the product whose rows they are: of deeper ones the product itself is what takes time, and its blocks are
/// chosen for the order that it has.
constexpr int64_t kMostPicked = 64, kLeastPicks = 1024, kMostTerms = 64;

bool folds_elements(Op op) {
    return op == Op::ReduceSum || op == Op::ReduceProd || op == Op::ReduceMax || op == Op::ReduceMin;
}

/// The operation between two elements of a reduction.
Op between(Op reduction) {
    switch (reduction) {
    case Op::ReduceSum:
        return Op::Add;
    case Op::ReduceProd:
        return Op::Mul;
    case Op::ReduceMax:
        return Op::Maximum;
    default:
        return Op::Minimum;
    }
}

bool is_short(int64_t extent) {
    return extent >= 2 && extent <= kMostUnrolled;
}

/// The axis of a reduction over one of a few elements, or -1.
int short_axis(const Graph &graph, const Node &node) {
    if (!folds_elements(node.op))
        return -1;
    const auto axes = graph.attrs(node).ints(attr::kAxes);
    return axes.size() == 1 && is_short(graph.type(graph.operands(node)[0]).shape[static_cast<int>(axes[0])])
               ? static_cast<int>(axes[0])
               : -1;
}

/// Whether it reduces one axis and keeps the last one, of a few elements.
bool keeps_short_axis(const Graph &graph, const Node &node) {
    if (!folds_elements(node.op))
        return false;
    const auto axes = graph.attrs(node).ints(attr::kAxes);
    const Shape &shape = graph.type(graph.operands(node)[0]).shape;
    const int last = shape.rank() - 1;
    return axes.size() == 1 && last > axes[0] && is_short(shape[last]) &&
           shape[static_cast<int>(axes[0])] > 1 &&
           shape.numel() >= kLeastRows * shape[last] * shape[static_cast<int>(axes[0])];
}

/// Whether it picks an element of each of many short rows.
bool picks_of_rows(const Graph &graph, const Node &node) {
    if (node.op != Op::ArgMax && node.op != Op::ArgMin)
        return false;
    const Shape &shape = graph.type(graph.operands(node)[0]).shape;
    return shape.rank() == 2 && graph.attrs(node).integer(attr::kAxis) == 1 && shape[1] >= 2 &&
           shape[1] <= kMostPicked && shape[0] >= kLeastPicks;
}

/// Which elements of a value a piece of it has: for each dimension the one of the piece that it becomes, kOne
/// where it has one element, or at(k): there the piece has element k alone.
using Place = std::vector<int>;
constexpr int kOne = -1;
constexpr int at(int64_t k) {
    return static_cast<int>(-2 - k);
}

class ShortAxes {
public:
    ShortAxes(const Graph &graph, const Target &target)
        : graph_(graph), target_of_steps_(target), uses_(graph), rewriter_(graph),
          dear_(graph.values().size(), false) {}

    std::optional<Graph> run() {
        std::vector<NodeId> found;
        for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
            note_dear(graph_.node(n));
            if (is_written_out(graph_.node(n)) || picks_of_product(graph_.node(n)))
                found.push_back(n);
        }
        if (found.empty())
            return std::nullopt;
        for (NodeId n = 0; n < graph_.nodes().size(); ++n)
            if (std::ranges::binary_search(found, n))
                write_out(n);
            else
                rewriter_.keep(n);
        return eliminate_dead(rewriter_.finish());
    }

private:
    const Shape &shape_of(ValueId v) const { return graph_.type(v).shape; }

    // --- what is written out

    int short_axis(const Node &node) const { return passes::short_axis(graph_, node); }

    /// One node reads it, however often, and nobody holds it.
    bool has_one_reader(ValueId v) const {
        const auto users = uses_.users(v);
        return uses_.results(v) == 0 && !users.empty() && users.front() == users.back();
    }

    /// Something that should be computed once is among what it is made of and no other value needs.
    void note_dear(const Node &node) {
        if (node.result_count != 1)
            return;
        bool dear = is_expensive(node.op);
        for (const ValueId v : graph_.operands(node))
            dear = dear || (dear_[v] && has_one_reader(v));
        dear_[graph_.result(node)] = dear;
    }

    /// Only extents of 1 come or go.
    bool keeps_dimensions(const Node &reshape) const {
        const auto large = [](const Shape &shape) {
            std::vector<int64_t> extents;
            std::ranges::copy_if(shape, std::back_inserter(extents), [](int64_t e) { return e != 1; });
            return extents;
        };
        return large(shape_of(graph_.operands(reshape)[0])) == large(shape_of(graph_.result(reshape)));
    }

    /// Whether pieces of the value are made of pieces of its operands: it is cheap, or nobody else needs it.
    bool looks_through(ValueId v, const Node &root) const {
        const Node *const node = graph_.producer(v);
        if (!node || uses_.results(v) > 0 || node->result_count != 1 || node->order_count > 0 ||
            node->stream != root.stream || (dear_[v] && !has_one_reader(v)))
            return false;
        switch (info(node->op).family) {
        case OpFamily::Elementwise:
            return !has_checks(node->op, graph_.type(v).dtype);
        case OpFamily::View:
            return node->op == Op::Broadcast || node->op == Op::Permute ||
                   (node->op == Op::Reshape && keeps_dimensions(*node));
        default:
            return short_axis(*node) >= 0;
        }
    }

    /// Whether the reduction is one that is written out.
    bool is_written_out(const Node &root) const {
        const bool reduces_few = short_axis(root) >= 0;
        if (!reduces_few && !keeps_short_axis(graph_, root))
            return false;
        const ValueId whole = graph_.operands(root)[0];
        const Shape &shape = shape_of(whole);
        const int64_t times =
            shape[reduces_few ? short_axis(root) : shape.rank() - 1]; // that the value is written out
        if (shape.numel() == 0 || !looks_through(whole, root))
            return false;
        if (shape.numel() == times && uses_.users(graph_.result(root)).empty())
            return false; // one number, with which no kernel goes on
        struct Open {
            ValueId value;
            int64_t times; ///< that its operation is written out
            int kept;      ///< the dimension that is the kept short axis, or -1
        };
        std::vector<Open> open = {{whole, times, reduces_few ? -1 : shape.rank() - 1}};
        std::vector<ValueId> seen = {whole};
        int64_t elements = 0, ops = times;
        bool shared = reduces_few; // something is computed once for all elements of the kept axis
        while (!open.empty()) {
            const auto [v, often, kept] = open.back();
            open.pop_back();
            if (!looks_through(v, root)) {
                const Node *const made = graph_.producer(v);
                const bool is_maker = made && made->operand_count == 0 && is_free(made->op);
                elements += is_maker ? 0 : shape_of(v).numel();
                if (shape_of(v).rank() + 2 > kMaxRank || elements > shape.numel() / kMuchSmaller)
                    return false;
                continue;
            }
            const Node &node = *graph_.producer(v);
            const int axis = short_axis(node);
            shared =
                shared || (kept < 0 && !is_free(node.op) && shape_of(v).numel() * times >= shape.numel());
            const int64_t inner = axis < 0 ? often : often * shape_of(graph_.operands(node)[0])[axis];
            ops += is_free(node.op) ? 0 : inner * fused_ops(graph_, node);
            if (ops > kMostOps || seen.size() > kMostNodes)
                return false;
            for (const ValueId x : graph_.operands(node))
                if (std::ranges::find(seen, x) == seen.end()) {
                    seen.push_back(x);
                    const int within = kept < 0 ? -1 : dimension_in(node, x, kept);
                    open.push_back({x, kept >= 0 && within < 0 ? inner / times : inner, within});
                }
        }
        return shared;
    }

    /// Which dimension of the operand becomes this one of the result, or -1.
    int dimension_in(const Node &node, ValueId operand, int d) const {
        const Shape &from = shape_of(operand), &to = shape_of(graph_.result(node));
        if (const int axis = short_axis(node); axis >= 0)
            return d < axis ? d : d + 1;
        if (node.op == Op::Permute)
            return static_cast<int>(graph_.attrs(node).ints(attr::kAxes)[static_cast<size_t>(d)]);
        if (node.op == Op::Reshape) { // only extents of 1 come or go
            const auto large = [](int64_t extent) { return extent != 1; };
            auto before = std::count_if(to.begin(), to.begin() + d, large);
            for (int k = 0; k < from.rank(); ++k)
                if (large(from[k]) && before-- == 0)
                    return k;
            return -1;
        }
        const int within = d - (to.rank() - from.rank());
        return within >= 0 && from[within] != 1 ? within : -1;
    }

    // --- what goes down columns

    static bool picks(Op op) { return op == Op::ArgMax || op == Op::ArgMin; }

    /// Whether the node is a matrix product of f32 or f64 that is made here, with few terms: its sums are the
    /// same whichever side is the first.
    bool is_shallow_product(const Node &node) const {
        if (node.op != Op::Dot)
            return false;
        const AttrView attrs = graph_.attrs(node);
        const TensorType &type = graph_.type(graph_.result(node));
        const auto operands = graph_.operands(node);
        const auto contracted = attrs.ints(attr::kDotLhsContract);
        return (type.dtype == DType::F32 || type.dtype == DType::F64) && type.shape.rank() == 2 &&
               attrs.ints(attr::kDotLhsBatch).empty() && contracted.size() == 1 &&
               shape_of(operands[0])[static_cast<int>(contracted[0])] <= kMostTerms &&
               !library_multiplies(graph_, node, target_of_steps_, type.device);
    }

    /// Whether the value has about as many elements as what is picked from; others are stored before.
    static bool is_of_points(const Shape &value, const Shape &whole) {
        return value.numel() * kMuchSmaller > whole.numel();
    }

    /// Whether the reduction picks an element of each row of such a product, or of what is computed of it at
    /// each point, and nobody else needs that.
    bool picks_of_product(const Node &root) const {
        if (!picks_of_rows(graph_, root))
            return false;
        const ValueId whole = graph_.operands(root)[0];
        const Shape &shape = shape_of(whole);
        std::vector<ValueId> open = {whole}, seen = {whole};
        int products = 0;
        while (!open.empty()) {
            const ValueId v = open.back();
            open.pop_back();
            const Node *const node = graph_.producer(v);
            const bool is_product = node && is_shallow_product(*node) && shape_of(v) == shape &&
                                    node->stream == root.stream && node->order_count == 0 &&
                                    uses_.results(v) == 0;
            if (!is_of_points(shape_of(v), shape))
                continue;
            // A value of each point is made down columns, or not at all.
            if (!has_one_reader(v) || !(is_product || looks_through(v, root)))
                return false;
            products += is_product;
            if (is_product)
                continue;
            for (const ValueId x : graph_.operands(*node))
                if (std::ranges::find(seen, x) == seen.end()) {
                    seen.push_back(x);
                    open.push_back(x);
                }
            if (seen.size() > kMostNodes)
                return false;
        }
        return products == 1;
    }

    /// With the sides in the order in which the piece has their dimensions.
    ValueId product_piece(const Node &dot, const Place &place) {
        const AttrView attrs = graph_.attrs(dot);
        const auto operands = graph_.operands(dot);
        const bool turned = place[0] > place[1];
        const ValueId sides[] = {rewriter_.value(operands[turned]), rewriter_.value(operands[!turned])};
        const auto contracted = [&](bool of_rhs) {
            return attrs.ints(of_rhs ? attr::kDotRhsContract : attr::kDotLhsContract)[0];
        };
        return part(rewriter_.builder().add(Op::Dot, sides,
                                            std::array<int64_t, 7>{0, 0, 1, contracted(turned), 1,
                                                                   contracted(!turned),
                                                                   attrs.integer(attr::kDotDType)},
                                            {}, dot.loc));
    }

    // --- writing it out

    void write_out(NodeId root) {
        const Node &node = graph_.node(root);
        root_ = root;
        target_ = {};
        const ValueId old = graph_.result(node), whole = graph_.operands(node)[0];
        const Shape &shape = shape_of(whole);
        if (short_axis(node) >= 0) {
            target_ = shape_of(old);
            Place place(static_cast<size_t>(target_.rank()));
            for (int d = 0; d < target_.rank(); ++d)
                place[static_cast<size_t>(d)] = target_[d] == 1 ? kOne : d;
            rewriter_.replace(old, named(spread(folded(node, place))));
            return;
        }
        if (picks(node.op)) {
            target_ = {shape[1], shape[0]};
            const ValueId columns = spread(piece(whole, {1, 0}));
            rewriter_.replace(old,
                              named(part(rewriter_.builder().add(node.op, {columns}, {0}, {}, node.loc))));
            return;
        }
        // The reduced axis first, so that elements that are neighbours are reduced side by side.
        const auto axis = static_cast<int>(graph_.attrs(node).ints(attr::kAxes)[0]);
        const int last = shape.rank() - 1;
        target_.push_back(shape[axis]);
        Place place(static_cast<size_t>(shape.rank()), kOne);
        place[static_cast<size_t>(axis)] = 0;
        for (int d = 0; d < last; ++d)
            if (d != axis) {
                place[static_cast<size_t>(d)] = target_.rank();
                target_.push_back(shape[d]);
            }
        GraphBuilder &b = rewriter_.builder();
        Shape one(shape_of(old));
        one[one.rank() - 1] = 1;
        std::vector<ValueId> parts;
        for (int64_t k = 0; k < shape[last]; ++k) {
            place.back() = at(k);
            const int64_t outermost = 0;
            const ValueId sum =
                part(b.reduce(node.op, spread(piece(whole, place)), std::span(&outermost, 1), node.loc));
            named(sum);
            parts.push_back(part(b.reshape(sum, one, node.loc)));
        }
        rewriter_.replace(
            old, named(part(b.add(Op::Concat, parts, std::array{int64_t{one.rank() - 1}}, {}, node.loc))));
    }

    /// The node that was just made is a part of the reduction that is written out.
    ValueId part(ValueId made) {
        rewriter_.part_of(root_);
        return made;
    }
    /// The same, and stands for it.
    ValueId named(ValueId made) {
        rewriter_.builder().set_recorded(graph_.node(root_).recorded);
        return made;
    }

    /// The piece with the whole shape of pieces.
    ValueId spread(ValueId v) {
        GraphBuilder &b = rewriter_.builder();
        return b.graph().type(v).shape == target_ ? v : part(b.broadcast(v, target_, graph_.node(root_).loc));
    }

    /// A piece of the value: as many dimensions as target_ has, each of its extent or of 1, or a number.
    ValueId piece(ValueId v, const Place &place) {
        const auto key = std::tuple(v, place, std::vector<int64_t>(target_.begin(), target_.end()),
                                    graph_.node(root_).stream);
        if (const auto known = pieces_.find(key); known != pieces_.end())
            return known->second;
        const Node &root = graph_.node(root_);
        const Node *const node = graph_.producer(v);
        const bool of_product = picks(root.op) && node && is_shallow_product(*node) &&
                                std::ranges::find(place, kOne) == place.end();
        const bool in_pieces =
            looks_through(v, root) &&
            (!picks(root.op) || is_of_points(shape_of(v), shape_of(graph_.operands(root)[0])));
        const ValueId made = of_product  ? product_piece(*node, place)
                             : in_pieces ? made_piece(v, place)
                                         : piece_of_whole(v, place);
        pieces_.emplace(key, made);
        return made;
    }

    ValueId made_piece(ValueId v, const Place &place) {
        const Node &node = *graph_.producer(v);
        const auto operands = graph_.operands(node);
        const Shape &operand = shape_of(operands[0]);
        switch (node.op) {
        case Op::Broadcast:
            return piece(operands[0], repeated(place, operand, shape_of(v)));
        case Op::Permute: {
            const auto axes = graph_.attrs(node).ints(attr::kAxes);
            Place inner(place.size());
            for (size_t d = 0; d < place.size(); ++d)
                inner[static_cast<size_t>(axes[d])] = place[d];
            return piece(operands[0], inner);
        }
        case Op::Reshape: {
            Place inner(static_cast<size_t>(operand.rank()), kOne);
            int to = 0;
            for (int d = 0; d < operand.rank(); ++d) {
                if (operand[d] == 1)
                    continue;
                while (shape_of(v)[to] == 1)
                    ++to;
                inner[static_cast<size_t>(d)] = place[static_cast<size_t>(to++)];
            }
            return piece(operands[0], inner);
        }
        default:
            if (short_axis(node) >= 0)
                return folded(node, place);
            std::vector<ValueId> pieces;
            for (const ValueId x : operands)
                pieces.push_back(piece(x, repeated(place, shape_of(x), shape_of(v))));
            return part(rewriter_.builder().clone_node(graph_, node, pieces));
        }
    }

    /// Where an operand is that NumPy's rules repeat.
    static Place repeated(const Place &place, const Shape &operand, const Shape &result) {
        const int skipped = result.rank() - operand.rank();
        Place inner;
        for (int d = 0; d < operand.rank(); ++d)
            inner.push_back(operand[d] == 1 ? kOne : place[static_cast<size_t>(d + skipped)]);
        return inner;
    }

    /// The elements of a short axis, one with the other in the order of the reduction (ir/kernel/kernel.h):
    /// elements that are neighbours in memory by halves, others from the first to the last. There are no
    /// more elements than lanes, and the identity that the others begin with changes nothing.
    ValueId folded(const Node &node, const Place &place) {
        const ValueId x = graph_.operands(node)[0];
        const int axis = short_axis(node);
        const DType computed = accumulation_dtype(node.op, graph_.type(x).dtype),
                    stored = graph_.type(graph_.result(node)).dtype;
        GraphBuilder &b = rewriter_.builder();
        const auto as = [&](ValueId v, DType dtype) {
            return b.graph().type(v).dtype == dtype ? v : part(b.cast(v, dtype, node.loc));
        };
        std::vector<ValueId> elements;
        for (int64_t k = 0; k < shape_of(x)[axis]; ++k) {
            Place inner = place;
            inner.insert(inner.begin() + axis, at(k));
            elements.push_back(as(piece(x, inner), computed));
        }
        const auto join = [&](size_t into, size_t from) {
            elements[into] = part(b.binary(between(node.op), elements[into], elements[from], node.loc));
        };
        const int64_t reduced = axis;
        if (fold_of(shape_of(x), std::span(&reduced, 1)).lanes()) {
            for (size_t half = static_cast<size_t>(kMostUnrolled) / 2; half > 0; half /= 2)
                for (size_t i = 0; i < half && i + half < elements.size(); ++i)
                    join(i, i + half);
        } else {
            for (size_t i = 1; i < elements.size(); ++i)
                join(0, i);
        }
        return as(elements[0], stored);
    }

    /// A piece of a value that is there as a whole: views of it.
    ValueId piece_of_whole(ValueId v, const Place &place) {
        GraphBuilder &b = rewriter_.builder();
        const Location &loc = graph_.node(root_).loc;
        ValueId now = rewriter_.value(v);
        if (place.empty())
            return now;
        for (size_t d = 0; d < place.size(); ++d)
            if (place[d] < kOne && shape_of(v)[static_cast<int>(d)] > 1)
                now =
                    part(b.add(Op::Window, {now}, {static_cast<int64_t>(d), at(place[d]), 1, 1, 1}, {}, loc));
        std::vector<int64_t> order;
        for (int64_t d = 0; d < b.graph().type(now).shape.rank(); ++d)
            order.push_back(d);
        const auto key = [&](int64_t d) {
            const auto i = static_cast<size_t>(d);
            const int64_t axis = i < place.size() && place[i] >= 0 ? place[i] : target_.rank();
            return std::pair(axis, d); // those of no axis have one element, and keep their order
        };
        std::ranges::sort(order, {}, key);
        if (!std::ranges::is_sorted(order))
            now = part(b.permute(now, order, loc));
        Shape shape;
        for (int d = 0; d < target_.rank(); ++d)
            shape.push_back(std::ranges::find(place, d) == place.end() ? 1 : target_[d]);
        return part(b.reshape(now, shape, loc));
    }

    const Graph &graph_;
    const Target &target_of_steps_;
    const Uses uses_;
    Rewriter rewriter_;
    std::vector<bool> dear_; ///< by value
    NodeId root_ = kNone;    ///< what is being written out
    Shape target_;           ///< of its pieces
    std::map<std::tuple<ValueId, Place, std::vector<int64_t>, int32_t>, ValueId> pieces_;
};

} // namespace

std::optional<Graph> unroll_short_axes(const Graph &graph, const Target &target) {
    const auto may_be_written_out = [&](const Node &node) {
        return short_axis(graph, node) >= 0 || keeps_short_axis(graph, node) || picks_of_rows(graph, node);
    };
    if (std::ranges::none_of(graph.nodes(), may_be_written_out))
        return std::nullopt;
    return ShortAxes(graph, target).run();
}

} // namespace lz::passes
