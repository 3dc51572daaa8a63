#include "passes/fuse/rebuild.h"

#include "ir/diagnostic.h"
#include "ir/graph/builder.h"
#include "passes/fuse/groups.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace lz::passes {

using namespace ir;

namespace {

bool is_library(ClusterKind kind) {
    return kind != ClusterKind::Loop && kind != ClusterKind::Row && kind != ClusterKind::Reduce &&
           kind != ClusterKind::Contraction;
}

class Rebuild {
public:
    Rebuild(const Graph &graph, const Partition &partition, std::vector<NodeId> &node_of, Graph recycled)
        : graph_(graph), partition_(partition), node_of_(node_of), builder_(graph.name, std::move(recycled)),
          stamp_(graph.nodes().size(), -1), copy_(graph.nodes().size(), kNone),
          value_(graph.values().size(), kNone) {}

    Graph run(const Target &target) {
        gather_members();
        gather_edges();
        if (target.modes.fuse)
            groups_ = choose_groups(graph_, partition_, members_begin_, members_, edges_begin_, edges_,
                                    kept_bytes(), target);
        else
            groups_.assign(partition_.kind.size(), -1);
        const std::vector<int32_t> order = sort();
        return write(order);
    }

private:
    size_t clusters() const { return partition_.kind.size(); }
    std::span<const NodeId> members(int32_t c) const {
        return {members_.data() + members_begin_[static_cast<size_t>(c)],
                members_.data() + members_begin_[static_cast<size_t>(c) + 1]};
    }

    void gather_members() {
        members_begin_.assign(clusters() + 1, 0);
        for (const int32_t c : partition_.cluster)
            if (c != kInlined)
                ++members_begin_[static_cast<size_t>(c) + 1];
        for (size_t c = 0; c < clusters(); ++c)
            members_begin_[c + 1] += members_begin_[c];
        members_.resize(members_begin_.back());
        std::vector<uint32_t> next(members_begin_.begin(), members_begin_.end() - 1);
        for (NodeId n = 0; n < graph_.nodes().size(); ++n)
            if (const int32_t c = partition_.cluster[n]; c != kInlined)
                members_[next[static_cast<size_t>(c)]++] = n;
    }

    /// Whether this cluster computes what the user reads by a copy of its node. Products and library calls
    /// read what had to be stored for them.
    bool copies(int32_t cluster, NodeId user, NodeId producer) const {
        const int32_t home = partition_.cluster[producer];
        if (home == kInlined)
            return true;
        return home != cluster && partition_.stored_view[producer] && graph_.node(user).op != Op::Dot &&
               !is_library(partition_.kind[static_cast<size_t>(cluster)]);
    }

    template <class F>
    void for_each_source(int32_t cluster, NodeId node, F f) {
        open_.assign(1, node);
        while (!open_.empty()) {
            const NodeId n = open_.back();
            open_.pop_back();
            for (const ValueId v : graph_.operands(graph_.node(n))) {
                const NodeId p = graph_.value(v).producer;
                if (p == kNone)
                    continue;
                if (!copies(cluster, n, p)) {
                    f(p);
                } else if (stamp_[p] != cluster) {
                    stamp_[p] = cluster;
                    open_.push_back(p);
                }
            }
        }
    }

    /// By cluster: bytes that it stores because other clusters read them. Results are stored anyway.
    std::vector<int64_t> kept_bytes() const {
        std::vector<bool> result(graph_.values().size());
        for (const ValueId v : graph_.results)
            result[v] = true;
        std::vector<int64_t> kept(clusters());
        for (NodeId n = 0; n < graph_.nodes().size(); ++n)
            if (const Node &node = graph_.node(n); read_[n])
                for (uint32_t k = 0; k < node.result_count; ++k)
                    if (const ValueId v = graph_.result(node, k); !result[v])
                        kept[static_cast<size_t>(partition_.cluster[n])] += graph_.type(v).bytes();
        return kept;
    }

    void gather_edges() {
        read_.assign(graph_.nodes().size(), false);
        edges_begin_.assign(1, 0);
        std::vector<int32_t> seen(clusters(), -1);
        for (int32_t c = 0; c < static_cast<int32_t>(clusters()); ++c) {
            const auto from = [&](NodeId p) {
                const int32_t d = partition_.cluster[p];
                if (d == c || d == kInlined || seen[static_cast<size_t>(d)] == c)
                    return;
                seen[static_cast<size_t>(d)] = c;
                edges_.push_back(d);
            };
            for (const NodeId n : members(c)) {
                for_each_source(c, n, [&](NodeId p) {
                    read_[p] = read_[p] || partition_.cluster[p] != c;
                    from(p);
                });
                for (const NodeId before : graph_.order(graph_.node(n)))
                    from(before);
            }
            edges_begin_.push_back(static_cast<uint32_t>(edges_.size()));
        }
        std::fill(stamp_.begin(), stamp_.end(), -1);
    }

