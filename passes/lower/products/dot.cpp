#include "passes/lower/products/dot.h"

#include "ir/diagnostic.h"
#include "ir/kernel/builder.h"
#include "passes/lower/domain.h"
#include "passes/lower/emit.h"
#include "passes/lower/products/epilogue.h"
#include "passes/operations.h"

#include <algorithm>
#include <numeric>

namespace lz::passes {

using namespace ir;

namespace {

class DotLowering {
public:
    DotLowering(const ClusterView &cluster, const Target &target, LoweredStep &step)
        : cluster_(cluster), graph_(*cluster.graph), target_(target), step_(step),
          exprs_(graph_, cluster.first, cluster.end) {
        for (NodeId n = cluster.first; n < cluster.end; ++n)
            if (graph_.node(n).op == Op::Dot)
                dot_ = &graph_.node(n);
        LZ_CHECK(dot_ != nullptr, "a contraction cluster has no product");
    }

    void run() {
        dims_ = dot_dims(graph_, *dot_);
        const auto look_through = [&](ValueId v) { return exprs_.inside(v); };
        const bool gathers = gathers_operands(graph_, *dot_, target_);
        lhs_ = dot_operand(graph_, *dot_, 0, gathers, look_through);
        rhs_ = dot_operand(graph_, *dot_, 1, gathers, look_through);
        LZ_CHECK(lhs_ && rhs_, "an operand of a product is not strided");
        fold_batch();
        if (call_library())
            return;
        pull_outputs();
        emit();
    }

private:
    /// Batches that only lhs walks, as rows above its rows, are rows.
    void fold_batch() {
        while (!dims_.batch.empty() && rhs_->batch.back() == 0 && lhs_batch_is_rows()) {
            if (lhs_->gathered())
                add_rows({dims_.batch.back(), lhs_->batch.back()}, lhs_->free_digits);
            dims_.m.insert(dims_.m.begin(), dims_.batch.back());
            dims_.batch.pop_back();
            lhs_->batch.pop_back();
            rhs_->batch.pop_back();
        }
    }

    bool lhs_batch_is_rows() const {
        if (lhs_->gathered())
            return lhs_->free_digits.size() + lhs_->k_digits.size() < kMostDotDigits;
        return lhs_->batch.back() == lhs_->free * dims_.rows() || dims_.batch.back() == 1;
    }
    static void add_rows(DotDigit outer, std::vector<DotDigit> &digits) {
        if (outer.stride == digits[0].stride * digits[0].extent)
            digits[0].extent *= outer.extent;
        else
            digits.insert(digits.begin(), outer);
    }

    // --- as a call of the library

    /// One of the two strides is 1, and the other no less than what lies within it: rows or columns that do
    /// not overlap. Of an extent of 1 the stride does not count.
    static bool is_matrix(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride) {
        const auto by = [](int64_t outer, int64_t outer_stride, int64_t inner, int64_t inner_stride) {
            return (inner == 1 || inner_stride == 1) && (outer == 1 || outer_stride >= inner);
        };
        return by(rows, row_stride, columns, column_stride) || by(columns, column_stride, rows, row_stride);
    }

    /// How what is stored is made of the product, if the library makes all of it.
    std::optional<ProductEpilogue> epilogue() const {
        if (cluster_.stored.size() != 1)
            return std::nullopt;
        return product_epilogue(
            graph_, *dot_, cluster_.stored[0], [&](ValueId v) { return exprs_.inside(v); },
            target_.modes.fast_math);
    }

