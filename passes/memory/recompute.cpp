#include "passes/memory/recompute.h"

#include "ir/graph/builder.h"
#include "passes/devices/places.h"
#include "passes/memory/recompute_search.h"
#include "passes/streams/estimates.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace lz::passes {

using namespace ir;

namespace {

/// Writes the graph with the kernels that are added.
class Writer {
public:
    Writer(const Graph &graph, std::span<const Again> all)
        : graph_(graph), builder_(graph.name), value_(graph.values().size(), kNone),
          node_of_(graph.nodes().size(), kNone) {
        for (const Again &again : all)
            before_.emplace(again.before, &again); // those of one moment stay in order
        first_node_.assign(graph.clusters.size() + 1, static_cast<NodeId>(graph.nodes().size()));
        for (NodeId n = static_cast<NodeId>(graph.nodes().size()); n-- > 0;)
            first_node_[static_cast<size_t>(graph.node(n).cluster)] = n;
    }

    Graph run(std::span<const std::pair<uint32_t, uint32_t>> kernels, FusionNotes *notes) {
        for (const Param &p : graph_.params)
            value_[p.value] = builder_.clone_param(graph_, p);
        for (uint32_t moment = 0; moment < kernels.size(); ++moment) {
            const auto [begin, end] = before_.equal_range(moment);
            for (auto it = begin; it != end; ++it)
                add_again(*it->second);
            for (uint32_t c = kernels[moment].first; c < kernels[moment].second; ++c)
                add(c);
        }
        if (notes)
            for (FusionNote &note : notes->kept_apart) {
                note.producer = node_of_[note.producer];
                note.consumer = node_of_[note.consumer];
            }
        Graph out = builder_.take();
        for (const ValueId r : graph_.results)
            out.results.push_back(value_[r]);
        out.clusters = std::move(clusters_);
        return out;
    }

private:
    void add(uint32_t cluster) {
        clusters_.push_back(graph_.clusters[cluster]);
        for (NodeId n = first_node_[cluster];
             n < graph_.nodes().size() && graph_.node(n).cluster == static_cast<int32_t>(cluster); ++n) {
            const Node &node = graph_.node(n);
            const ValueId first = clone(node, {});
            node_of_[n] = builder_.last_node();
            for (uint32_t k = 0; k < node.result_count; ++k)
                value_[graph_.result(node, k)] = first + k;
        }
    }

    void add_again(const Again &again) {
        clusters_.push_back({again.kind, -1});
        std::map<ValueId, ValueId> own;
        for (const NodeId n : again.nodes)
            own[graph_.result(graph_.node(n))] = clone(graph_.node(n), own);
        value_[again.value] = own.at(again.value); // from here on
    }

    ValueId clone(const Node &node, const std::map<ValueId, ValueId> &own) {
        operands_.clear();
        for (const ValueId v : graph_.operands(node)) {
            const auto made = own.find(v);
            operands_.push_back(made == own.end() ? value_[v] : made->second);
        }
        const ValueId first = builder_.clone_node(graph_, node, operands_);
        builder_.set_cluster(static_cast<int32_t>(clusters_.size() - 1));
        return first;
    }

    const Graph &graph_;
    GraphBuilder builder_;
    std::multimap<uint32_t, const Again *> before_; // by moment
    std::vector<NodeId> first_node_;                // by cluster
    std::vector<ValueId> value_, operands_;
    std::vector<NodeId> node_of_;
    std::vector<Cluster> clusters_;
};

/// One device, and nothing that the user ordered.
bool is_plain(const Graph &graph) {
    const Device device = device_of(graph, graph.nodes().back());
    return std::ranges::all_of(graph.nodes(), [&](const Node &node) {
        return node.stream == kNoStream && node.order_count == 0 &&
               info(node.op).family != OpFamily::Effect && node.op != Op::Transfer &&
               device_of(graph, node) == device;
    });
}

} // namespace

Graph recompute(Graph graph, const Target &target, FusionNotes *notes) {
    if (!target.modes.fuse || graph.clusters.empty() || !is_plain(graph))
        return graph;
    const Recomputed found = find_recomputed(graph, info_of(target, device_of(graph, graph.nodes().back())));
    if (found.all.empty())
        return graph;
    return Writer(graph, found.all).run(found.kernels, notes);
}

} // namespace lz::passes
