#include "passes/lower/nest.h"

#include "ir/diagnostic.h"
#include "passes/explain/facts.h"
#include "passes/lower/concat.h"
#include "passes/lower/domain.h"
#include "passes/lower/emit.h"
#include "passes/lower/pieces.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

/// Columns of a work item that folds rows: wide enough for whole pages of each row to be worth opening.
constexpr int64_t kColumnBlock = 512;
/// Of a work item of tiles: they go down its rows, so that what is read ahead is used.
constexpr int64_t kTileColumns = 128, kTileRows = 512;
/// A chain of this many scalar operations is kept for a later loop and not computed again.
constexpr int kKeepWeight = 12;
/// With fewer rows than this, long rows are split among workers.
constexpr int64_t kFewRows = 16;

/// Builds the kernel of one loop, row or reduce cluster.
class NestLowering {
public:
    NestLowering(const ClusterView &cluster, const Target &target, LoweredStep &step)
        : cluster_(cluster), graph_(*cluster.graph), target_(target), step_(step),
          exprs_(graph_, cluster.first, cluster.end) {}

    void run() {
        find_reduction();
        if (updates_in_place())
            choose_update_domain();
        else
            choose_domain(false);
        if (reduction_ && !one_loop_a_group())
            choose_domain(true);
        KernelEmitter emitter(exprs_, axes_);
        emitter_ = &emitter;
        if (reduction_ && splits())
            emit_split();
        else
            emit_single();
        step_.worker_bytes = emitter.worker_bytes();
        emitter.builder().kernel().name = name(cluster_.kind);
        step_.kernel = emitter.builder().take();
        step_.segments.push_back(std::move(emitter.segment()));
        count_items(step_);
    }

