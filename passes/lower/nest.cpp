#include "passes/lower/nest.h"

#include "ir/diagnostic.h"
#include "ir/kernel/builder.h"
#include "passes/lower/domain.h"
#include "passes/lower/emit.h"
#include "passes/lower/joins/concat.h"
#include "passes/lower/joins/pieces.h"
#include "passes/lower/library.h"
#include "passes/operations.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

/// A chain of this many scalar operations is kept for a later loop and not computed again.
constexpr int kKeepWeight = 12;

/// Builds the kernel of one loop, row or reduce cluster.
class NestLowering {
public:
    explicit NestLowering(const ClusterView &cluster)
        : cluster_(cluster), graph_(*cluster.graph), exprs_(graph_, cluster.first, cluster.end) {}

    LoweredPiece run() {
        find_reduction();
        if (updates_in_place())
            choose_update_domain();
        else
            choose_domain(false);
        if (reduction_ && !one_loop_a_group())
            choose_domain(true);
        KernelEmitter emitter(exprs_, axes_);
        return emit(emitter);
    }

    LoweredPiece run(const Piece &piece) {
        exprs_.reset(piece.parts[0]);
        for (const Domain &part : piece.parts) {
            exprs_.shift(part);
            for (const ValueId v : cluster_.stored) {
                Output &o = outputs_.emplace_back();
                o.value = v;
                o.expr = exprs_.pull_full(v);
                o.address = part.full;
            }
        }
        choose_axes();
        KernelEmitter emitter(exprs_, axes_);
        emitter.always_offsets();
        return emit(emitter);
    }

private:
    struct Output {
        ValueId value = kNone;
        bool row = false;
        ExprId expr = kNoExpr;
        uint16_t buffer = 0;
        ValueId replaces = kNone; // updated in place
        Index address;
    };
    /// One walk over the reduced axes.
    struct Pass {
        std::vector<uint32_t> reductions;
        std::vector<size_t> outputs;
        std::vector<ExprId> roots;
    };

    void find_reduction() {
        for (NodeId n = cluster_.first; n < cluster_.end; ++n)
            if (reduces(graph_, graph_.node(n))) {
                reduction_ = &graph_.node(n);
                reduced_ = reduced_axes(graph_, *reduction_);
                fold_ = fold_of(graph_.type(graph_.operands(*reduction_)[0]).shape, reduced_);
                return;
            }
    }

