#include "passes/fuse/partition.h"

#include "ir/graph/checks.h"
#include "passes/devices/places.h"
#include "passes/fuse/demands.h"
#include "passes/lower/dot.h"
#include "passes/operations.h"
#include "passes/schedule/schedule.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

/// Clusters that may become one through a value that all of them read.
constexpr int kMaxUnions = 8;
/// Cheap operations that a cluster may repeat along a broadcast instead of reading their result.
constexpr int kMaxRepeatedOps = 8;
/// Kinds of parts that one join computes: each is a body of its kernel.
constexpr size_t kMostBodies = 24;
/// Bytes of a part's run from which on parts are computed where they are joined, however many they are: of
/// shorter ones loops begin and end more often than they store lines. Fitted on a Xeon of 2.8 GHz
/// (`bench_joins`, arithmetic).
constexpr int64_t kLongRun = 256;

class Partitioner {
public:
    Partitioner(const Graph &graph, const Target &target, FusionNotes *notes)
        : graph_(graph), target_(target), notes_(notes), stored_view_(stored_views(graph)),
          clusters_(graph, target), demands_(graph, clusters_, folds_), result_(graph.values().size(), false),
          order_head_(graph.nodes().size(), kNone), body_(graph.nodes().size(), 0) {
        for (const ValueId r : graph.results)
            result_[r] = true;
    }

    Partition run() {
        for (NodeId n = static_cast<NodeId>(graph_.nodes().size()); n-- > 0;)
            visit(n);
        return finish();
    }

private:
    using Cluster = FusionCluster;
    struct Link {
        uint32_t cluster, next;
    };
    /// How a node is computed in its cluster, and how often.
    struct Evaluation {
        Reading access;
        int64_t evals;
    };

    OpFamily family_of(const Node &node) const { return fused_family(graph_, node); }
    FoldId fold(const Node &reduction) { return fold_of_reduction(graph_, reduction, folds_); }

    // --- nodes

