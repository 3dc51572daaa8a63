#include "passes/lower/joins/concat.h"

#include "passes/lower/expr.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

// Which form a join of what is in memory has; the bits are the same. No measurements were kept; to measure,
// each constant halved and doubled: bench_joins, its stored, transposed and stepped parts.

/// Elements of a run up to which it is worth looking for rows whose elements are neighbours.
constexpr int64_t kShortRun = 8;
/// What rows are that are worth it, and how many columns may come of them.
constexpr int64_t kLeastRows = 16, kMostUnrolled = 16384;
/// Bytes of a slab that pay for the table of its parts.
constexpr int64_t kLeastSlab = 32 << 10;

class ConcatLowering {
public:
    explicit ConcatLowering(const ClusterView &cluster)
        : cluster_(cluster), graph_(*cluster.graph), exprs_(graph_, cluster.first, cluster.end) {}

    bool run(LoweredStep &step) {
        if (cluster_.kind != ClusterKind::Loop || cluster_.stored.size() != 1)
            return false;
        const ValueId out = cluster_.stored[0];
        const TensorType &type = graph_.type(out);
        const Node *join = stored_join(out);
        if (!join || type.numel() == 0)
            return false;
        axis_ = static_cast<int>(graph_.attrs(*join).integer(attr::kAxis));
        const Shape &shape = graph_.type(graph_.result(*join)).shape;
        if (!add_parts(*join))
            return false;
        collapse_outer(shape);
        if (!choose_rows(type.bytes()))
            return false;
        number(size_of(type.dtype));
        number(0); // kConcatBypasses
        write_parts();
        operands_.push_back({BufferMode::Out, out, kNone, type.bytes()});
        step.kind = StepKind::Library;
        step.symbol = kConcat;
        step.operands = std::move(operands_);
        step.ints = std::move(ints_);
        return true;
    }

private:
    bool inside(ValueId v) const { return exprs_.inside(v); }
    const Node *join_of(ValueId v) const {
        const Node *node = inside(v) ? graph_.producer(v) : nullptr;
        return node && node->op == Op::Concat ? node : nullptr;
    }
    /// Reshapes of what is stored are the same bytes.
    const Node *stored_join(ValueId v) const {
        while (inside(v) && graph_.producer(v)->op == Op::Reshape)
            v = graph_.operands(*graph_.producer(v))[0];
        return join_of(v);
    }

    void number(int64_t n) { ints_.push_back({n, {}}); }

    /// Those of joins within it along the same axis in their place.
    bool add_parts(const Node &join) {
        std::vector<ValueId> open(graph_.operands(join).rbegin(), graph_.operands(join).rend());
        while (!open.empty()) {
            const ValueId v = open.back();
            open.pop_back();
            const Node *within = join_of(v);
            if (within && graph_.attrs(*within).integer(attr::kAxis) == axis_) {
                const auto parts = graph_.operands(*within);
                open.insert(open.end(), parts.rbegin(), parts.rend());
            } else if (graph_.type(v).numel() != 0 && !add_part(v)) {
                return false;
            }
        }
        return true;
    }

    struct Axis {
        int64_t extent, stride;
    };
    /// A view of something stored.
    struct Part {
        int64_t operand;
        ArgSpec begin;
        std::vector<int64_t> outer; ///< strides of the axes before the joined one
        std::vector<Axis> run;      ///< of the joined one and those behind it
        int64_t elements = 1;       ///< of a run
    };

    bool add_part(ValueId v) {
        const Shape &shape = graph_.type(v).shape;
        Domain domain;
        domain.per_dimension = true;
        domain.shape = shape;
        for (int d = 0; d < shape.rank(); ++d)
            domain.extents.push_back(shape[d]);
        exprs_.reset(std::move(domain));
        const ExprNode &e = exprs_.expr(exprs_.pull_full(v));
        if (e.kind != ExprKind::Load || e.operands[0] != kNoExpr || e.dtype != graph_.type(v).dtype)
            return false;
        const Index &address = exprs_.addresses()[e.payload];
        if (!address.affine())
            return false;
        Part &part = parts_.emplace_back();
        part.operand = operand(e.value);
        part.begin = {address.constant, address.words};
        for (int d = 0; d < axis_; ++d)
            part.outer.push_back(address.axes[static_cast<size_t>(d)]);
        for (int d = axis_; d < shape.rank(); ++d) {
            const Axis axis = {shape[d], address.axes[static_cast<size_t>(d)]};
            part.elements *= axis.extent;
            if (axis.extent == 1)
                continue;
            if (!part.run.empty() && part.run.back().stride == axis.stride * axis.extent)
                part.run.back() = {part.run.back().extent * axis.extent, axis.stride};
            else
                part.run.push_back(axis);
        }
        return true;
    }

