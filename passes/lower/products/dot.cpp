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

int64_t product(std::span<const int64_t> extents) {
    return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

/// Notes that a map stopped being affine.
class AffineOnly final : public IndexValues {
public:
    bool failed = false;
    ExprId quotient(const Index &, int64_t) override { return fail(); }
    ExprId remainder(const Index &, int64_t) override { return fail(); }
    const Index *divided(ExprId, int64_t, bool) const override { return nullptr; }

private:
    ExprId fail() {
        failed = true;
        return 0;
    }
};

/// Stride of the axes [begin, end) taken as one, if they are one.
std::optional<int64_t> joint_stride(const Index &address, std::span<const int64_t> extents, size_t begin,
                                    size_t end) {
    std::optional<int64_t> stride;
    int64_t joint = 1;
    for (size_t a = end; a-- > begin;) {
        if (extents[a] == 1)
            continue;
        if (!stride)
            stride = address.axes[a];
        else if (address.axes[a] != *stride * joint)
            return std::nullopt;
        joint *= extents[a];
    }
    return stride.value_or(begin < end ? address.axes[end - 1] : 0);
}

/// Pairs of contracted dimensions in the order in which lhs has them in memory.
std::vector<size_t> depth_order(std::span<const int64_t> lhs_contract) {
    std::vector<size_t> order(lhs_contract.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return lhs_contract[a] < lhs_contract[b]; });
    return order;
}

bool step_through(const Graph &graph, const Node &node, std::span<const int64_t> extents, IndexMap &map,
                  IndexValues &values) {
    if (node.operand_count == 0)
        return false;
    const AttrView attrs = graph.attrs(node);
    const Shape &operand = graph.type(graph.operands(node)[0]).shape;
    switch (node.op) {
    case Op::Reshape:
        map = through_reshape(map, graph.type(graph.result(node)).shape, operand, extents, values);
        return true;
    case Op::Permute:
        map = through_permute(map, attrs.ints(attr::kAxes));
        return true;
    case Op::Broadcast:
        map = through_broadcast(map, operand);
        return true;
    case Op::Slice:
        map =
            through_slice(map, graph.type(graph.result(node)).shape, operand,
                          node.runtime_begin + static_cast<uint32_t>(attrs.runtime_index(attr::kSliceStarts)),
                          attrs.ints(attr::kSliceSteps));
        return true;
    case Op::Flip:
        map = through_flip(map, attrs.ints(attr::kAxes), operand);
        return true;
    case Op::Window:
        map = through_window(map, attrs);
        return true;
    default:
        return false;
    }
}

} // namespace

int64_t DotDims::rows() const {
    return product(m);
}
int64_t DotDims::columns() const {
    return product(n);
}
int64_t DotDims::depth() const {
    return product(k);
}

DotDims dot_dims(const Graph &graph, const Node &dot) {
    const AttrView attrs = graph.attrs(dot);
    const Shape &lhs = graph.type(graph.operands(dot)[0]).shape,
                &rhs = graph.type(graph.operands(dot)[1]).shape;
    const auto has = [](std::span<const int64_t> list, int64_t x) {
        return std::find(list.begin(), list.end(), x) != list.end();
    };
    DotDims dims;
    const auto lb = attrs.ints(attr::kDotLhsBatch), lc = attrs.ints(attr::kDotLhsContract);
    const auto rb = attrs.ints(attr::kDotRhsBatch), rc = attrs.ints(attr::kDotRhsContract);
    for (const int64_t d : lb)
        dims.batch.push_back(lhs[static_cast<int>(d)]);
    for (const size_t i : depth_order(lc))
        dims.k.push_back(lhs[static_cast<int>(lc[i])]);
    for (int d = 0; d < lhs.rank(); ++d)
        if (!has(lb, d) && !has(lc, d))
            dims.m.push_back(lhs[d]);
    for (int d = 0; d < rhs.rank(); ++d)
        if (!has(rb, d) && !has(rc, d))
            dims.n.push_back(rhs[d]);
    return dims;
}

