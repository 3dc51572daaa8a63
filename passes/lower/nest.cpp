#include "passes/lower/nest.h"

#include "ir/diagnostic.h"
#include "ir/kernel/builder.h"
#include "passes/lower/emit.h"
#include "passes/lower/joins/boxes.h"
#include "passes/lower/joins/concat.h"
#include "passes/lower/joins/pieces.h"
#include "passes/lower/joins/updates.h"
#include "passes/lower/library.h"
#include "passes/lower/nest_domain.h"
#include "passes/operations.h"

#include <algorithm>
#include <cstdlib>

namespace lz::passes {

using namespace ir;

namespace {

/// A chain of this many scalar operations is kept for a later loop and not computed again.
constexpr int kKeepWeight = 12;

/// Builds the kernel of one loop, row or reduce cluster, or of a piece of one.
class NestLowering {
public:
    explicit NestLowering(NestDomain &domain)
        : domain_(domain), exprs_(domain.exprs()), axes_(domain.axes()), outputs_(domain.outputs()),
          grid_(domain.grid()), loops_(domain.loops()), emitter_(exprs_, axes_) {}

    void always_offsets() { emitter_.always_offsets(); }

    LoweredPiece run(std::string_view kernel_name) {
        const bool reduces = domain_.has_reduction();
        const bool vector_grid = !reduces || !domain_.lanes();
        const int vector = vector_grid ? (grid_.empty() ? -1 : grid_.back()) : loops_.back();
        emitter_.set_contiguous(vector, reduces && !domain_.lanes() ? -1 : turned_axis(vector));
        std::vector<AxisId> grid;
        for (const int k : grid_)
            grid.push_back(emitter_.axis(k));
        if (grid.empty())
            grid.push_back(emitter_.add_axis(1));
        declare_outputs();
        KernelBuilder &b = emitter_.builder();
        b.begin_phase(std::move(grid), vector_grid);
        if (reduces)
            emit_rows();
        else
            for (size_t i = 0; i < outputs_.size(); ++i)
                store(i);
        b.end_phase();
        b.kernel().name = kernel_name;
        return {b.take(), std::move(emitter_.segment())};
    }

private:
    /// One walk over the reduced axes.
    struct Pass {
        std::vector<uint32_t> reductions;
        std::vector<size_t> outputs;
        std::vector<ExprId> roots;
    };

    int max_depth() const {
        int depth = 0;
        for (const ReduceExpr &r : exprs_.reductions())
            depth = std::max<int>(depth, r.depth);
        return depth;
    }

