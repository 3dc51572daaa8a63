#include "passes/fuse/partition/demands.h"

#include "passes/operations.h"

namespace lz::passes {

using namespace ir;

namespace {
/// Demands on a value that are looked at for one to add to.
constexpr int kMostLookedAt = 4;
/// Clusters up to which those of a node are searched from the first.
constexpr size_t kManyUses = 64;
} // namespace

int64_t ClusterUse::total() const {
    int64_t sum = 0;
    for (const int64_t e : evals)
        sum += std::max<int64_t>(e, 0);
    return sum;
}

FoldId fold_of_reduction(const Graph &graph, const Node &reduction, Folds &folds) {
    return folds.intern(
        fold_of(graph.type(graph.operands(reduction)[0]).shape, reduced_axes(graph, reduction)));
}

OpFamily fused_family(const Graph &graph, const Node &node) {
    const OpFamily family = info(node.op).family;
    return family == OpFamily::Reduction && !reduces(graph, node) ? OpFamily::Elementwise : family;
}

Demands::Demands(const Graph &graph, ClusterSet &clusters, Folds &folds)
    : graph_(graph), clusters_(clusters), folds_(folds), first_(graph.values().size(), kNone) {
    demands_.reserve(graph.values().size() * 2);
    note_rows();
}

void Demands::note_rows() {
    row_of_.assign(graph_.values().size(), kNoFold);
    for (const Node &node : graph_.nodes()) {
        const OpFamily family = fused_family(graph_, node);
        if (family == OpFamily::Reduction) {
            row_of_[graph_.result(node)] = fold_of_reduction(graph_, node, folds_);
        } else if (family == OpFamily::Elementwise || node.op == Op::Reshape) {
            for (const ValueId v : graph_.operands(node))
                if (row_of_[v] != kNoFold &&
                    graph_.type(v).numel() == graph_.type(graph_.result(node)).numel())
                    row_of_[graph_.result(node)] = row_of_[v];
        }
    }
}

void Demands::add(ValueId v, uint32_t cluster, Reading access, int64_t evals, NodeId user) {
    int looked = 0;
    for (uint32_t d = first_[v]; d != kNone && looked < kMostLookedAt; d = demands_[d].next, ++looked) {
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
    demands_.push_back({cluster, access, clusters_[cluster].numel, evals, user, first_[v]});
    first_[v] = static_cast<uint32_t>(demands_.size() - 1);
    ++clusters_[cluster].inputs;
}

Reading Demands::current(const Demand &d, uint32_t cluster) const {
    const FusionCluster &c = clusters_[cluster];
    if (d.numel == c.numel || d.access.kind == Reading::Stored || d.access.kind == Reading::Point)
        return d.access;
    if (d.access.kind == Reading::Full && c.fold != kNoFold)
        return {Reading::Row, c.fold, d.access.partial};
    return {Reading::Other, kNoFold, d.access.partial};
}

void Demands::gather(const Node &node, std::vector<ClusterUse> &uses) {
    uses.clear();
    for (uint32_t k = 0; k < node.result_count; ++k) {
        for (uint32_t i = first_[graph_.result(node, k)]; i != kNone; i = demands_[i].next) {
            const Demand &d = demands_[i];
            const uint32_t c = clusters_.find(d.cluster);
            --clusters_[c].inputs;
            const auto in_cluster = [&](const ClusterUse &use) { return use.cluster == c; };
            auto at = std::find_if(uses.begin(), uses.end(), in_cluster);
            if (at == uses.end()) {
                if (uses.size() > kManyUses)
                    at = std::find_if(uses.begin() + kManyUses, uses.end(), in_cluster);
                at = uses.insert(uses.end(), ClusterUse{.cluster = c, .user = d.user});
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

void Demands::pass_through(NodeId n) {
    const Node &node = graph_.node(n);
    for_each(graph_.result(node), [&](const Demand &d) {
        const uint32_t c = clusters_.find(d.cluster);
        --clusters_[c].inputs;
        if (node.operand_count == 0)
            return;
        const Reading at = through_view(graph_, node, current(d, c), clusters_[c].numel, folds_);
        add(graph_.operands(node)[0], c, at, d.evals, d.user);
    });
}

void Demands::add_operands(NodeId n, uint32_t home, std::span<const Evaluation> evaluations) {
    const Node &node = graph_.node(n);
    const auto operands = graph_.operands(node);
    const FusionCluster &c = clusters_[home];
    const OpFamily family = fused_family(graph_, node);
    if (c.in_place && node.op == Op::UpdateSlice) {
        add(operands[0], home, {Reading::Stored, kNoFold}, 0, n);
        add(operands[1], home, {Reading::Full, kNoFold}, c.numel, n);
        return;
    }
    if (c.sealed || family == OpFamily::Contraction) {
        for (const ValueId v : operands)
            add(v, home, {Reading::Stored, kNoFold}, 0, n);
        return;
    }
    if (family == OpFamily::Reduction) {
        add(operands[0], home, {Reading::Full, kNoFold}, c.numel, n);
        return;
    }
    for (const auto &[access, evals] : evaluations) {
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
                at = through_broadcast(graph_.type(graph_.result(node)).shape, graph_.type(operands[i]).shape,
                                       access, c.numel, folds_);
            if (joins_many(node)) // each part where it is, and nowhere else
                often = std::min(evals, graph_.type(operands[i]).numel());
            add(operands[i], home, at, often, n);
        }
    }
}

void evaluations_in(uint32_t home, std::span<const ClusterUse> uses, ClusterSet &clusters,
                    std::vector<Evaluation> &evaluations) {
    evaluations.clear();
    for (const ClusterUse &use : uses) {
        if (clusters.find(use.cluster) != home)
            continue;
        for (const Reading::Kind kind : {Reading::Full, Reading::Row, Reading::Point, Reading::Other}) {
            if (use.evals[kind] < 0)
                continue;
            const bool folded = kind == Reading::Row || kind == Reading::Point;
            evaluations.push_back({{kind, folded ? use.fold : kNoFold, !use.whole[kind]}, use.evals[kind]});
        }
    }
}

} // namespace lz::passes
