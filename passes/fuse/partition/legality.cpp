#include "passes/fuse/partition/legality.h"

#include "ir/graph/checks.h"
#include "passes/devices/places.h"
#include "passes/operations.h"
#include "passes/schedule/schedule.h"

#include <algorithm>
#include <vector>

namespace lz::passes {

using namespace ir;

namespace {
/// Cheap operations that a cluster may repeat along a broadcast, or for the neighbours of a point, instead of
/// reading their result.
constexpr int kMaxRepeatedOps = 8;
/// What a reduction on a CPU reads at least the first number of times an element, and has at most the second
/// number of elements, is stored and not computed again each time: it stays in the caches, and the loop has
/// more loads of the other operand under way. A matrix of 50257 x 768 floats was read at 23 GB/s beside a row
/// that the loop normalized, and at 25 to 27 so (a Zen 4 machine; `gpt2_token` of bench_products).
constexpr int64_t kLeastReads = 256, kSmallOperand = 16 << 10;
} // namespace

bool Legality::can_store(const ClusterUse &use, const Node &node) const {
    const FusionCluster &c = clusters_[use.cluster];
    if (use.stored() || c.sealed || c.in_place || (c.in_parts && !use.full()))
        return false;
    if (fused_family(graph_, node) == OpFamily::Reduction) {
        const FoldId own = fold_of_reduction(graph_, node, folds_);
        if (c.kind == ClusterKind::Contraction)
            return false;
        if (use.row() && !use.full())
            return use.fold == own && (c.fold == kNoFold || c.fold == own);
        // Rows of one element are points too.
        return use.full() && (c.fold == kNoFold || (c.fold == own && folds_[own].reduced() == 1));
    }
    if (use.full())
        return true;
    return use.row() && c.kind != ClusterKind::Contraction &&
           demands_.rows_of(c, graph_.result(node)) == use.fold;
}

Reason Legality::check(const ClusterUse &use, NodeId n, const Node &node) const {
    const FusionCluster &c = clusters_[use.cluster];
    if (use.stored() || c.sealed)
        return kNeedsMemory;
    if (!clusters_.same_place(use.cluster, n))
        return kOtherStream;
    if (!has_room(use, node))
        return kTooBig;
    const OpFamily family = fused_family(graph_, node);
    const bool one_place = use.full() && !use.other() && !use.row() && !use.point();
    if (joins_many(node) &&
        (!one_place || c.fold != kNoFold || c.in_place || c.kind == ClusterKind::Contraction))
        return kManyParts;
    if (c.in_parts && (family == OpFamily::Contraction || family == OpFamily::Reduction))
        return kManyParts;
    if (family == OpFamily::Contraction) {
        if (!use.full() || use.other() || use.row() || use.point())
            return kOtherPlace;
        return c.kind == ClusterKind::Contraction || c.fold != kNoFold || c.in_place ? kOneProduct : kFits;
    }
    if (family == OpFamily::Reduction) {
        if (!can_store(use, node) || use.other() || use.point() || (use.row() && use.full()))
            return kOtherAxes;
        const Fold &f = folds_[fold_of_reduction(graph_, node, folds_)];
        const RowLimits limits = row_limits(target_, device_of(graph_, node));
        const int64_t bytes = size_of(graph_.type(graph_.operands(node)[0]).dtype);
        return use.row() && !limits.fits(f.rows(), f.reduced(), bytes, !f.lanes()) ? kLongRows : kFits;
    }
    // It fails or not by all of its elements, whoever reads it (S26).
    if (std::ranges::find(use.whole, true) == use.whole.end() &&
        has_checks(node.op, graph_.type(graph_.result(node)).dtype))
        return kChecked;
    const int64_t numel = std::max<int64_t>(graph_.type(graph_.result(node)).numel(), 1);
    if (use.total() > 2 * numel) {
        if (is_expensive(node.op))
            return kTooOften;
        if (c.repeated + repeated_ops(use, n, node) > kMaxRepeatedOps)
            return kTooOften;
        // What is one for each row that the cluster reduces stands before the loop.
        const bool inside = use.other() || (use.row() && use.fold != c.fold);
        if (inside && c.fold != kNoFold && runs_on_cpu(node) && fused_ops(graph_, node) > 0 &&
            numel <= kSmallOperand && use.total() >= kLeastReads * numel)
            return kTooOften;
    }
    return kFits;
}

/// The node's own; of one that a stencil reads at neighbours of each point, with all that is computed for it
/// alone. To repeat a part of that and store the rest would be the worst of both: a step of a stencil would
/// store each of the neighbours' values that the step before it reads.
int Legality::repeated_ops(const ClusterUse &use, NodeId n, const Node &node) const {
    if (!use.other() || 2 * graph_.type(graph_.result(node)).numel() < clusters_[use.cluster].numel)
        return fused_ops(graph_, node);
    int ops = 0;
    std::vector<NodeId> open = {n};
    while (!open.empty() && ops <= kMaxRepeatedOps) {
        const Node &at = graph_.node(open.back());
        open.pop_back();
        ops += is_free(at.op) ? 0 : fused_ops(graph_, at);
        for (const ValueId v : graph_.operands(at)) {
            const NodeId producer = graph_.value(v).producer;
            if (producer == kNone || uses_.count(v) != 1 || is_expensive(graph_.node(producer).op))
                continue;
            const OpFamily family = fused_family(graph_, graph_.node(producer));
            if (family == OpFamily::Elementwise || family == OpFamily::View)
                open.push_back(producer);
        }
    }
    return ops;
}

/// A virtual GPU's code is a CPU's, too.
bool Legality::runs_on_cpu(const Node &node) const {
    const DeviceInfo *const device = target_.find(device_of(graph_, node));
    return device && !device->runs_cuda();
}

int64_t Legality::memory_bytes(NodeId n) const {
    const DeviceInfo *const device = target_.find(device_of(graph_, graph_.node(n)));
    return device ? device->memory_bytes : 0;
}

/// Whether the cluster's kernel stays small enough.
bool Legality::has_room(const ClusterUse &use, const Node &node) const {
    const FusionCluster &c = clusters_[use.cluster];
    if (joins_many(node) && is_view_alone(graph_, c))
        return true; // a kernel of views has no operations
    if (c.shares_bodies)
        return bodies_.has_room(c, use, node, target_.max_scalar_ops);
    return c.ops + fused_ops(graph_, node) <= target_.max_scalar_ops &&
           c.inputs + c.outputs + static_cast<int>(node.operand_count) + 1 <= target_.max_operands;
}

} // namespace lz::passes