    /// Values over the rows, where their number of elements does not say so.
    std::vector<bool> row_values() const {
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

    void choose_domain(bool one_axis_a_group) {
        std::vector<Shape> full, rows;
        const auto classify = [&](const Shape &shape, bool row) {
            auto &list = row ? rows : full;
            if (std::find(list.begin(), list.end(), shape) == list.end())
                list.push_back(shape);
        };
        const int64_t numel = reduction_ ? fold_.numel() : graph_.type(cluster_.stored.front()).numel();
        const bool ambiguous = reduction_ && fold_.rows() == numel;
        const std::vector<bool> row = ambiguous ? row_values() : std::vector<bool>();
        outputs_.clear();
        for (const ValueId v : cluster_.stored) {
            const NodeId producer = graph_.value(v).producer;
            const bool is_row =
                reduction_ && (ambiguous ? row[producer - cluster_.first] : graph_.type(v).numel() != numel);
            Output &o = outputs_.emplace_back();
            o.value = v;
            o.row = is_row;
            classify(graph_.type(v).shape, is_row);
        }
        for (NodeId n = cluster_.first; n < cluster_.end; ++n) {
            const Node &node = graph_.node(n);
            if (reduces(graph_, node))
                classify(graph_.type(graph_.operands(node)[0]).shape, false);
            if (node.op != Op::Reshape)
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
        for (Output &o : outputs_) {
            o.expr = o.row ? exprs_.pull_row(o.value) : exprs_.pull_full(o.value);
            o.address = o.row ? exprs_.domain().rows : exprs_.domain().full;
        }
        choose_axes();
    }

    /// An update whose operand is stored elsewhere writes the slice only.
    bool updates_in_place() const {
        const Node *node = graph_.producer(cluster_.stored.front());
        return cluster_.stored.size() == 1 && node->op == Op::UpdateSlice &&
               !exprs_.inside(graph_.operands(*node)[0]);
    }

    void choose_update_domain() {
        const ValueId v = cluster_.stored.front();
        const Node &node = *graph_.producer(v);
        const AttrView attrs = graph_.attrs(node);
        const auto [x, update] = std::pair(graph_.operands(node)[0], graph_.operands(node)[1]);
        const Shape shapes[] = {graph_.type(update).shape};
        exprs_.reset(loop_domain(shapes));
        IndexMap map;
        for (int d = 0; d < shapes[0].rank(); ++d)
            map.push_back(Index::axis(d));
        map = through_slice(
            map, node.runtime_begin + static_cast<uint32_t>(attrs.runtime_index(attr::kUpdateStarts)),
            attrs.ints(attr::kUpdateSteps));
        Output &o = outputs_.emplace_back();
        o.value = v;
        o.expr = exprs_.pull_full(update);
        o.replaces = x;
        o.address = linearize(map, graph_.type(x).shape, nullptr);
        choose_axes();
    }

    void choose_axes() {
        std::vector<Index> addresses(exprs_.addresses().begin(), exprs_.addresses().end());
        for (const Output &o : outputs_)
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

    bool one_loop_a_group() const { return static_cast<int>(loops_.size()) == fold_.reduced_groups(); }
    bool lanes() const { return fold_.lanes(); }
    int64_t extent(int k) const { return axes_.extents[static_cast<size_t>(k)]; }

    int max_depth() const {
        int depth = 0;
        for (const ReduceExpr &r : exprs_.reductions())
            depth = std::max<int>(depth, r.depth);
        return depth;
    }

    std::vector<AxisId> grid_ids() {
        std::vector<AxisId> ids;
        for (const int k : grid_)
            ids.push_back(emitter_->axis(k));
        return ids;
    }

    uint32_t grid_mask() const {
        uint32_t mask = 0;
        for (const int k : grid_)
            mask |= axes_.members[static_cast<size_t>(k)];
        return mask | trivial_mask();
    }
    /// Axes that `collapse` dropped do not move anything.
    uint32_t trivial_mask() const {
        uint32_t all = 0;
        for (const uint32_t m : axes_.members)
            all |= m;
        return ~all;
    }

    LoweredPiece emit(KernelEmitter &emitter) {
        emitter_ = &emitter;
        const bool vector_grid = !reduction_ || !lanes();
        const int vector = vector_grid ? (grid_.empty() ? -1 : grid_.back()) : loops_.back();
        emitter.set_contiguous(vector, reduction_ && !lanes() ? -1 : turned_axis(vector));
        std::vector<AxisId> grid = grid_ids();
        if (grid.empty())
            grid.push_back(emitter.add_axis(1));
        declare_outputs();
        KernelBuilder &b = emitter.builder();
        b.begin_phase(std::move(grid), vector_grid);
        if (reduction_)
            emit_rows();
        else
            for (const Output &o : outputs_)
                store(o);
        b.end_phase();
        b.kernel().name = name(cluster_.kind);
        return {b.take(), std::move(emitter.segment())};
    }

    void declare_outputs() {
        for (size_t i = 0; i < outputs_.size(); ++i) {
            Output &o = outputs_[i];
            const auto known = std::ranges::find(
                outputs_.begin(), outputs_.begin() + static_cast<ptrdiff_t>(i), o.value, &Output::value);
            if (known != outputs_.begin() + static_cast<ptrdiff_t>(i)) // another part of it
                o.buffer = known->buffer;
            else
                o.buffer =
                    o.replaces == kNone ? emitter_->output(o.value) : emitter_->in_out(o.value, o.replaces);
        }
    }
    void store(const Output &o) { emitter_->store(o.buffer, o.address, o.expr); }

    /// A grid axis along which some load is contiguous that strides along the vector axis: it is turned, and
    /// a schedule may walk the two axes in tiles, or rows side by side.
    int turned_axis(int vector) const {
        if (vector < 0)
            return -1;
        const auto coefficient = [&](const Index &i, int k) -> int64_t {
            for (size_t a = 0; a < axes_.of_axis.size(); ++a)
                if (axes_.of_axis[a] == k)
                    return i.axes[a];
            return 0;
        };
        for (const Expr &e : exprs_.exprs()) {
            if (e.kind != ExprKind::Load)
                continue;
            const Index &address = exprs_.addresses()[e.payload];
            const int64_t along = coefficient(address, vector);
            if (!address.affine() || along == 0 || along == 1)
                continue;
            for (const int k : grid_)
                if (k != vector && coefficient(address, k) == 1 && extent(k) > 1)
                    return k;
        }
        return -1;
    }

    std::vector<Pass> plan_passes() const {
        const auto reductions = exprs_.reductions();
        const size_t depth = static_cast<size_t>(max_depth());
        std::vector<Pass> passes(depth);
        for (uint32_t r = 0; r < reductions.size(); ++r)
            passes[reductions[r].depth - 1u].reductions.push_back(r);
        for (size_t i = 0; i < outputs_.size(); ++i) {
            if (outputs_[i].row)
                continue;
            const size_t d = exprs_.expr(outputs_[i].expr).depth;
            if (d == passes.size())
                passes.emplace_back();
            passes[d].outputs.push_back(i);
        }
        for (Pass &p : passes) {
            for (const uint32_t r : p.reductions)
                p.roots.push_back(reductions[r].operand);
            for (const size_t i : p.outputs)
                p.roots.push_back(outputs_[i].expr);
        }
        return passes;
    }

    /// Values that an earlier pass over the row computes and a later one needs are kept if they are dear.
    void plan_row_buffers(std::span<const Pass> passes) {
        if (!lanes() || loops_.size() != 1)
            return;
        const uint32_t row_mask = grid_mask();
        Index address;
        int64_t stride = 1;
        for (size_t a = exprs_.domain().extents.size(); a-- > 0;)
            if (exprs_.domain().reduced >> a & 1) {
                address.axes[a] = stride;
                stride *= exprs_.domain().extents[a];
            }
        std::vector<int> computed(exprs_.exprs().size(), -1);
        for (int p = 0; p < static_cast<int>(passes.size()); ++p) {
            std::vector<ExprId> open(passes[static_cast<size_t>(p)].roots);
            while (!open.empty()) {
                const ExprId id = open.back();
                open.pop_back();
                const Expr &e = exprs_.expr(id);
                if ((e.axes & ~row_mask) == 0 || computed[id] == p || emitter_->kept(id))
                    continue;
                if (computed[id] >= 0 && e.kind != ExprKind::Load && e.kind != ExprKind::Position &&
                    (e.expensive || e.weight >= kKeepWeight)) {
                    emitter_->keep(id, {emitter_->worker(e.dtype, extent(loops_[0])), address});
                    continue;
                }
                computed[id] = p;
                for (const ExprId x : e.operands)
                    if (x != kNoExpr)
                        open.push_back(x);
                if (e.kind == ExprKind::Load || e.kind == ExprKind::Position)
                    for (const Index::Term &t : exprs_.addresses()[e.payload].terms)
                        open.push_back(t.value);
            }
        }
    }

    void emit_rows() {
        const std::vector<Pass> passes = plan_passes();
        plan_row_buffers(passes);
        for (size_t p = 0; p < passes.size(); ++p)
            emit_pass(passes[p], static_cast<int>(p));
        for (const Output &o : outputs_)
            if (o.row)
                store(o);
    }

    void emit_pass(const Pass &pass, int depth) {
        KernelBuilder &b = emitter_->builder();
        uint32_t mask = grid_mask();
        std::vector<uint32_t> open;
        const bool folds = std::any_of(pass.reductions.begin(), pass.reductions.end(), [&](uint32_t r) {
            const Op op = exprs_.reductions()[r].op;
            return op == Op::ReduceSum || op == Op::ReduceProd;
        });
        for (size_t i = 0; i < loops_.size(); ++i) {
            emitter_->hoist(pass.roots, mask, depth);
            const bool innermost = i + 1 == loops_.size();
            const LoopOrder order = innermost && lanes() ? LoopOrder::Lanes : LoopOrder::Sequential;
            open.push_back(b.begin_loop(emitter_->axis(loops_[i]), order, folds ? chunk_of(order) : 0));
            emitter_->open();
            mask |= axes_.members[static_cast<size_t>(loops_[i])];
        }
        std::vector<std::pair<KValue, KValue>> partial;
        for (const uint32_t r : pass.reductions) {
            const ReduceExpr &reduction = exprs_.reductions()[r];
            const KValue index = arg_index(reduction, emitter_->axis(loops_.back()));
            partial.emplace_back(emitter_->emit(reduction.operand), index);
        }
        for (const size_t i : pass.outputs)
            store(outputs_[i]);
        close_loops(pass, open, partial);
        for (size_t i = 0; i < pass.reductions.size(); ++i)
            define(pass.reductions[i], partial[i]);
    }

    KValue arg_index(const ReduceExpr &r, AxisId axis) {
        const bool arg = r.op == Op::ArgMax || r.op == Op::ArgMin;
        return arg ? emitter_->builder().axis_index(axis) : kNoValue;
    }

    /// Ends loops from the innermost; the results of each are what the next folds.
    void close_loops(const Pass &pass, std::span<const uint32_t> open,
                     std::vector<std::pair<KValue, KValue>> &partial) {
        KernelBuilder &b = emitter_->builder();
        for (size_t i = open.size(); i-- > 0;) {
            std::vector<uint32_t> ids;
            for (size_t k = 0; k < pass.reductions.size(); ++k) {
                const Op op = exprs_.reductions()[pass.reductions[k]].op;
                ids.push_back(b.reduce(reduce_op(op), partial[k].first, partial[k].second));
            }
            b.end_loop();
            emitter_->close();
            for (size_t k = 0; k < ids.size(); ++k) {
                b.set_source(exprs_.reductions()[pass.reductions[k]].node);
                const bool arg = partial[k].second != kNoValue;
                partial[k].first = b.loop_result(open[i], ids[k]);
                partial[k].second = arg ? b.loop_result(open[i], ids[k], 1) : kNoValue;
            }
        }
    }

    void define(uint32_t reduction, std::pair<KValue, KValue> value) {
        const auto exprs = exprs_.exprs();
        for (ExprId e = 0; e < exprs.size(); ++e)
            if (exprs[e].kind == ExprKind::Reduce && exprs[e].payload == reduction)
                emitter_->define(e, exprs[e].number == 1 ? value.second : value.first);
    }

    const ClusterView &cluster_;
    const Graph &graph_;
    ClusterExprs exprs_;
    KernelEmitter *emitter_ = nullptr;
    const Node *reduction_ = nullptr;
    std::vector<int64_t> reduced_;
    Fold fold_;
    std::vector<Output> outputs_;
    Collapsed axes_;
    std::vector<int> grid_, loops_;
};

} // namespace

LoweredPiece lower_piece(const ClusterView &cluster, const Piece &piece) {
    return NestLowering(cluster).run(piece);
}

void lower_nest(const ClusterView &cluster, const Target &target, LoweredStep &step) {
    const DeviceInfo *const device = target.find(step.device);
    if (((!device || device->has_function(kConcat)) && lower_concat(cluster, step)) ||
        lower_in_pieces(cluster, step))
        return;
    LoweredPiece whole = NestLowering(cluster).run();
    step.kernel = std::move(whole.kernel);
    step.segments.push_back(std::move(whole.segment));
}

} // namespace lz::passes
