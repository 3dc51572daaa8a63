#include "passes/fuse/effects.h"

#include "passes/devices/places.h"
#include "passes/operations.h"
#include "passes/simplify/rewrite.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace lz::passes {

using namespace ir;

namespace {

class Orderer {
public:
    explicit Orderer(const Graph &graph) : g_(graph), places_(graph), here_(places_.count()) {}

    bool needed() const { return places_.any_effect(); }

    Graph run() {
        Rewriter rewriter(g_);
        std::vector<NodeId> before;
        for (NodeId id = 0; id < g_.nodes().size(); ++id) {
            rewriter.keep(id);
            before_.clear();
            order_in_place(id);
            if (before_.empty())
                continue;
            std::ranges::sort(before_);
            const auto twice = std::ranges::unique(before_);
            before_.erase(twice.begin(), twice.end());
            // Nodes keep their numbers.
            const auto known = g_.order(g_.node(id));
            known_.assign(known.begin(), known.end());
            known_.push_back(id);
            std::ranges::sort(known_);
            before.clear();
            std::ranges::set_difference(before_, known_, std::back_inserter(before));
            rewriter.builder().add_order(before);
        }
        return rewriter.finish();
    }

private:
    struct Place {
        std::vector<NodeId> nodes;            ///< in the order of recording, effects too
        size_t since_effect = 0;              ///< nodes before this one come before the last effect
        NodeId effect = kNone;                ///< the last one
        std::map<uint32_t, size_t> waited_by; ///< by place: how many of `nodes` its wait_streams cover
    };
    void after(std::span<const NodeId> nodes) { before_.insert(before_.end(), nodes.begin(), nodes.end()); }

    void order_in_place(NodeId id) {
        const Node &node = g_.node(id);
        Place &place = here_[places_.of(id)];
        if (place.effect != kNone)
            before_.push_back(place.effect);
        if (info(node.op).family == OpFamily::Effect) {
            after(std::span(place.nodes).subspan(place.since_effect));
            place.since_effect = place.nodes.size();
            place.effect = id;
        }
        if (node.op == Op::WaitStream) {
            const AttrView attrs = g_.attrs(node);
            const uint32_t of = places_.find({attrs.device(attr::kWaitStreamOf),
                                              static_cast<int32_t>(attrs.integer(attr::kWaitStreamStream))});
            if (of != kNone && of != places_.of(id)) {
                size_t &covered = here_[of].waited_by[places_.of(id)];
                after(std::span(here_[of].nodes).subspan(covered));
                covered = here_[of].nodes.size();
            }
        }
        if (!is_free(node.op))
            place.nodes.push_back(id);
    }

    const Graph &g_;
    const Places places_;
    std::vector<Place> here_;
    std::vector<NodeId> before_, known_; // of the node at hand
};

} // namespace

std::optional<Graph> order_effects(const Graph &graph) {
    Orderer orderer(graph);
    if (!orderer.needed())
        return std::nullopt;
    return orderer.run();
}

} // namespace lz::passes
