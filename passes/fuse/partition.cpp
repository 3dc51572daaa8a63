#include "passes/fuse/partition.h"

#include "ir/graph/checks.h"
#include "passes/devices/places.h"
#include "passes/explain/facts.h"
#include "passes/fuse/clusters.h"
#include "passes/fuse/state.h"
#include "passes/schedule/schedule.h"

#include <algorithm>
#include <array>

namespace lz::passes {

using namespace ir;

namespace {

/// Clusters that may become one through a value that all of them read.
constexpr int kMaxUnions = 8;
/// Cheap operations that a cluster may repeat along a broadcast instead of reading their result.
constexpr int kMaxRepeatedOps = 8;

class Partitioner {
public:
    Partitioner(const Graph &graph, const Target &target, FusionNotes *notes)
        : graph_(graph), target_(target), notes_(notes), stored_view_(stored_views(graph)),
          first_demand_(graph.values().size(), kNone), clusters_(graph, target),
          result_(graph.values().size(), false), order_head_(graph.nodes().size(), kNone) {
        for (const ValueId r : graph.results)
            result_[r] = true;
        demands_.reserve(graph.values().size() * 2);
    }

    Partition run() {
        prepare();
        for (NodeId n = static_cast<NodeId>(graph_.nodes().size()); n-- > 0;)
            visit(n);
        return finish();
    }

private:
    using Cluster = FusionCluster;
    struct Demand {
        uint32_t cluster;
        Reading access;
        int64_t numel; ///< the cluster's points when it was noted
        int64_t evals;
        NodeId user;
        uint32_t next;
    };
    struct Link {
        uint32_t cluster, next;
    };
    /// What a node's readers ask of it, one entry a cluster.
    struct Wish {
        uint32_t cluster;
        NodeId user;
        std::array<int64_t, 5> evals = {-1, -1, -1, -1, -1}; ///< by Reading::Kind, -1: not so
        std::array<bool, 5> whole = {};                      ///< likewise: all elements are read
        FoldId fold = kNoFold;                               ///< of rows and points
        Reason reason = kFits;

        bool full() const { return evals[Reading::Full] >= 0; }
        bool row() const { return evals[Reading::Row] >= 0; }
        bool point() const { return evals[Reading::Point] >= 0; }
        bool other() const { return evals[Reading::Other] >= 0; }
        bool stored() const { return evals[Reading::Stored] >= 0; }
        int64_t total() const {
            int64_t sum = 0;
            for (const int64_t e : evals)
                sum += std::max<int64_t>(e, 0);
            return sum;
        }
    };
    /// How a node is computed in its cluster, and how often.
    struct Ask {
        Reading access;
        int64_t evals;
    };

    void prepare() {
        const auto nodes = graph_.nodes();
        row_of_.assign(graph_.values().size(), kNoFold);
        for (NodeId n = 0; n < nodes.size(); ++n) {
            const Node &node = nodes[n];
            const OpFamily family = family_of(node);
            if (family == OpFamily::Reduction) {
                row_of_[graph_.result(node)] = fold(node);
            } else if (family == OpFamily::Elementwise || node.op == Op::Reshape) {
                for (const ValueId v : graph_.operands(node))
                    if (row_of_[v] != kNoFold &&
                        graph_.type(v).numel() == graph_.type(graph_.result(node)).numel())
                        row_of_[graph_.result(node)] = row_of_[v];
            }
        }
    }

    OpFamily family_of(const Node &node) const {
        const OpFamily family = info(node.op).family;
        return family == OpFamily::Reduction && !reduces(graph_, node) ? OpFamily::Elementwise : family;
    }

    FoldId fold(const Node &reduction) {
        return folds_.intern(
            fold_of(graph_.type(graph_.operands(reduction)[0]).shape, reduced_axes(graph_, reduction)));
    }

    // --- demands

