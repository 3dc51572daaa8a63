#include "passes/lower/concat.h"

#include "passes/lower/expr.h"
#include "passes/schedule/cpu.h"

#include <optional>
#include <unordered_map>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

class ConcatLowering {
public:
    ConcatLowering(const ClusterView &cluster, const Target &target)
        : cluster_(cluster), graph_(*cluster.graph), target_(target),
          exprs_(graph_, cluster.first, cluster.end) {}

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
        int64_t rows = 1;
        for (int d = 0; d < axis_; ++d)
            rows *= shape[d];
        number(size_of(type.dtype));
        number(bypasses_caches(target_, step.device, type.bytes()) ? 1 : 0);
        number(rows);
        if (!add_parts(*join))
            return false;
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

    bool add_part(ValueId v) {
        const Shape &shape = graph_.type(v).shape;
        Domain domain;
        domain.per_dimension = true;
        domain.shape = shape;
        for (int d = 0; d < shape.rank(); ++d)
            domain.extents.push_back(shape[d]);
        exprs_.reset(std::move(domain));
        const Expr &e = exprs_.expr(exprs_.pull_full(v));
        if (e.kind != ExprKind::Load || e.operands[0] != kNoExpr || e.dtype != graph_.type(v).dtype)
            return false;
        const Index &address = exprs_.addresses()[e.payload];
        const auto row = stride(address, shape, 0, axis_),
                   along = stride(address, shape, axis_, shape.rank());
        if (!address.affine() || !row || !along)
            return false;
        int64_t run = 1;
        for (int d = axis_; d < shape.rank(); ++d)
            run *= shape[d];
        number(operand(e.value));
        number(run);
        number(*row);
        number(*along);
        ints_.push_back({address.constant, address.words});
        return true;
    }

    /// The one stride of the dimensions [begin, end) taken together, if they have one.
    static std::optional<int64_t> stride(const Index &address, const Shape &shape, int begin, int end) {
        int64_t stride = 0, inner = 1;
        for (int d = end; d-- > begin;) {
            if (shape[d] == 1)
                continue;
            const int64_t own = address.axes[static_cast<size_t>(d)];
            if (inner == 1)
                stride = own;
            else if (own != stride * inner)
                return std::nullopt;
            inner *= shape[d];
        }
        return stride;
    }

    int64_t operand(ValueId v) {
        const auto [at, is_new] = known_.try_emplace(v, static_cast<int64_t>(operands_.size()));
        if (is_new)
            operands_.push_back({BufferMode::In, v, kNone, graph_.type(v).bytes()});
        return at->second;
    }

    const ClusterView &cluster_;
    const Graph &graph_;
    const Target &target_;
    ClusterExprs exprs_;
    int axis_ = 0;
    std::vector<LoweredBuffer> operands_;
    std::unordered_map<ValueId, int64_t> known_; // operand by value
    std::vector<ArgSpec> ints_;
};

} // namespace

bool lower_concat(const ClusterView &cluster, const Target &target, LoweredStep &step) {
    return ConcatLowering(cluster, target).run(step);
}

} // namespace lz::passes
