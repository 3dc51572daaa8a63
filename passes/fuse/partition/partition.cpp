#include "passes/fuse/partition/partition.h"

#include "passes/devices/places.h"
#include "passes/fuse/partition/demands.h"
#include "passes/fuse/partition/grow.h"
#include "passes/fuse/partition/single.h"
#include "passes/fuse/partition/strided_rows.h"
#include "passes/lower/products/dot.h"
#include "passes/lower/products/epilogue.h"
#include "passes/operations.h"
#include "passes/schedule/schedule.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

class Partitioner {
public:
    Partitioner(const Graph &graph, const Target &target, FusionNotes *notes)
        : graph_(graph), target_(target), notes_(notes), stored_view_(stored_views(graph, target)),
          below_rows_(permutes_below_rows(graph, target)), clusters_(graph, target),
          demands_(graph, clusters_, folds_), bodies_(graph),
          legality_(graph, target, clusters_, demands_, bodies_, folds_),
          growth_(graph, clusters_, folds_, bodies_, legality_), result_(graph.values().size(), false) {
        for (const ValueId r : graph.results)
            result_[r] = true;
    }

    Partition run() {
        for (NodeId n = static_cast<NodeId>(graph_.nodes().size()); n-- > 0;)
            visit(n);
        for (ValueId v = 0; v < graph_.values().size(); ++v)
            growth_.unite_readers(v, demands_);
        return finish();
    }

private:
    using Cluster = FusionCluster;

    void visit(NodeId n) {
        const Node &node = graph_.node(n);
        if (below_rows_[n]) {
            store_for_rows(n);
            return;
        }
        if (is_free(node.op)) {
            if (stored_view_[n])
                store_view(n);
            demands_.pass_through(n);
            return;
        }
        demands_.gather(node, uses_);
        const ClusterKind kind = kind_alone(graph_, node);
        const bool call = kind == ClusterKind::Contraction &&
                          library_multiplies(graph_, node, target_, device_of(graph_, node));
        const bool opaque = call || (kind != ClusterKind::Loop && kind != ClusterKind::Reduce &&
                                     kind != ClusterKind::Contraction);
        uint32_t home = call ? epilogue_of(n, node) : kNone;
        if (home != kNone) {
            clusters_.add_member(home, n, fused_ops(graph_, node));
            clusters_[home].kind = ClusterKind::Contraction;
            clusters_[home].sealed = true;
            clusters_.keep_order(n, home);
            demands_.add_operands(n, home, {});
            return;
        }
        if (!opaque && !updates_in_place(node))
            home = growth_.take_in(n, node, uses_, is_result(node));
        else
            for (ClusterUse &use : uses_)
                use.reason = call ? kLibraryProduct : opaque ? kNeedsMemory : kInPlace;
        if (home == kNone)
            home = start(n, node, kind, opaque);
        else
            evaluations_in(home, uses_, clusters_, evaluations_);
        settle(n, node, home);
    }

    /// The one cluster that reads the product, if it does no more than what the library can do before it
    /// stores; else kNone.
    uint32_t epilogue_of(NodeId n, const Node &node) {
        if (uses_.size() != 1 || is_result(node))
            return kNone;
        const uint32_t c = clusters_.find(uses_[0].cluster);
        const Cluster &reader = clusters_[c];
        if (reader.kind != ClusterKind::Loop || reader.sealed || reader.in_place || reader.reductions > 0 ||
            reader.outputs != 1 || !uses_[0].full() || !clusters_.same_place(c, n) || clusters_.is_ordered(n))
            return kNone;
        int members = 0;
        clusters_.for_each_member(c, [&](NodeId) { ++members; });
        const auto inside = [&](ValueId v) {
            const NodeId p = graph_.value(v).producer;
            return p != kNone &&
                   (p == n || clusters_.of(p) == c || (is_free(graph_.node(p).op) && !below_rows_[p]));
        };
        const auto made = product_epilogue(graph_, node, graph_.result(graph_.node(reader.high)), inside,
                                           target_.modes.fast_math);
        return made && made->nodes == members ? c : kNone;
    }

    bool is_result(const Node &node) const {
        for (uint32_t k = 0; k < node.result_count; ++k)
            if (result_[graph_.result(node, k)])
                return true;
        return false;
    }

    bool updates_in_place(const Node &node) const {
        if (node.op != Op::UpdateSlice)
            return false;
        const Node *x = graph_.producer(graph_.operands(node)[0]);
        return !x || !is_free(x->op);
    }

    /// A cluster of its own for the view, beside the copies in its readers.
    void store_view(NodeId n) {
        const Node &node = graph_.node(n);
        const int64_t numel = graph_.type(graph_.result(node)).numel();
        const uint32_t c = clusters_.add(ClusterKind::Loop, numel);
        clusters_.add_member(c, n, fused_ops(graph_, node));
        clusters_[c].outputs = clusters_[c].full_outputs = 1;
        clusters_.keep_order(n, c);
        // Readers from memory come after it.
        const ValueId v = graph_.result(node);
        demands_.remove_if(v, [&](const Demand &d) {
            const uint32_t reader = clusters_.find(d.cluster);
            if (d.access.kind == Reading::Stored)
                clusters_.add_before(reader, c);
            return d.access.kind == Reading::Stored && clusters_[reader].sealed &&
                   clusters_[reader].kind != ClusterKind::Contraction; // that reads through views
        });
        if (node.operand_count > 0)
            demands_.add(graph_.operands(node)[0], c, through_view(graph_, node, {}, numel, folds_), numel,
                         n);
    }