    void demand(ValueId v, uint32_t cluster, Reading access, int64_t evals, NodeId user) {
        int looked = 0;
        for (uint32_t d = first_demand_[v]; d != kNone && looked < 4; d = demands_[d].next, ++looked) {
            Demand &known = demands_[d];
            if (clusters_.find(known.cluster) != cluster || known.access.kind != access.kind ||
                known.access.fold != access.fold || known.numel != clusters_[cluster].numel)
                continue;
            known.access.partial = known.access.partial && access.partial;
            // Other places may be other places each time; the rest is one place.
            known.evals = access.kind == Reading::Other || access.kind == Reading::Point
                              ? known.evals + evals
                              : std::max(known.evals, evals);
            return;
        }
        demands_.push_back({cluster, access, clusters_[cluster].numel, evals, user, first_demand_[v]});
        first_demand_[v] = static_cast<uint32_t>(demands_.size() - 1);
        ++clusters_[cluster].inputs;
    }

    /// The access as the cluster is now: it may have become the rows of a reduction since.
    Reading current(const Demand &d, uint32_t cluster) const {
        const Cluster &c = clusters_[cluster];
        if (d.numel == c.numel || d.access.kind == Reading::Stored || d.access.kind == Reading::Point)
            return d.access;
        if (d.access.kind == Reading::Full && c.fold != kNoFold)
            return {Reading::Row, c.fold, d.access.partial};
        return {Reading::Other, kNoFold, d.access.partial};
    }

    void gather_wishes(const Node &node) {
        wishes_.clear();
        for (uint32_t k = 0; k < node.result_count; ++k) {
            for (uint32_t i = first_demand_[graph_.result(node, k)]; i != kNone; i = demands_[i].next) {
                const Demand &d = demands_[i];
                const uint32_t c = clusters_.find(d.cluster);
                --clusters_[c].inputs;
                auto at = std::find_if(wishes_.begin(), wishes_.end(),
                                       [&](const Wish &w) { return w.cluster == c; });
                if (at == wishes_.end()) {
                    if (wishes_.size() > 64)
                        at = std::find_if(wishes_.begin() + 64, wishes_.end(),
                                          [&](const Wish &w) { return w.cluster == c; });
                    at = wishes_.insert(wishes_.end(), Wish{.cluster = c, .user = d.user});
                }
                Reading a = current(d, c);
                int64_t evals = d.evals;
                if (a.kind == Reading::Row || a.kind == Reading::Point) {
                    if (at->fold != kNoFold && at->fold != a.fold)
                        a = {Reading::Other, kNoFold, a.partial};
                    else
                        at->fold = a.fold;
                }
                if (a.kind == Reading::Row && rows_of(clusters_[c], graph_.result(node, k)) == a.fold)
                    evals = folds_[a.fold].rows();
                int64_t &known = at->evals[a.kind];
                known = std::max<int64_t>(known, 0) + evals;
                at->whole[a.kind] = at->whole[a.kind] || !a.partial;
            }
        }
    }

    /// The fold whose rows the cluster walks, or will walk when the reduction above the value joins.
    FoldId rows_of(const Cluster &c, ValueId v) const { return c.fold != kNoFold ? c.fold : row_of_[v]; }

    // --- nodes

    void visit(NodeId n) {
        const Node &node = graph_.node(n);
        if (is_free(node.op)) {
            if (stored_view_[n])
                store_view(n);
            pass_through(n);
            return;
        }
        gather_wishes(node);
        const ClusterKind kind = kind_alone(graph_, node);
        const bool opaque =
            kind != ClusterKind::Loop && kind != ClusterKind::Reduce && kind != ClusterKind::Contraction;
        uint32_t home = kNone;
        if (!opaque && !updates_in_place(node))
            home = join(n, node);
        else
            for (Wish &w : wishes_)
                w.reason = opaque ? kNeedsMemory : kInPlace;
        asks_.clear();
        if (home == kNone)
            home = start(n, node, kind, opaque);
        else
            collect_asks(home);
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
        clusters_.add_member(c, n);
        clusters_[c].outputs = clusters_[c].full_outputs = 1;
        keep_order(n, c);
        // Readers from memory come after it.
        uint32_t *link = &first_demand_[graph_.result(node)];
        while (*link != kNone) {
            Demand &d = demands_[*link];
            const uint32_t reader = clusters_.find(d.cluster);
            if (d.access.kind == Reading::Stored)
                clusters_.add_before(reader, c);
            if (d.access.kind == Reading::Stored && clusters_[reader].sealed)
                *link = d.next;
            else
                link = &d.next;
        }
        if (node.operand_count > 0)
            demand(graph_.operands(node)[0], c, through_view(graph_, node, {}, numel, folds_), numel, n);
    }