    bool call_library() {
        const int64_t m = dims_.rows(), n = dims_.columns(), k = dims_.depth();
        const DType dtype = graph_.type(lhs_->base).dtype;
        const auto made = epilogue();
        if (!library_multiplies(graph_, *dot_, target_, step_.device) || !made || k == 0 ||
            graph_.type(cluster_.stored[0]).numel() == 0 || !is_matrix(m, lhs_->free, k, lhs_->k) ||
            !is_matrix(k, rhs_->k, n, rhs_->free))
            return false;
        const auto negative = [](int64_t stride) { return stride < 0; };
        if (std::ranges::any_of(lhs_->batch, negative) || std::ranges::any_of(rhs_->batch, negative))
            return false;
        step_.kind = StepKind::Library;
        step_.symbol = kDot;
        const auto integer = [&](int64_t value) { step_.ints.push_back({value, {}}); };
        for (const int64_t value :
             {static_cast<int64_t>(dtype), m, n, k, lhs_->free, lhs_->k, rhs_->k, rhs_->free})
            integer(value);
        step_.ints.push_back({lhs_->address.constant, lhs_->address.words});
        step_.ints.push_back({rhs_->address.constant, rhs_->address.words});
        integer(static_cast<int64_t>(dims_.batch.size()));
        for (size_t i = 0; i < dims_.batch.size(); ++i)
            for (const int64_t value : {dims_.batch[i], lhs_->batch[i], rhs_->batch[i]})
                integer(value);
        integer(made->what);
        integer(static_cast<int64_t>(target_.modes.float32_matmul));
        for (const ValueId v : {lhs_->base, rhs_->base})
            step_.operands.push_back({BufferMode::In, v, kNone, graph_.type(v).bytes()});
        const ValueId out = cluster_.stored[0];
        step_.operands.push_back({BufferMode::Out, out, kNone, graph_.type(out).bytes()});
        if (made->bias != kNone)
            step_.operands.push_back({BufferMode::In, made->bias, kNone, graph_.type(made->bias).bytes()});
        return true;
    }

    // --- as a kernel

    Domain domain() const {
        Domain d;
        d.extents = dims_.batch;
        d.extents.push_back(dims_.rows());
        d.extents.push_back(dims_.columns());
        int64_t stride = 1;
        for (size_t a = d.extents.size(); a-- > 0;) {
            d.full.axes[a] = stride;
            stride *= d.extents[a];
        }
        const Shape &shape = graph_.type(graph_.result(*dot_)).shape;
        if (dims_.m.size() == 1 && dims_.n.size() == 1 &&
            shape.rank() == static_cast<int>(d.extents.size())) {
            d.per_dimension = true;
            d.shape = shape;
        }
        d.rows = d.full;
        return d;
    }

    void pull_outputs() {
        exprs_.reset(domain());
        for (const ValueId v : cluster_.stored)
            outputs_.push_back({v, exprs_.pull_full(v)});
        const size_t n = exprs_.domain().extents.size();
        axes_.of_axis.resize(n);
        std::iota(axes_.of_axis.begin(), axes_.of_axis.end(), 0);
        axes_.extents = exprs_.domain().extents;
        axes_.reduced.assign(n, false);
        for (size_t a = 0; a < n; ++a)
            axes_.members.push_back(1u << a);
    }

    Access operand_access(KernelEmitter &e, const DotOperand &o, AxisId free, AxisId k, bool free_first) {
        Access a;
        a.buffer = e.input(o.base);
        if (o.address.constant != 0 || !o.address.words.empty())
            a.offset = e.arg(ArgRole::Offset, o.address);
        for (size_t i = 0; i < o.batch.size(); ++i)
            if (o.batch[i] != 0)
                a.strides.push_back(e.strided(e.axis(static_cast<int>(i)), o.batch[i]));
        if (o.gathered())
            return a;
        // An extent of 1 has whatever stride makes the usual class.
        const int64_t free_extent = free_first ? dims_.columns() : dims_.rows();
        const bool unit_free = o.free == 1 || (free_extent == 1 && o.k != 1);
        const bool unit_k = o.k == 1 || (dims_.depth() == 1 && o.free != 1);
        const bool free_contiguous = free_first ? unit_free : unit_free && !unit_k;
        const bool k_contiguous = free_first ? unit_k && !unit_free : unit_k;
        const auto add = [&](AxisId axis, int64_t stride, int64_t extent, bool contiguous) {
            if (contiguous)
                a.strides.push_back({axis, StrideClass::Contiguous, kNoArg});
            else if (stride != 0 || extent == 1)
                a.strides.push_back(e.strided(axis, stride));
        };
        if (free_first)
            add(k, o.k, dims_.depth(), k_contiguous);
        add(free, o.free, free_extent, free_contiguous);
        if (!free_first)
            add(k, o.k, dims_.depth(), k_contiguous);
        return a;
    }