std::optional<DotOperand> dot_operand(const Graph &graph, const Node &dot, int which,
                                      const std::function<bool(ValueId)> &look_through) {
    const AttrView attrs = graph.attrs(dot);
    const DotDims dims = dot_dims(graph, dot);
    ValueId value = graph.operands(dot)[static_cast<size_t>(which)];
    const auto &own = which == 0 ? dims.m : dims.n;
    std::vector<int64_t> extents = dims.batch;
    extents.insert(extents.end(), own.begin(), own.end());
    extents.insert(extents.end(), dims.k.begin(), dims.k.end());
    if (extents.size() > static_cast<size_t>(kMaxAxes))
        return std::nullopt;

    const auto batch = attrs.ints(which == 0 ? attr::kDotLhsBatch : attr::kDotRhsBatch);
    const auto contract = attrs.ints(which == 0 ? attr::kDotLhsContract : attr::kDotRhsContract);
    IndexMap map(static_cast<size_t>(graph.type(value).shape.rank()));
    std::vector<bool> taken(map.size(), false);
    const size_t free_begin = dims.batch.size(), k_begin = free_begin + own.size();
    const auto set = [&](int64_t d, size_t axis) {
        map[static_cast<size_t>(d)] = Index::axis(static_cast<int>(axis));
        taken[static_cast<size_t>(d)] = true;
    };
    for (size_t i = 0; i < batch.size(); ++i)
        set(batch[i], i);
    const auto order = depth_order(attrs.ints(attr::kDotLhsContract));
    for (size_t i = 0; i < contract.size(); ++i)
        set(contract[order[i]], k_begin + i);
    size_t next = free_begin;
    for (size_t d = 0; d < map.size(); ++d)
        if (!taken[d])
            map[d] = Index::axis(static_cast<int>(next++));

    AffineOnly values;
    while (look_through(value)) {
        const Node &node = *graph.producer(value);
        if (!step_through(graph, node, extents, map, values) || values.failed)
            return std::nullopt;
        value = graph.operands(node)[0];
    }
    DotOperand operand{value, linearize(map, graph.type(value).shape, nullptr), {}, 0, 0};
    const auto free = joint_stride(operand.address, extents, free_begin, k_begin);
    const auto k = joint_stride(operand.address, extents, k_begin, extents.size());
    if (!free || !k)
        return std::nullopt;
    operand.free = *free;
    operand.k = *k;
    for (size_t i = 0; i < dims.batch.size(); ++i)
        operand.batch.push_back(operand.address.axes[i]);
    return operand;
}

std::optional<std::vector<int64_t>> strides_through_views(const Graph &graph, ValueId value) {
    const Shape &shape = graph.type(value).shape;
    const std::vector<int64_t> extents(shape.begin(), shape.end());
    IndexMap map;
    for (int d = 0; d < shape.rank(); ++d)
        map.push_back(Index::axis(d));
    AffineOnly values;
    for (const Node *node = graph.producer(value); node && is_free(node->op) && node->operand_count > 0;
         node = graph.producer(value)) {
        if (!step_through(graph, *node, extents, map, values) || values.failed)
            return std::nullopt;
        value = graph.operands(*node)[0];
    }
    const Index address = linearize(map, graph.type(value).shape, nullptr);
    return std::vector<int64_t>(address.axes.begin(), address.axes.begin() + shape.rank());
}

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
        lhs_ = dot_operand(graph_, *dot_, 0, look_through);
        rhs_ = dot_operand(graph_, *dot_, 1, look_through);
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
        while (!dims_.batch.empty() && rhs_->batch.back() == 0 &&
               (lhs_->batch.back() == lhs_->free * dims_.rows() || dims_.batch.back() == 1)) {
            dims_.m.insert(dims_.m.begin(), dims_.batch.back());
            dims_.batch.pop_back();
            lhs_->batch.pop_back();
            rhs_->batch.pop_back();
        }
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
                a.strides.push_back(e.stride(e.axis(static_cast<int>(i)), o.batch[i], false));
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
                a.strides.push_back(e.stride(axis, stride, false));
        };
        if (free_first)
            add(k, o.k, dims_.depth(), k_contiguous);
        add(free, o.free, free_extent, free_contiguous);
        if (!free_first)
            add(k, o.k, dims_.depth(), k_contiguous);
        return a;
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