    void visit(NodeId n) {
        const Node &node = graph_.node(n);
        if (is_free(node.op)) {
            if (stored_view_[n])
                store_view(n);
            pass_through(n);
            return;
        }
        demands_.gather(node, uses_);
        const ClusterKind kind = kind_alone(graph_, node);
        const bool call =
            kind == ClusterKind::Contraction &&
            library_multiplies(target_, device_of(graph_, node), graph_.type(graph_.operands(node)[0]).dtype);
        const bool opaque = call || (kind != ClusterKind::Loop && kind != ClusterKind::Reduce &&
                                     kind != ClusterKind::Contraction);
        uint32_t home = kNone;
        if (!opaque && !updates_in_place(node))
            home = join(n, node);
        else
            for (ClusterUse &use : uses_)
                use.reason = call ? kLibraryProduct : opaque ? kNeedsMemory : kInPlace;
        evaluations_.clear();
        if (home == kNone)
            home = start(n, node, kind, opaque);
        else
            collect_evaluations(home);
        settle(n, node, home);
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
        keep_order(n, c);
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

    /// An inlined node: its readers read its operand.
    void pass_through(NodeId n) {
        const Node &node = graph_.node(n);
        demands_.for_each(graph_.result(node), [&](const Demand &d) {
            const uint32_t c = clusters_.find(d.cluster);
            --clusters_[c].inputs;
            if (node.operand_count == 0)
                return;
            const Reading at = through_view(graph_, node, demands_.current(d, c), clusters_[c].numel, folds_);
            demands_.add(graph_.operands(node)[0], c, at, d.evals, d.user);
        });
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
        clusters_[c].shares_bodies = joins_long_runs(node);
        if (kind == ClusterKind::Reduce)
            clusters_[c].fold = fold(node);
        clusters_.add_member(c, n, fused_ops(graph_, node));
        evaluations_.push_back(
            {kind == ClusterKind::Reduce ? Reading{Reading::Row, clusters_[c].fold} : Reading{}, numel});
        return c;
    }

    /// Edges to readers that are other kernels, outputs, notes, and what the node asks of its operands.
    void settle(NodeId n, const Node &node, uint32_t home) {
        bool stored = false;
        for (uint32_t k = 0; k < node.result_count; ++k)
            stored = stored || result_[graph_.result(node, k)];
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
        keep_order(n, home);
        Cluster &c = clusters_[home];
        if (stored) {
            c.outputs += static_cast<int>(node.result_count);
            ++(evaluations_.front().access.kind == Reading::Row ? c.row_outputs : c.full_outputs);
        }
        c.reductions += family_of(node) == OpFamily::Reduction ? 1 : 0;
        demand_operands(n, node, home);
    }

    static bool stands_alone(Op op) { return op == Op::Transfer || info(op).family == OpFamily::Effect; }

    /// What is ordered after the node comes after its cluster, and that after what the node is ordered after.
    void keep_order(NodeId n, uint32_t home) {
        for (uint32_t l = order_head_[n]; l != kNone; l = links_[l].next)
            if (const uint32_t c = clusters_.find(links_[l].cluster); c != home)
                clusters_.add_before(c, home);
        for (const NodeId before : graph_.order(graph_.node(n))) {
            links_.push_back({home, order_head_[before]});
            order_head_[before] = static_cast<uint32_t>(links_.size() - 1);
        }
    }

    void demand_operands(NodeId n, const Node &node, uint32_t home) {
        const auto operands = graph_.operands(node);
        const Cluster &c = clusters_[home];
        const OpFamily family = family_of(node);
        if (c.in_place && node.op == Op::UpdateSlice) {
            demands_.add(operands[0], home, {Reading::Stored, kNoFold}, 0, n);
            demands_.add(operands[1], home, {Reading::Full, kNoFold}, c.numel, n);
            return;
        }
        if (c.sealed || family == OpFamily::Contraction) {
            for (const ValueId v : operands)
                demands_.add(v, home, {Reading::Stored, kNoFold}, 0, n);
            return;
        }
        if (family == OpFamily::Reduction) {
            demands_.add(operands[0], home, {Reading::Full, kNoFold}, c.numel, n);
            return;
        }
        for (const auto &[access, evals] : evaluations_) {
            for (size_t i = 0; i < operands.size(); ++i) {
                Reading at = access;
                int64_t often = evals;
                if (family == OpFamily::View || (family == OpFamily::Update && i == 1)) // Pad, Concat
                    at = {Reading::Other, kNoFold, access.partial};
                else if (family == OpFamily::Update)
                    at.partial = true; // where the update is not
                else if (family == OpFamily::Gather && i == 0)
                    at = through_gather(graph_, node, access, c.numel, folds_);
                else if (family == OpFamily::Elementwise)
                    at = through_broadcast(graph_.type(graph_.result(node)).shape,
                                           graph_.type(operands[i]).shape, access, c.numel, folds_);
                if (joins_many(node)) // each part where it is, and nowhere else
                    often = std::min(evals, graph_.type(operands[i]).numel());
                demands_.add(operands[i], home, at, often, n);
            }
        }
    }

    // --- joining

    /// Whether the cluster could store the node, and with which reduction.
    bool aligned(const ClusterUse &use, const Node &node) {
        const Cluster &c = clusters_[use.cluster];
        if (use.stored() || c.sealed || c.in_place || (c.in_parts && !use.full()))
            return false;
        if (family_of(node) == OpFamily::Reduction) {
            const FoldId own = fold(node);
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

    Reason fits(const ClusterUse &use, NodeId n, const Node &node) {
        const Cluster &c = clusters_[use.cluster];
        if (use.stored() || c.sealed)
            return kNeedsMemory;
        if (!clusters_.same_place(use.cluster, n))
            return kOtherStream;
        if (!has_room(use, node))
            return kTooBig;
        const OpFamily family = family_of(node);
        const bool one_place = use.full() && !use.other() && !use.row() && !use.point();
        if (joins_many(node) &&
            (!one_place || c.fold != kNoFold || c.in_place || c.kind == ClusterKind::Contraction))
            return kManyParts;
        if (c.in_parts && (family == OpFamily::Contraction || family == OpFamily::Reduction))
            return kManyParts;
        if (family == OpFamily::Contraction) {
            if (!use.full() || use.other() || use.row() || use.point())
                return kOtherPlace;
            return c.kind == ClusterKind::Contraction || c.fold != kNoFold || c.in_place ? kOneProduct
                                                                                         : kFits;
        }
        if (family == OpFamily::Reduction) {
            if (!aligned(use, node) || use.other() || use.point() || (use.row() && use.full()))
                return kOtherAxes;
            const Fold &f = folds_[fold(node)];
            const RowLimits limits = row_limits(target_, device_of(graph_, node));
            return use.row() && !limits.fits(f.rows(), f.reduced()) ? kLongRows : kFits;
        }
        // It fails or not by all of its elements, whoever reads it (S26).
        if (std::ranges::find(use.whole, true) == use.whole.end() &&
            has_checks(node.op, graph_.type(graph_.result(node)).dtype))
            return kChecked;
        const int64_t numel = std::max<int64_t>(graph_.type(graph_.result(node)).numel(), 1);
        if (use.total() > 2 * numel) {
            if (is_expensive(node.op, graph_.type(graph_.result(node)).dtype))
                return kTooOften;
            if (c.repeated + fused_ops(graph_, node) > kMaxRepeatedOps)
                return kTooOften;
        }
        return kFits;
    }

    /// Whether the cluster's kernel stays small enough.
    bool has_room(const ClusterUse &use, const Node &node) const {
        const Cluster &c = clusters_[use.cluster];
        if (joins_many(node) && is_view_alone(c))
            return true; // a kernel of views has no operations
        if (c.shares_bodies) {
            const uint64_t body = body_of(use, node);
            const bool known = std::ranges::find(c.bodies, body) != c.bodies.end();
            return known || (c.bodies.size() < kMostBodies &&
                             c.ops + fused_ops(graph_, node) <= target_.max_scalar_ops);
        }
        return c.ops + fused_ops(graph_, node) <= target_.max_scalar_ops &&
               c.inputs + c.outputs + static_cast<int>(node.operand_count) + 1 <= target_.max_operands;
    }

    bool is_view_alone(const Cluster &c) const {
        return c.members == c.last_member && is_free(graph_.node(c.members).op);
    }

    /// Equal for nodes of parts that do the same to their elements.
    uint64_t body_of(const ClusterUse &use, const Node &node) const {
        const auto add = [](uint64_t h, uint64_t v) {
            return (h ^ (v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2))) * 0xff51afd7ed558ccdull;
        };
        const auto operands = graph_.operands(node);
        uint64_t h = use.user == kNone ? 0 : body_[use.user];
        h = add(h, static_cast<uint64_t>(node.op));
        for (const ValueId v : operands) {
            const TensorType &type = graph_.type(v);
            h = add(h, static_cast<uint64_t>(type.dtype));
            h = add(h, static_cast<uint64_t>(std::ranges::find(operands, v) - operands.begin()));
            const Node *const producer = graph_.producer(v); // a view or a maker is another access
            h = add(h, producer && is_free(producer->op) ? static_cast<uint64_t>(producer->op) : 0);
        }
        return h;
    }

    /// Whether each part is a kernel's work by itself: long runs, or rows of a few lines.
    bool joins_long_runs(const Node &node) const {
        if (!joins_many(node))
            return false;
        const TensorType &type = graph_.type(graph_.result(node));
        int64_t rows = 1;
        for (int d = 0; d < graph_.attrs(node).integer(attr::kAxis); ++d)
            rows *= type.shape[d];
        return rows > 0 && type.bytes() / rows >= kLongRun * static_cast<int64_t>(node.operand_count);
    }

    /// The cluster the node became part of, or kNone.
    uint32_t join(NodeId n, const Node &node) {
        if (uses_.empty())
            return kNone;
        bool result = false;
        for (uint32_t k = 0; k < node.result_count; ++k)
            result = result || result_[graph_.result(node, k)];
        bool can_store = false;
        for (ClusterUse &use : uses_) {
            use.reason = fits(use, n, node);
            can_store = can_store || (use.reason == kFits && aligned(use, node));
        }
        const bool alone = uses_.size() == 1 && !result && order_head_[n] == kNone;
        if (!can_store) {
            if (!alone || uses_[0].reason != kFits)
                return kNone;
            return enter(uses_[0], n, node);
        }
        // Rows of a reduction first: they save the most. Then the first that no other reader stands before.
        for (size_t i = 0, rows = 0; i < uses_.size(); ++i)
            if (uses_[i].row() && !uses_[i].full())
                std::swap(uses_[i], uses_[rows++]);
        uint32_t home = kNone;
        int unions = 0;
        for (ClusterUse &use : uses_) {
            if (use.reason != kFits || !aligned(use, node))
                continue;
            if (home == kNone) {
                if (!alone && after_a_reader(use.cluster, use.cluster, n))
                    use.reason = kCircle;
                else
                    home = enter(use, n, node);
                continue;
            }
            if (unions++ == kMaxUnions)
                break;
            // The value at every point of both, or at every row of both.
            const uint32_t c = clusters_.find(use.cluster);
            if (after_a_reader(c, home, n)) {
                use.reason = kCircle;
                continue;
            }
            if (clusters_[c].numel != clusters_[home].numel && !become_rows(use, home)) {
                use.reason = kOtherAxes;
                continue;
            }
            use.reason = clusters_.can_unite(home, c);
            if (use.reason == kFits)
                clusters_.unite(home, c);
        }
        return home;
    }

    /// A reader of the node, in neither of the clusters, has to run before the first: then that cannot make
    /// the node.
    bool after_a_reader(uint32_t cluster, uint32_t home, NodeId n) {
        int looked = 0;
        for (const ClusterUse &use : uses_) {
            const uint32_t reader = clusters_.find(use.cluster);
            if (reader == cluster || reader == home)
                continue;
            if (++looked > kMaxUnions * 4 || clusters_.leads(reader, cluster))
                return true;
        }
        for (uint32_t l = order_head_[n]; l != kNone; l = links_[l].next)
            if (const uint32_t c = clusters_.find(links_[l].cluster);
                c == cluster || clusters_.leads(c, cluster))
                return true;
        return false;
    }

    /// A cluster over the rows joins one over everything: its points become rows.
    bool become_rows(ClusterUse &use, uint32_t home) {
        Cluster &c = clusters_[use.cluster];
        const Cluster &h = clusters_[home];
        if (h.fold == kNoFold || h.reductions == 0 || c.fold != kNoFold || c.in_parts ||
            c.kind == ClusterKind::Contraction || c.numel != folds_[h.fold].rows() || !use.full() ||
            use.row() || use.point())
            return false;
        const int64_t numel = c.numel;
        c.numel = h.numel;
        c.fold = h.fold;
        if (clusters_.can_unite(home, use.cluster) == kFits) {
            std::swap(c.row_outputs, c.full_outputs);
            use.fold = c.fold;
            std::swap(use.evals[Reading::Full], use.evals[Reading::Row]);
            std::swap(use.whole[Reading::Full], use.whole[Reading::Row]);
            return true;
        }
        c.numel = numel;
        c.fold = kNoFold;
        return false;
    }

    uint32_t enter(const ClusterUse &use, NodeId n, const Node &node) {
        Cluster &c = clusters_[use.cluster];
        int ops = fused_ops(graph_, node);
        if (c.shares_bodies) {
            const uint64_t body = body_[n] = body_of(use, node);
            if (std::ranges::find(c.bodies, body) == c.bodies.end())
                c.bodies.push_back(body);
            else
                ops = 0;
        } else if (joins_many(node) && is_view_alone(c)) {
            c.shares_bodies = joins_long_runs(node);
        }
        clusters_.add_member(use.cluster, n, ops);
        c.in_parts = c.in_parts || joins_many(node);
        const OpFamily family = family_of(node);
        if (family == OpFamily::Contraction)
            c.kind = ClusterKind::Contraction;
        if (family == OpFamily::Reduction) {
            const bool first = c.fold == kNoFold;
            c.fold = fold(node);
            if (use.full() && first) {
                // What the cluster did at each point it does at each row now.
                c.numel = folds_[c.fold].numel();
                std::swap(c.row_outputs, c.full_outputs);
            }
        } else if (c.fold == kNoFold && !use.full() && use.row() && aligned(use, node)) {
            c.fold = use.fold;
        }
        if (use.total() > 2 * std::max<int64_t>(graph_.type(graph_.result(node)).numel(), 1))
            c.repeated += fused_ops(graph_, node);
        return use.cluster;
    }

    /// In the cluster a node became part of, every way in which it is read there.
    void collect_evaluations(uint32_t home) {
        for (const ClusterUse &use : uses_) {
            if (clusters_.find(use.cluster) != home)
                continue;
            for (const Reading::Kind kind : {Reading::Full, Reading::Row, Reading::Point, Reading::Other}) {
                if (use.evals[kind] < 0)
                    continue;
                const bool folded = kind == Reading::Row || kind == Reading::Point;
                evaluations_.push_back(
                    {{kind, folded ? use.fold : kNoFold, !use.whole[kind]}, use.evals[kind]});
            }
        }
    }

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
    ClusterSet clusters_;
    Folds folds_;
    Demands demands_;
    std::vector<bool> result_;
    std::vector<uint32_t> order_head_;
    std::vector<uint64_t> body_; // of nodes in joins of long runs
    std::vector<Link> links_;
    std::vector<ClusterUse> uses_;
    std::vector<Evaluation> evaluations_; // of the node at hand
};

} // namespace

Partition partition_fused(const Graph &graph, const Target &target, FusionNotes *notes) {
    return Partitioner(graph, target, notes).run();
}

} // namespace lz::passes