    static std::vector<ContractionDigit> digits(KernelEmitter &e, const DotOperand &o, AxisId free,
                                                AxisId k) {
        std::vector<ContractionDigit> all;
        const auto add = [&](AxisId axis, const std::vector<DotDigit> &digits) {
            for (const DotDigit &d : digits) {
                const ArgId extent = e.arg(ArgRole::Extent, d.extent);
                all.push_back({axis, extent, e.arg(ArgRole::Stride, d.stride)});
            }
        };
        add(free, o.free_digits);
        add(k, o.k_digits);
        return all;
    }

    void emit() {
        KernelEmitter e(exprs_, axes_);
        KernelBuilder &b = e.builder();
        const size_t batches = dims_.batch.size();
        e.set_contiguous(static_cast<int>(batches) + 1, -1);
        const AxisId k = e.add_axis(dims_.depth());
        Contraction c;
        c.m = e.axis(static_cast<int>(batches));
        c.n = e.axis(static_cast<int>(batches) + 1);
        c.k = k;
        c.dtype = graph_.type(lhs_->base).dtype;
        c.lhs = operand_access(e, *lhs_, c.m, k, false);
        c.rhs = operand_access(e, *rhs_, c.n, k, true);
        c.lhs_digits = digits(e, *lhs_, c.m, k);
        c.rhs_digits = digits(e, *rhs_, c.n, k);
        c.accumulate = product_accumulation(c.dtype, graph_.type(graph_.result(*dot_)).dtype);
        c.ascending = target_.modes.reproducible && is_float(c.dtype);

        std::vector<uint16_t> buffers;
        for (const auto &[v, expr] : outputs_)
            buffers.push_back(e.output(v));
        std::vector<AxisId> grid;
        for (size_t a = 0; a < batches; ++a)
            grid.push_back(e.axis(static_cast<int>(a)));
        grid.push_back(c.m);
        grid.push_back(c.n);
        b.begin_phase(std::move(grid), true).contraction = std::move(c);
        for (size_t i = 0; i < outputs_.size(); ++i)
            e.store(buffers[i], exprs_.domain().full, outputs_[i].second);
        b.end_phase();
        b.kernel().name = name(cluster_.kind);
        step_.kernel = b.take();
        step_.segments.push_back(std::move(e.segment()));
    }

    const ClusterView &cluster_;
    const Graph &graph_;
    const Target &target_;
    LoweredStep &step_;
    ClusterExprs exprs_;
    const Node *dot_ = nullptr;
    DotDims dims_;
    std::optional<DotOperand> lhs_, rhs_;
    std::vector<std::pair<ValueId, ExprId>> outputs_;
    Collapsed axes_;
};

} // namespace

bool library_multiplies(const Graph &graph, const Node &dot, const Target &target, Device device) {
    const DType dtype = graph.type(graph.operands(dot)[0]).dtype;
    const DeviceInfo *const info = target.find(device);
    return !target.modes.reproducible && is_float(dtype) && graph.type(graph.result(dot)).dtype == dtype &&
           info && info->library && info->has_function(kDot);
}

void lower_dot(const ClusterView &cluster, const Target &target, LoweredStep &step) {
    DotLowering(cluster, target, step).run();
}

} // namespace lz::passes