    /// An inlined node: its readers read its operand.
    void pass_through(NodeId n) {
        const Node &node = graph_.node(n);
        for (uint32_t i = first_demand_[graph_.result(node)]; i != kNone; i = demands_[i].next) {
            const Demand d = demands_[i];
            const uint32_t c = clusters_.find(d.cluster);
            --clusters_[c].inputs;
            if (node.operand_count == 0)
                continue;
            const Reading at = through_view(graph_, node, current(d, c), clusters_[c].numel, folds_);
            demand(graph_.operands(node)[0], c, at, d.evals, d.user);
        }
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
        if (kind == ClusterKind::Reduce)
            clusters_[c].fold = fold(node);
        clusters_.add_member(c, n);
        asks_.push_back(
            {kind == ClusterKind::Reduce ? Reading{Reading::Row, clusters_[c].fold} : Reading{}, numel});
        return c;
    }

    /// Edges to readers that are other kernels, outputs, notes, and what the node asks of its operands.
    void settle(NodeId n, const Node &node, uint32_t home) {
        bool stored = false;
        for (uint32_t k = 0; k < node.result_count; ++k)
            stored = stored || result_[graph_.result(node, k)];
        for (const Wish &w : wishes_) {
            const uint32_t c = clusters_.find(w.cluster);
            if (c == home)
                continue;
            stored = true;
            ++clusters_[c].inputs;
            clusters_.add_before(c, home);
            // Transfers and effects have their own sentences.
            if (notes_ && w.user != kNone && !stands_alone(node.op) && !stands_alone(graph_.node(w.user).op))
                notes_->kept_apart.push_back(
                    {n, w.user, reason_text(w.reason == kFits ? kOtherPlace : w.reason)});
        }
        keep_order(n, home);
        Cluster &c = clusters_[home];
        if (stored) {
            c.outputs += static_cast<int>(node.result_count);
            ++(asks_.front().access.kind == Reading::Row ? c.row_outputs : c.full_outputs);
        }
        c.reductions += family_of(node) == OpFamily::Reduction ? 1 : 0;
        ask_operands(n, node, home);
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

    void ask_operands(NodeId n, const Node &node, uint32_t home) {
        const auto operands = graph_.operands(node);
        const Cluster &c = clusters_[home];
        const OpFamily family = family_of(node);
        if (c.in_place && node.op == Op::UpdateSlice) {
            demand(operands[0], home, {Reading::Stored, kNoFold}, 0, n);
            demand(operands[1], home, {Reading::Full, kNoFold}, c.numel, n);
            return;
        }
        if (c.sealed || family == OpFamily::Contraction) {
            for (const ValueId v : operands)
                demand(v, home, {Reading::Stored, kNoFold}, 0, n);
            return;
        }
        if (family == OpFamily::Reduction) {
            demand(operands[0], home, {Reading::Full, kNoFold}, c.numel, n);
            return;
        }
        for (const auto &[access, evals] : asks_) {
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
                demand(operands[i], home, at, often, n);
            }
        }
    }

    // --- joining