    /// Kahn's algorithm over clusters, those of a group as one; the first in the old order goes first.
    std::vector<int32_t> sort() const {
        const auto n = static_cast<int32_t>(clusters());
        int32_t count = 0;
        std::vector<int32_t> unit(clusters(), -1), unit_of_group(clusters(), -1);
        for (int32_t c = 0; c < n; ++c) {
            const int32_t g = groups_[static_cast<size_t>(c)];
            if (g >= 0 && unit_of_group[static_cast<size_t>(g)] >= 0)
                unit[static_cast<size_t>(c)] = unit_of_group[static_cast<size_t>(g)];
            else
                unit[static_cast<size_t>(c)] = count++;
            if (g >= 0)
                unit_of_group[static_cast<size_t>(g)] = unit[static_cast<size_t>(c)];
        }
        const auto units = static_cast<size_t>(count);
        std::vector<std::vector<int32_t>> content(units), readers(units);
        std::vector<int32_t> waits(units, 0);
        std::vector<NodeId> key(units, 0);
        for (int32_t c = 0; c < n; ++c) {
            const auto u = static_cast<size_t>(unit[static_cast<size_t>(c)]);
            content[u].push_back(c);
            key[u] = std::max(key[u], members(c).back());
            for (uint32_t e = edges_begin_[static_cast<size_t>(c)];
                 e < edges_begin_[static_cast<size_t>(c) + 1]; ++e) {
                readers[static_cast<size_t>(unit[static_cast<size_t>(edges_[e])])].push_back(
                    static_cast<int32_t>(u));
                ++waits[u];
            }
        }
        using Entry = std::pair<NodeId, int32_t>;
        std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
        for (size_t u = 0; u < units; ++u)
            if (waits[u] == 0)
                ready.emplace(key[u], static_cast<int32_t>(u));
        std::vector<int32_t> order;
        order.reserve(clusters());
        while (!ready.empty()) {
            const auto u = static_cast<size_t>(ready.top().second);
            ready.pop();
            order.insert(order.end(), content[u].begin(), content[u].end());
            for (const int32_t r : readers[u])
                if (--waits[static_cast<size_t>(r)] == 0)
                    ready.emplace(key[static_cast<size_t>(r)], r);
        }
        LZ_CHECK(order.size() == clusters(), "clusters depend on each other in a circle");
        return order;
    }

    Graph write(std::span<const int32_t> order) {
        for (const Param &p : graph_.params)
            value_[p.value] = builder_.clone_param(graph_, p);
        node_of_.assign(graph_.nodes().size(), kNone);
        std::vector<Cluster> clusters;
        for (const int32_t c : order) {
            const auto index = static_cast<int32_t>(clusters.size());
            clusters.push_back({partition_.kind[static_cast<size_t>(c)], groups_[static_cast<size_t>(c)]});
            for (const NodeId n : members(c))
                emit(c, n, index);
        }
        Graph out = builder_.take();
        for (const ValueId r : graph_.results)
            out.results.push_back(value_[r]);
        out.clusters = std::move(clusters);
        return out;
    }

    /// Copies what is inlined above the node, then the node. Chains of views may be long: no recursion.
    void emit(int32_t cluster, NodeId node, int32_t index) {
        open_.assign(1, node);
        while (!open_.empty()) {
            const NodeId n = open_.back();
            bool waits = false;
            for (const ValueId v : graph_.operands(graph_.node(n))) {
                const NodeId p = graph_.value(v).producer;
                if (p != kNone && copies(cluster, n, p) && stamp_[p] != cluster) {
                    open_.push_back(p);
                    waits = true;
                }
            }
            if (waits)
                continue;
            open_.pop_back();
            if (n != node && stamp_[n] == cluster)
                continue;
            clone(cluster, n, index, n != node);
        }
    }

    void clone(int32_t cluster, NodeId id, int32_t index, bool copy) {
        const Node &node = graph_.node(id);
        operands_.clear();
        for (const ValueId v : graph_.operands(node)) {
            const NodeId p = graph_.value(v).producer;
            operands_.push_back(p != kNone && copies(cluster, id, p) ? copy_[p] : value_[v]);
        }
        const ValueId first = builder_.clone_node(graph_, node, operands_);
        builder_.set_cluster(index);
        if (copy) {
            stamp_[id] = cluster;
            copy_[id] = first;
            if (node_of_[id] == kNone)
                node_of_[id] = builder_.last_node();
            return;
        }
        node_of_[id] = builder_.last_node();
        for (uint32_t k = 0; k < node.result_count; ++k)
            value_[graph_.result(node, k)] = first + k;
        before_.clear();
        for (const NodeId before : graph_.order(node))
            if (node_of_[before] != kNone && partition_.cluster[before] != kInlined)
                before_.push_back(node_of_[before]);
        if (!before_.empty())
            builder_.add_order(before_);
    }

    const Graph &graph_;
    const Partition &partition_;
    std::vector<NodeId> &node_of_;
    GraphBuilder builder_;
    std::vector<uint32_t> members_begin_, edges_begin_;
    std::vector<NodeId> members_;
    std::vector<int32_t> edges_, groups_;
    std::vector<bool> read_;     // by node: by another cluster than its own
    std::vector<int32_t> stamp_; // cluster that a copy was last made for
    std::vector<ValueId> copy_, value_, operands_;
    std::vector<NodeId> open_, before_;
};

} // namespace

Graph rebuild(const Graph &graph, const Partition &partition, const Target &target,
              std::vector<NodeId> &node_of, Graph recycled) {
    return Rebuild(graph, partition, node_of, std::move(recycled)).run(target);
}

} // namespace lz::passes