    void declare_outputs() {
        for (size_t i = 0; i < outputs_.size(); ++i) {
            const NestOutput &o = outputs_[i];
            const auto end = outputs_.begin() + static_cast<ptrdiff_t>(i);
            const auto known = std::ranges::find(outputs_.begin(), end, o.value, &NestOutput::value);
            if (known != end) // another part of it
                buffers_.push_back(buffers_[static_cast<size_t>(known - outputs_.begin())]);
            else
                buffers_.push_back(o.replaces == kNone ? emitter_.output(o.value)
                                                       : emitter_.in_out(o.value, o.replaces));
        }
    }
    void store(size_t output) {
        emitter_.store(buffers_[output], outputs_[output].address, outputs_[output].expr);
    }

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
        for (const ExprNode &e : exprs_.exprs()) {
            if (e.kind != ExprKind::Load)
                continue;
            const Index &address = exprs_.addresses()[e.payload];
            const int64_t along = coefficient(address, vector);
            if (!address.affine() || std::abs(along) <= 1)
                continue;
            for (const int k : grid_)
                if (k != vector && coefficient(address, k) == 1 && domain_.extent(k) > 1)
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
        if (!domain_.lanes() || loops_.size() != 1)
            return;
        const uint32_t row_mask = domain_.grid_mask();
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
                const ExprNode &e = exprs_.expr(id);
                if ((e.axes & ~row_mask) == 0 || computed[id] == p || emitter_.kept(id))
                    continue;
                if (computed[id] >= 0 && e.kind != ExprKind::Load && e.kind != ExprKind::Position &&
                    (e.expensive || e.weight >= kKeepWeight)) {
                    emitter_.keep(id, {emitter_.worker(e.dtype, domain_.extent(loops_[0])), address});
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
        for (size_t i = 0; i < outputs_.size(); ++i)
            if (outputs_[i].row)
                store(i);
    }

    void emit_pass(const Pass &pass, int depth) {
        KernelBuilder &b = emitter_.builder();
        uint32_t mask = domain_.grid_mask();
        std::vector<uint32_t> open;
        const bool folds = std::any_of(pass.reductions.begin(), pass.reductions.end(), [&](uint32_t r) {
            const Op op = exprs_.reductions()[r].op;
            return op == Op::ReduceSum || op == Op::ReduceProd;
        });
        for (size_t i = 0; i < loops_.size(); ++i) {
            emitter_.hoist(pass.roots, mask, depth);
            const bool innermost = i + 1 == loops_.size();
            const LoopOrder order = innermost && domain_.lanes() ? LoopOrder::Lanes : LoopOrder::Sequential;
            open.push_back(b.begin_loop(emitter_.axis(loops_[i]), order, folds ? chunk_of(order) : 0));
            emitter_.open();
            mask |= axes_.members[static_cast<size_t>(loops_[i])];
        }
        std::vector<std::pair<KValue, KValue>> partial;
        for (const uint32_t r : pass.reductions) {
            const ReduceExpr &reduction = exprs_.reductions()[r];
            const KValue index = arg_index(reduction, emitter_.axis(loops_.back()));
            partial.emplace_back(emitter_.emit(reduction.operand), index);
        }
        for (const size_t i : pass.outputs)
            store(i);
        close_loops(pass, open, partial);
        for (size_t i = 0; i < pass.reductions.size(); ++i)
            define(pass.reductions[i], partial[i]);
    }

    KValue arg_index(const ReduceExpr &r, AxisId axis) {
        const bool arg = r.op == Op::ArgMax || r.op == Op::ArgMin;
        return arg ? emitter_.builder().axis_index(axis) : kNoValue;
    }

    /// Ends loops from the innermost; the results of each are what the next folds.
    void close_loops(const Pass &pass, std::span<const uint32_t> open,
                     std::vector<std::pair<KValue, KValue>> &partial) {
        KernelBuilder &b = emitter_.builder();
        for (size_t i = open.size(); i-- > 0;) {
            std::vector<uint32_t> ids;
            for (size_t k = 0; k < pass.reductions.size(); ++k) {
                const Op op = exprs_.reductions()[pass.reductions[k]].op;
                ids.push_back(b.reduce(reduce_op(op), partial[k].first, partial[k].second));
            }
            b.end_loop();
            emitter_.close();
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
                emitter_.define(e, exprs[e].number == 1 ? value.second : value.first);
    }

    const NestDomain &domain_;
    const ClusterExprs &exprs_;
    const Collapsed &axes_;
    const std::vector<NestOutput> &outputs_;
    const std::vector<int> &grid_, &loops_;
    KernelEmitter emitter_;
    std::vector<uint16_t> buffers_; // by output
};

} // namespace

LoweredPiece lower_piece(const ClusterView &cluster, const Piece &piece) {
    NestDomain domain(cluster);
    domain.choose(piece);
    NestLowering lowering(domain);
    lowering.always_offsets();
    return lowering.run(name(cluster.kind));
}

LoweredPiece lower_domain(NestDomain &domain, ClusterKind kind) {
    return NestLowering(domain).run(name(kind));
}

void lower_nest(const ClusterView &cluster, const Target &target, LoweredStep &step) {
    const DeviceInfo *const device = target.find(step.device);
    if (((!device || device->has_function(kConcat)) && lower_concat(cluster, step)) ||
        lower_in_boxes(cluster, target, step) || lower_in_pieces(cluster, step))
        return;
    NestDomain domain(cluster);
    domain.choose();
    if (lower_update_apart(cluster, domain, target, step))
        return;
    LoweredPiece whole = lower_domain(domain, cluster.kind);
    step.kernel = std::move(whole.kernel);
    step.segments.push_back(std::move(whole.segment));
}

} // namespace lz::passes
