#include "passes/fuse/tails.h"

#include "ir/graph/checks.h"
#include "passes/devices/places.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

class TailFinder {
public:
    explicit TailFinder(const Graph &graph)
        : graph_(graph), places_(graph), clusters_(graph.clusters.size()),
          reader_(graph.values().size(), kNobody) {
        for (NodeId n = 0; n < graph.nodes().size(); ++n)
            note(n);
        for (const ValueId v : graph.results)
            reader_[v] = kSeveral;
    }

    /// The cluster that this one is the tail of, or -1.
    int32_t find_rows(int32_t tail) const {
        const Cluster &t = at(tail);
        if (t.last_source < 0 || !t.may_follow || !reduces(tail) || kind(t.last_source) != ClusterKind::Row)
            return -1;
        const Cluster &rows = at(t.last_source);
        const NodeId a = rows.end - 1, b = t.end - 1;
        if (t.points > rows.points / 2 || places_.of(a) != places_.of(b) ||
            places_.epoch(a) != places_.epoch(b))
            return -1;
        if (const auto next = std::ranges::upper_bound(failing_, t.last_source);
            next != failing_.end() && *next < tail && std::ranges::binary_search(failing_, tail))
            return -1;
        for (NodeId n = rows.first; n < rows.end; ++n) {
            const Node &node = graph_.node(n);
            if (node.op == Op::UpdateSlice)
                return -1;
            for (uint32_t k = 0; k < node.result_count; ++k)
                if (const ValueId v = graph_.result(node, k); reader_[v] == kSeveral && t.reads(v))
                    return -1;
        }
        return t.last_source;
    }

private:
    static constexpr int32_t kNobody = -1,
                             kSeveral = -2; // else the one cluster that reads a value from memory

    struct Cluster {
        NodeId first = kNone, end = 0;
        int64_t points = 0; ///< of its largest value
        int32_t last_source = -1;
        bool may_follow = true;
        std::vector<ValueId> read{}; ///< from others, if it reduces

        bool reads(ValueId v) const { return std::ranges::find(read, v) != read.end(); }
    };

    const Cluster &at(int32_t c) const { return clusters_[static_cast<size_t>(c)]; }
    ClusterKind kind(int32_t c) const { return graph_.clusters[static_cast<size_t>(c)].kind; }
    bool reduces(int32_t c) const { return kind(c) == ClusterKind::Reduce || kind(c) == ClusterKind::Row; }

    /// A check, or a call of a library.
    bool can_fail(const Node &node, DType result) const {
        return has_checks(node.op, result) || kind(node.cluster) > ClusterKind::Contraction;
    }

    void note(NodeId n) {
        const Node &node = graph_.node(n);
        Cluster &c = clusters_[static_cast<size_t>(node.cluster)];
        c.first = std::min(c.first, n);
        c.end = n + 1;
        if (node.result_count > 0) {
            const TensorType &type = graph_.type(graph_.result(node));
            c.points = std::max(c.points, type.numel());
            if (can_fail(node, type.dtype) && (failing_.empty() || failing_.back() != node.cluster))
                failing_.push_back(node.cluster);
        }
        c.may_follow = c.may_follow && node.op != Op::UpdateSlice && node.order_count == 0;
        for (const ValueId v : graph_.operands(node)) {
            if (info(node.op).family == OpFamily::Reduction)
                c.points = std::max(c.points, graph_.type(v).numel());
            const NodeId p = graph_.value(v).producer;
            if (p == kNone || graph_.node(p).cluster == node.cluster)
                continue;
            int32_t &reader = reader_[v];
            reader = reader == kNobody || reader == node.cluster ? node.cluster : kSeveral;
            c.last_source = std::max(c.last_source, graph_.node(p).cluster);
            if (reduces(node.cluster))
                c.read.push_back(v);
        }
    }

    const Graph &graph_;
    const Places places_;
    std::vector<Cluster> clusters_;
    std::vector<int32_t> reader_;  // by value
    std::vector<int32_t> failing_; // clusters with checks, ascending
};

} // namespace

Tails::Tails(const Graph &graph) {
    if (std::ranges::find(graph.clusters, ClusterKind::Row, &Cluster::kind) == graph.clusters.end())
        return;
    const TailFinder finder(graph);
    const size_t clusters = graph.clusters.size();
    tail_.assign(clusters, -1);
    is_tail_.assign(clusters, false);
    for (int32_t c = 0; c < static_cast<int32_t>(clusters); ++c)
        if (const int32_t rows = finder.find_rows(c); rows >= 0 && of(rows) < 0 && !is_tail(rows)) {
            tail_[static_cast<size_t>(rows)] = c;
            is_tail_[static_cast<size_t>(c)] = true;
        }
}

} // namespace lz::passes