    /// Axes before the joined one along which all parts are strided alike are one.
    void collapse_outer(const Shape &shape) {
        std::vector<std::vector<int64_t>> strides(parts_.size());
        for (int d = 0; d < axis_; ++d) {
            if (shape[d] == 1)
                continue;
            const auto at = static_cast<size_t>(d);
            bool one = !outer_.empty();
            for (size_t p = 0; one && p < parts_.size(); ++p)
                one = strides[p].back() == parts_[p].outer[at] * shape[d];
            for (size_t p = 0; p < parts_.size(); ++p)
                if (one)
                    strides[p].back() = parts_[p].outer[at];
                else
                    strides[p].push_back(parts_[p].outer[at]);
            if (one)
                outer_.back() *= shape[d];
            else
                outer_.push_back(shape[d]);
        }
        for (size_t p = 0; p < parts_.size(); ++p)
            parts_[p].outer = std::move(strides[p]);
    }

    /// Which of them are the rows: short runs are transposed from columns that are dense along it. False if
    /// there would be many short slabs.
    bool choose_rows(int64_t bytes) {
        if (outer_.empty()) {
            outer_.push_back(1);
            for (Part &p : parts_)
                p.outer.push_back(0);
        }
        rows_ = outer_.size() - 1;
        int64_t elements = 0, slabs = 1;
        for (const Part &p : parts_)
            elements += p.elements;
        const auto parts = static_cast<int64_t>(parts_.size());
        if (elements <= kShortRun * parts) {
            int64_t unrolled = 1;
            for (size_t d = outer_.size(); d-- > 0; unrolled *= outer_[d]) {
                const auto dense =
                    std::ranges::count_if(parts_, [&](const Part &p) { return p.outer[d] == p.elements; });
                if (unrolled * parts <= kMostUnrolled && outer_[d] >= kLeastRows && 2 * dense > parts) {
                    rows_ = d;
                    break;
                }
            }
        }
        for (size_t d = 0; d < rows_; ++d)
            slabs *= outer_[d];
        return slabs == 1 || bytes >= slabs * kLeastSlab;
    }

    void write_parts() {
        const size_t unrolled = outer_.size() - rows_ - 1;
        number(static_cast<int64_t>(rows_));
        for (size_t d = 0; d < outer_.size(); ++d) {
            if (d == rows_ + 1)
                number(static_cast<int64_t>(unrolled));
            number(outer_[d]);
        }
        if (unrolled == 0)
            number(0);
        for (Part &part : parts_) {
            number(part.operand);
            ints_.push_back(std::move(part.begin));
            for (const int64_t stride : part.outer)
                number(stride);
            number(static_cast<int64_t>(part.run.size()));
            for (const Axis &axis : part.run) {
                number(axis.extent);
                number(axis.stride);
            }
        }
    }

    int64_t operand(ValueId v) {
        const auto [at, is_new] = known_.try_emplace(v, static_cast<int64_t>(operands_.size()));
        if (is_new)
            operands_.push_back({BufferMode::In, v, kNone, graph_.type(v).bytes()});
        return at->second;
    }

    const ClusterView &cluster_;
    const Graph &graph_;
    ClusterExprs exprs_;
    int axis_ = 0;
    std::vector<LoweredBuffer> operands_;
    std::unordered_map<ValueId, int64_t> known_; // operand by value
    std::vector<Part> parts_;
    std::vector<int64_t> outer_; // extents of the axes before the joined one, as few as they can be
    size_t rows_ = 0;            // the one of them that is rows; slabs are before it
    std::vector<ArgSpec> ints_;
};

} // namespace

bool lower_concat(const ClusterView &cluster, LoweredStep &step) {
    return ConcatLowering(cluster).run(step);
}

} // namespace lz::passes
