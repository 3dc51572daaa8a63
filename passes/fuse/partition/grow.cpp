#include "passes/fuse/partition/grow.h"

#include "passes/operations.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {
/// Clusters that may become one through a value that all of them read.
constexpr int kMaxUnions = 8;
} // namespace

uint32_t Growth::take_in(NodeId n, const Node &node, std::vector<ClusterUse> &uses, bool is_result) {
    if (uses.empty())
        return kNone;
    bool can_store = false;
    for (ClusterUse &use : uses) {
        use.reason = legality_.check(use, n, node);
        can_store = can_store || (use.reason == kFits && legality_.can_store(use, node));
    }
    const bool alone = uses.size() == 1 && !is_result && !clusters_.is_ordered(n);
    if (!can_store) {
        if (!alone || uses[0].reason != kFits)
            return kNone;
        return enter(uses[0], n, node);
    }
    // Rows of a reduction first: they save the most. Then the first that no other reader stands before.
    for (size_t i = 0, rows = 0; i < uses.size(); ++i)
        if (uses[i].row() && !uses[i].full())
            std::swap(uses[i], uses[rows++]);
    uint32_t home = kNone;
    int unions = 0;
    for (ClusterUse &use : uses) {
        if (use.reason != kFits || !legality_.can_store(use, node))
            continue;
        if (home == kNone) {
            if (!alone && after_a_reader(uses, use.cluster, use.cluster, n))
                use.reason = kCircle;
            else
                home = enter(use, n, node);
            continue;
        }
        if (unions++ == kMaxUnions)
            break;
        // The value at every point of both, or at every row of both.
        const uint32_t c = clusters_.find(use.cluster);
        if (after_a_reader(uses, c, home, n)) {
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

/// Whether what both store at most may be in memory at once.
bool Growth::keep_little(uint32_t a, uint32_t b) const {
    const auto elements = [&](const FusionCluster &c) {
        const int64_t rows = c.fold == kNoFold ? 0 : folds_[c.fold].rows();
        return static_cast<double>(c.full_outputs) * static_cast<double>(c.numel) +
               static_cast<double>(c.row_outputs) * static_cast<double>(rows);
    };
    const int64_t memory = legality_.memory_bytes(clusters_[a].members);
    constexpr double kMostBytes = 8; // of an element
    return memory == 0 || kMostBytes * (elements(clusters_[a]) + elements(clusters_[b])) <=
                              kMemoryOfGroup * static_cast<double>(memory);
}

void Growth::unite_readers(ValueId v, const Demands &demands) {
    const NodeId producer = graph_.value(v).producer;
    if (producer != kNone && info(graph_.node(producer).op).family == OpFamily::Maker)
        return;
    // A number that kernels over more points read as well is shared by all: those over one point would no
    // longer be segments of one launch with them.
    bool is_shared = false;
    if (graph_.type(v).numel() == 1)
        demands.for_each(v, [&](const Demand &d) {
            is_shared |= demands.current(d, clusters_.find(d.cluster)).kind != Reading::Full;
        });
    if (is_shared)
        return;
    const uint32_t made = producer == kNone ? kNone : clusters_.of(producer);
    std::array<uint32_t, kMaxUnions> homes; // in none of which the others have a place
    size_t count = 0;
    demands.for_each(v, [&](const Demand &d) {
        const uint32_t c = clusters_.find(d.cluster);
        if (c == made || count == homes.size() || demands.current(d, c).kind != Reading::Full)
            return;
        for (size_t i = 0; i < count; ++i) {
            if (homes[i] == c)
                return;
            if (keep_little(homes[i], c) && clusters_.can_unite(homes[i], c) == kFits)
                return clusters_.unite(homes[i], c);
        }
        homes[count++] = c;
    });
}

/// A reader of the node, in neither of the clusters, has to run before the first: then that cannot make
/// the node.
bool Growth::after_a_reader(std::span<const ClusterUse> uses, uint32_t cluster, uint32_t home, NodeId n) {
    int looked = 0;
    for (const ClusterUse &use : uses) {
        const uint32_t reader = clusters_.find(use.cluster);
        if (reader == cluster || reader == home)
            continue;
        if (++looked > kMaxUnions * 4 || clusters_.leads(reader, cluster))
            return true;
    }
    return clusters_.any_ordered_after(
        n, [&](uint32_t c) { return c == cluster || clusters_.leads(c, cluster); });
}

/// A cluster over the rows joins one over everything: its points become rows.
bool Growth::become_rows(ClusterUse &use, uint32_t home) {
    FusionCluster &c = clusters_[use.cluster];
    const FusionCluster &h = clusters_[home];
    if (h.fold == kNoFold || h.reductions == 0 || c.fold != kNoFold || c.in_parts ||
        c.kind == ClusterKind::Contraction || c.numel != folds_[h.fold].rows() || !use.full() || use.row() ||
        use.point())
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

uint32_t Growth::enter(const ClusterUse &use, NodeId n, const Node &node) {
    FusionCluster &c = clusters_[use.cluster];
    int ops = fused_ops(graph_, node);
    if (c.shares_bodies)
        ops = bodies_.enter(c, use, n, node);
    else if (joins_many(node) && is_view_alone(graph_, c))
        c.shares_bodies = joins_long_runs(graph_, node);
    clusters_.add_member(use.cluster, n, ops);
    c.in_parts = c.in_parts || joins_many(node);
    const OpFamily family = fused_family(graph_, node);
    if (family == OpFamily::Contraction)
        c.kind = ClusterKind::Contraction;
    if (family == OpFamily::Reduction) {
        const bool first = c.fold == kNoFold;
        c.fold = fold_of_reduction(graph_, node, folds_);
        if (use.full() && first) {
            // What the cluster did at each point it does at each row now.
            c.numel = folds_[c.fold].numel();
            std::swap(c.row_outputs, c.full_outputs);
        }
    } else if (c.fold == kNoFold && !use.full() && use.row() && legality_.can_store(use, node)) {
        c.fold = use.fold;
    }
    if (use.total() > 2 * std::max<int64_t>(graph_.type(graph_.result(node)).numel(), 1))
        c.repeated += fused_ops(graph_, node);
    return use.cluster;
}

} // namespace lz::passes