    /// How a wish counts for this node: what can be stored, and with which reduction.
    bool aligned(const Wish &w, const Node &node) {
        const Cluster &c = clusters_[w.cluster];
        if (w.stored() || c.sealed || c.in_place || (c.in_parts && !w.full()))
            return false;
        if (family_of(node) == OpFamily::Reduction) {
            const FoldId own = fold(node);
            if (c.kind == ClusterKind::Contraction)
                return false;
            if (w.row() && !w.full())
                return w.fold == own && (c.fold == kNoFold || c.fold == own);
            // Rows of one element are points too.
            return w.full() && (c.fold == kNoFold || (c.fold == own && folds_[own].reduced() == 1));
        }
        if (w.full())
            return true;
        return w.row() && c.kind != ClusterKind::Contraction && rows_of(c, graph_.result(node)) == w.fold;
    }

    Reason fits(const Wish &w, NodeId n, const Node &node) {
        const Cluster &c = clusters_[w.cluster];
        if (w.stored() || c.sealed)
            return kNeedsMemory;
        if (!clusters_.same_place(w.cluster, n))
            return kOtherStream;
        if (c.ops + fused_ops(graph_, node) > target_.max_scalar_ops ||
            c.inputs + c.outputs + static_cast<int>(node.operand_count) + 1 > target_.max_operands)
            return kTooBig;
        const OpFamily family = family_of(node);
        const bool one_place = w.full() && !w.other() && !w.row() && !w.point();
        if (joins_many(node) &&
            (!one_place || c.fold != kNoFold || c.in_place || c.kind == ClusterKind::Contraction))
            return kManyParts;
        if (c.in_parts && (family == OpFamily::Contraction || family == OpFamily::Reduction))
            return kManyParts;
        if (family == OpFamily::Contraction) {
            if (!w.full() || w.other() || w.row() || w.point())
                return kOtherPlace;
            return c.kind == ClusterKind::Contraction || c.fold != kNoFold || c.in_place ? kOneProduct
                                                                                         : kFits;
        }
        if (family == OpFamily::Reduction) {
            if (!aligned(w, node) || w.other() || w.point() || (w.row() && w.full()))
                return kOtherAxes;
            const Fold &f = folds_[fold(node)];
            const RowLimits limits = row_limits(target_, device_of(graph_, node));
            return w.row() && !limits.fits(f.rows(), f.reduced()) ? kLongRows : kFits;
        }
        // It fails or not by all of its elements, whoever reads it (S26).
        if (std::ranges::find(w.whole, true) == w.whole.end() &&
            has_checks(node.op, graph_.type(graph_.result(node)).dtype))
            return kChecked;
        const int64_t numel = std::max<int64_t>(graph_.type(graph_.result(node)).numel(), 1);
        if (w.total() > 2 * numel) {
            if (is_expensive(node.op, graph_.type(graph_.result(node)).dtype))
                return kTooOften;
            if (c.repeated + fused_ops(graph_, node) > kMaxRepeatedOps)
                return kTooOften;
        }
        return kFits;
    }

    /// The cluster the node became part of, or kNone.
    uint32_t join(NodeId n, const Node &node) {
        if (wishes_.empty())
            return kNone;
        bool result = false;
        for (uint32_t k = 0; k < node.result_count; ++k)
            result = result || result_[graph_.result(node, k)];
        bool can_store = false;
        for (Wish &w : wishes_) {
            w.reason = fits(w, n, node);
            can_store = can_store || (w.reason == kFits && aligned(w, node));
        }
        const bool alone = wishes_.size() == 1 && !result && order_head_[n] == kNone;
        if (!can_store) {
            if (!alone || wishes_[0].reason != kFits)
                return kNone;
            return enter(wishes_[0], n, node);
        }
        // Rows of a reduction first: they save the most. Then the first that no other reader stands before.
        for (size_t i = 0, rows = 0; i < wishes_.size(); ++i)
            if (wishes_[i].row() && !wishes_[i].full())
                std::swap(wishes_[i], wishes_[rows++]);
        uint32_t home = kNone;
        int unions = 0;
        for (Wish &w : wishes_) {
            if (w.reason != kFits || !aligned(w, node))
                continue;
            if (home == kNone) {
                if (!alone && after_a_reader(w.cluster, w.cluster, n))
                    w.reason = kCircle;
                else
                    home = enter(w, n, node);
                continue;
            }
            if (unions++ == kMaxUnions)
                break;
            // The value at every point of both, or at every row of both.
            const uint32_t c = clusters_.find(w.cluster);
            if (after_a_reader(c, home, n)) {
                w.reason = kCircle;
                continue;
            }
            if (clusters_[c].numel != clusters_[home].numel && !become_rows(w, home)) {
                w.reason = kOtherAxes;
                continue;
            }
            w.reason = clusters_.can_unite(home, c);
            if (w.reason == kFits)
                clusters_.unite(home, c);
        }
        return home;
    }