    void run_piece(const Piece &piece) {
        piece_ = &piece;
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
        emitter_ = &emitter;
        emit_single();
        emitter.builder().kernel().name = name(cluster_.kind);
        step_.kernel = emitter.builder().take();
        step_.segments.push_back(std::move(emitter.segment()));
        count_items(step_);
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
    int64_t chunk(bool innermost) const { return innermost && lanes() ? kLaneChunk : kSequentialChunk; }

    int max_depth() const {
        int depth = 0;
        for (const ReduceExpr &r : exprs_.reductions())
            depth = std::max<int>(depth, r.depth);
        return depth;
    }

    bool splits() const {
        if (loops_.size() != 1 || max_depth() != 1)
            return false;
        for (const Output &o : outputs_)
            if (!o.row && exprs_.expr(o.expr).depth > 0)
                return false;
        const int64_t rows = fold_.rows(), length = fold_.reduced();
        if (!lanes())
            return length > kSequentialChunk;
        return rows == 1 ? true : rows < kFewRows && length > 2 * kLaneChunk;
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

    int64_t output_bytes() const {
        int64_t bytes = 0;
        for (const Output &o : outputs_)
            bytes += graph_.type(o.value).bytes();
        return bytes;
    }

    StoreTier store_tier() const {
        const bool streams = (!piece_ || piece_->streams) && bypasses_caches(target_, output_bytes());
        return streams ? StoreTier::Streaming : StoreTier::Cached;
    }

    int element_bytes() const {
        int bytes = 1;
        for (const Output &o : outputs_)
            bytes = std::max(bytes, size_of(graph_.type(o.value).dtype));
        return bytes;
    }

    // --- without reductions, or a row by each worker

    void emit_single() {
        const bool vector_grid = !reduction_ || !lanes();
        int vector = vector_grid ? (grid_.empty() ? -1 : grid_.back()) : loops_.back();
        int tile = -1;
        if (!reduction_)
            tile = tile_axis(vector);
        emitter_->set_vector(vector, tile);
        std::vector<AxisId> grid = grid_ids();
        if (grid.empty())
            grid.push_back(emitter_->add_axis(1));
        KernelBuilder &b = emitter_->builder();
        declare_outputs();
        Phase &phase = b.begin_phase(std::move(grid), vector_grid);
        phase.stores = store_tier();
        if (vector_grid) {
            const int64_t inner = grid_.empty() ? 1 : extent(grid_.back());
            const int64_t block = tile >= 0    ? kTileColumns
                                  : reduction_ ? std::max<int64_t>(1, std::min(inner, kColumnBlock))
                                               : loop_block(inner, element_bytes());
            phase.block = emitter_->arg(ArgRole::Block, piece_ && piece_->block > 0 && grid_.size() <= 1
                                                            ? std::min(block, piece_->block)
                                                            : block);
            if (tile >= 0) {
                phase.tile_axis = emitter_->axis(tile);
                phase.tile_block = emitter_->arg(ArgRole::Block, kTileRows);
            }
            if (grid_.size() > 1 && inner_tier(inner) == InnerTier::Tiny)
                phase.inner = InnerTier::Tiny;
        } else if (inner_tier(extent(loops_.back())) == InnerTier::Tiny) {
            phase.inner = InnerTier::Tiny;
        }
        if (reduction_)
            emit_rows();
        else
            for (const Output &o : outputs_)
                store(o);
        b.end_phase();
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

    /// A grid axis along which some load is contiguous that strides along the vector axis.
    int tile_axis(int vector) const {
        if (vector < 0 || grid_.size() < 2)
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
            open.push_back(b.begin_loop(emitter_->axis(loops_[i]), order, folds ? chunk(innermost) : 0));
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

    // --- long reductions: partial results of chunks, then their sum

    struct Partial {
        uint16_t value, index;
        bool arg;
    };

    void emit_split() {
        KernelBuilder &b = emitter_->builder();
        const bool vector_grid = !lanes();
        const int loop = loops_[0];
        const int64_t step = chunk(true), length = extent(loop);
        const int64_t chunks = (length + step - 1) / step;
        const int vector = vector_grid ? grid_.back() : loop;
        emitter_->set_vector(vector, -1);
        const AxisId chunk_axis = emitter_->add_axis(chunks);
        declare_outputs();
        std::vector<Partial> partials;
        for (const ReduceExpr &r : exprs_.reductions()) {
            const bool arg = r.op == Op::ArgMax || r.op == Op::ArgMin;
            const uint16_t values = emitter_->temp(r.dtype, fold_.rows() * chunks);
            partials.push_back(
                {values, arg ? emitter_->temp(DType::I64, fold_.rows() * chunks) : uint16_t{0}, arg});
        }

        std::vector<AxisId> grid = grid_ids();
        grid.push_back(chunk_axis);
        if (vector_grid)
            std::swap(grid[grid.size() - 1], grid[grid.size() - 2]);
        Phase &first = b.begin_phase(grid, vector_grid);
        if (vector_grid)
            first.block =
                emitter_->arg(ArgRole::Block, std::max<int64_t>(1, std::min(extent(vector), kColumnBlock)));
        emit_chunk(chunk_axis, step, partials, chunks);
        b.end_phase();

        emitter_->forget();
        grid = grid_ids();
        if (grid.empty())
            grid.push_back(emitter_->add_axis(1));
        Phase &second = b.begin_phase(std::move(grid), vector_grid);
        if (vector_grid)
            second.block =
                emitter_->arg(ArgRole::Block, std::max<int64_t>(1, std::min(extent(vector), kColumnBlock)));
        emit_fold(chunk_axis, partials, chunks);
        for (const Output &o : outputs_)
            if (o.row)
                store(o);
        b.end_phase();
    }

    /// Where a chunk's partial result is: rows, chunks and, in a vector grid, the last grid axis innermost.
    Access partial_access(uint16_t buffer, AxisId chunk_axis, int64_t chunks) {
        Access a;
        a.buffer = buffer;
        const bool vector_grid = !lanes();
        int64_t stride = 1;
        std::vector<AxisStride> strides;
        for (size_t i = grid_.size(); i-- > 0;) {
            const bool last = i + 1 == grid_.size();
            if (last && vector_grid) {
                strides.push_back({emitter_->axis(grid_[i]), StrideClass::Contiguous, kNoArg});
                stride = extent(grid_[i]);
                continue;
            }
            if (i + 1 == grid_.size() - (vector_grid ? 1u : 0u)) {
                strides.push_back(emitter_->stride(chunk_axis, stride, false));
                stride *= chunks;
            }
            strides.push_back(emitter_->stride(emitter_->axis(grid_[i]), stride, false));
            stride *= extent(grid_[i]);
        }
        if (grid_.size() == (vector_grid ? 1u : 0u))
            strides.push_back(emitter_->stride(chunk_axis, stride, false));
        a.strides.assign(strides.rbegin(), strides.rend());
        return a;
    }

    void emit_chunk(AxisId chunk_axis, int64_t step, std::span<const Partial> partials, int64_t chunks) {
        KernelBuilder &b = emitter_->builder();
        const Pass pass = plan_passes()[0];
        emitter_->hoist(pass.roots, grid_mask(), 0);
        const KValue size = b.constant_int(DType::I64, step);
        const KValue begin = b.mul(b.axis_index(chunk_axis), size);
        const KValue end =
            b.minimum(b.add(begin, size), b.arg_value(b.kernel().axes[emitter_->axis(loops_[0])].extent));
        const LoopOrder order = lanes() ? LoopOrder::Lanes : LoopOrder::Sequential;
        const std::vector<uint32_t> open{b.begin_loop(emitter_->axis(loops_[0]), order, 0, begin, end)};
        emitter_->open();
        std::vector<std::pair<KValue, KValue>> partial;
        for (const uint32_t r : pass.reductions) {
            const ReduceExpr &reduction = exprs_.reductions()[r];
            const KValue index = arg_index(reduction, emitter_->axis(loops_[0]));
            partial.emplace_back(emitter_->emit(reduction.operand), index);
        }
        for (const size_t i : pass.outputs)
            store(outputs_[i]);
        close_loops(pass, open, partial);
        for (size_t i = 0; i < pass.reductions.size(); ++i) {
            const Partial &p = partials[pass.reductions[i]];
            b.store(partial_access(p.value, chunk_axis, chunks), partial[i].first);
            if (p.arg)
                b.store(partial_access(p.index, chunk_axis, chunks), partial[i].second);
        }
    }

    void emit_fold(AxisId chunk_axis, std::span<const Partial> partials, int64_t chunks) {
        KernelBuilder &b = emitter_->builder();
        const Pass pass = plan_passes()[0];
        const std::vector<uint32_t> open{b.begin_loop(chunk_axis, LoopOrder::Sequential)};
        emitter_->open();
        std::vector<std::pair<KValue, KValue>> partial;
        for (const uint32_t r : pass.reductions) {
            const Partial &p = partials[r];
            const KValue value = b.load(partial_access(p.value, chunk_axis, chunks));
            partial.emplace_back(value,
                                 p.arg ? b.load(partial_access(p.index, chunk_axis, chunks)) : kNoValue);
        }
        close_loops(pass, open, partial);
        for (size_t i = 0; i < pass.reductions.size(); ++i)
            define(pass.reductions[i], partial[i]);
    }

    const ClusterView &cluster_;
    const Graph &graph_;
    const Target &target_;
    LoweredStep &step_;
    ClusterExprs exprs_;
    KernelEmitter *emitter_ = nullptr;
    const Piece *piece_ = nullptr; // what is lowered of the cluster, if not all
    const Node *reduction_ = nullptr;
    std::vector<int64_t> reduced_;
    Fold fold_;
    std::vector<Output> outputs_;
    Collapsed axes_;
    std::vector<int> grid_, loops_;
};

} // namespace

LoweredPiece lower_piece(const ClusterView &cluster, const Target &target, const Piece &piece) {
    LoweredStep step;
    NestLowering(cluster, target, step).run_piece(piece);
    return {step.kernel, std::move(step.segments.front())};
}

bool bypasses_caches(const Target &target, int64_t bytes) {
    return target.modes.streaming_stores && !target.devices.empty() && target.devices[0].cache_bytes > 0 &&
           bytes > target.devices[0].cache_bytes / 2;
}

void lower_nest(const ClusterView &cluster, const Target &target, LoweredStep &step) {
    if (!lower_concat(cluster, target, step) && !lower_in_pieces(cluster, target, step))
        NestLowering(cluster, target, step).run();
}

} // namespace lz::passes