    /// A cluster of its own for the permute, whose result its readers find in memory.
    void store_for_rows(NodeId n) {
        const Node &node = graph_.node(n);
        stored_view_[n] = false; // that would be copied into its readers
        demands_.gather(node, uses_);
        for (ClusterUse &use : uses_)
            use.reason = kStridedRows;
        const uint32_t home = start(n, node, ClusterKind::Loop, false);
        note_readers(n, node, home);
        demands_.add(graph_.operands(node)[0], home,
                     through_view(graph_, node, {}, clusters_[home].numel, folds_), clusters_[home].numel, n);
    }

    uint32_t start(NodeId n, const Node &node, ClusterKind kind, bool opaque) {
        int64_t numel = node.result_count > 0 ? graph_.type(graph_.result(node)).numel() : 0;
        if (kind == ClusterKind::Reduce)
            numel = graph_.type(graph_.operands(node)[0]).numel();
        const bool in_place = updates_in_place(node);
        if (in_place)
            numel = graph_.type(graph_.operands(node)[1]).numel();
        const uint32_t c = clusters_.add(kind, numel);
        clusters_[c].sealed = opaque;
        clusters_[c].in_place = in_place;
        clusters_[c].in_parts = joins_many(node);
        clusters_[c].shares_bodies = joins_long_runs(graph_, node);
        if (kind == ClusterKind::Reduce)
            clusters_[c].fold = fold_of_reduction(graph_, node, folds_);
        clusters_.add_member(c, n, fused_ops(graph_, node));
        evaluations_.assign(
            1, {kind == ClusterKind::Reduce ? Reading{Reading::Row, clusters_[c].fold} : Reading{}, numel});
        return c;
    }

    /// Edges to readers that are other kernels, outputs, notes, and what the node asks of its operands.
    void settle(NodeId n, const Node &node, uint32_t home) {
        note_readers(n, node, home);
        clusters_[home].reductions += fused_family(graph_, node) == OpFamily::Reduction ? 1 : 0;
        demands_.add_operands(n, home, evaluations_);
    }

    void note_readers(NodeId n, const Node &node, uint32_t home) {
        bool stored = is_result(node);
        for (const ClusterUse &use : uses_) {
            const uint32_t c = clusters_.find(use.cluster);
            if (c == home)
                continue;
            stored = true;
            ++clusters_[c].inputs;
            clusters_.add_before(c, home);
            // Transfers and effects have their own sentences.
            if (notes_ && use.user != kNone && !stands_alone(node.op) &&
                !stands_alone(graph_.node(use.user).op))
                notes_->kept_apart.push_back(
                    {n, use.user, reason_text(use.reason == kFits ? kOtherPlace : use.reason)});
        }
        clusters_.keep_order(n, home);
        Cluster &c = clusters_[home];
        if (stored) {
            c.outputs += static_cast<int>(node.result_count);
            ++(evaluations_.front().access.kind == Reading::Row ? c.row_outputs : c.full_outputs);
        }
    }

    static bool stands_alone(Op op) { return op == Op::Transfer || info(op).family == OpFamily::Effect; }

    Partition finish() {
        Partition p;
        p.stored_view = stored_view_;
        p.cluster.assign(graph_.nodes().size(), kInlined);
        std::vector<int32_t> number(clusters_.size(), -1);
        for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
            const uint32_t c = clusters_.of(n);
            if (c == kNone)
                continue;
            const Cluster &cluster = clusters_[c];
            // Rows of a reduction that could not join after all: what was to be stored with them stands
            // alone.
            const bool broken = cluster.reductions == 0 && cluster.row_outputs > 0;
            if (number[c] < 0 || broken) {
                number[c] = static_cast<int32_t>(p.kind.size());
                p.kind.push_back(broken ? kind_alone(graph_, graph_.node(n)) : kind_of(cluster));
            }
            p.cluster[n] = number[c];
        }
        return p;
    }

    static ClusterKind kind_of(const Cluster &c) {
        if (c.sealed || c.kind == ClusterKind::Contraction)
            return c.kind;
        if (c.reductions == 0)
            return ClusterKind::Loop;
        return c.reductions > 1 || c.full_outputs > 0 ? ClusterKind::Row : ClusterKind::Reduce;
    }

    const Graph &graph_;
    const Target &target_;
    FusionNotes *notes_;
    std::vector<bool> stored_view_;
    std::vector<bool> below_rows_;
    ClusterSet clusters_;
    Folds folds_;
    Demands demands_;
    PartBodies bodies_;
    const Legality legality_;
    Growth growth_;
    std::vector<bool> result_; // by value
    std::vector<ClusterUse> uses_;
    std::vector<Evaluation> evaluations_; // of the node at hand
};

} // namespace

Partition partition_fused(const Graph &graph, const Target &target, FusionNotes *notes) {
    return Partitioner(graph, target, notes).run();
}

} // namespace lz::passes