    /// A reader of the node, in neither of the clusters, has to run before the first: then that cannot make
    /// the node.
    bool after_a_reader(uint32_t cluster, uint32_t home, NodeId n) {
        int looked = 0;
        for (const Wish &w : wishes_) {
            const uint32_t reader = clusters_.find(w.cluster);
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
    bool become_rows(Wish &w, uint32_t home) {
        Cluster &c = clusters_[w.cluster];
        const Cluster &h = clusters_[home];
        if (h.fold == kNoFold || h.reductions == 0 || c.fold != kNoFold || c.in_parts ||
            c.kind == ClusterKind::Contraction || c.numel != folds_[h.fold].rows() || !w.full() || w.row() ||
            w.point())
            return false;
        const int64_t numel = c.numel;
        c.numel = h.numel;
        c.fold = h.fold;
        if (clusters_.can_unite(home, w.cluster) == kFits) {
            std::swap(c.row_outputs, c.full_outputs);
            w.fold = c.fold;
            std::swap(w.evals[Reading::Full], w.evals[Reading::Row]);
            std::swap(w.whole[Reading::Full], w.whole[Reading::Row]);
            return true;
        }
        c.numel = numel;
        c.fold = kNoFold;
        return false;
    }

    uint32_t enter(const Wish &w, NodeId n, const Node &node) {
        Cluster &c = clusters_[w.cluster];
        clusters_.add_member(w.cluster, n);
        c.in_parts = c.in_parts || joins_many(node);
        const OpFamily family = family_of(node);
        if (family == OpFamily::Contraction)
            c.kind = ClusterKind::Contraction;
        if (family == OpFamily::Reduction) {
            const bool first = c.fold == kNoFold;
            c.fold = fold(node);
            if (w.full() && first) {
                // What the cluster did at each point it does at each row now.
                c.numel = folds_[c.fold].numel();
                std::swap(c.row_outputs, c.full_outputs);
            }
        } else if (c.fold == kNoFold && !w.full() && w.row() && aligned(w, node)) {
            c.fold = w.fold;
        }
        if (w.total() > 2 * std::max<int64_t>(graph_.type(graph_.result(node)).numel(), 1))
            c.repeated += fused_ops(graph_, node);
        return w.cluster;
    }

    /// In the cluster a node became part of, every way in which it is read there.
    void collect_asks(uint32_t home) {
        for (const Wish &w : wishes_) {
            if (clusters_.find(w.cluster) != home)
                continue;
            for (const Reading::Kind kind : {Reading::Full, Reading::Row, Reading::Point, Reading::Other}) {
                if (w.evals[kind] < 0)
                    continue;
                const bool folded = kind == Reading::Row || kind == Reading::Point;
                asks_.push_back({{kind, folded ? w.fold : kNoFold, !w.whole[kind]}, w.evals[kind]});
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
    std::vector<uint32_t> first_demand_;
    ClusterSet clusters_;
    std::vector<bool> result_;
    std::vector<uint32_t> order_head_;
    std::vector<FoldId> row_of_;
    std::vector<Demand> demands_;
    std::vector<Link> links_;
    std::vector<Wish> wishes_;
    Folds folds_;
    std::vector<Ask> asks_; // of the node at hand
};

} // namespace

Partition partition_fused(const Graph &graph, const Target &target, FusionNotes *notes) {
    return Partitioner(graph, target, notes).run();
}

} // namespace lz::passes
