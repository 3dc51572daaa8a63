#pragma once
/// Where operations run, and what the user ordered there.

#include "ir/graph/graph.h"

#include <vector>

namespace lz::passes {

/// The device that runs a node. A transfer runs on the GPU that it reads, else on the one that it writes; an
/// effect where it says.
ir::Device device_of(const ir::Graph &graph, const ir::Node &node);
/// Whose streams the user can name for it: as `device_of`, but those of the GPU that a named transfer copies
/// to.
ir::Device owner_of(const ir::Graph &graph, const ir::Node &node);

/// The places of a graph, and how often effects of the user's stand in them. A place is a device and a stream
/// that the user named; unnamed work is in that of the default stream, and all work of the CPU in one. The
/// stream that the user named for a transfer to a GPU is one of that GPU.
class Places {
public:
    explicit Places(const ir::Graph &graph);

    /// Number of the node's place, from 0.
    uint32_t of(ir::NodeId id) const { return place_[id]; }
    /// Nodes of one place with equal epochs have no effect of the user's between them. Effects in one place
    /// begin no epoch in others.
    uint32_t epoch(ir::NodeId id) const { return epoch_[id]; }
    uint32_t count() const { return static_cast<uint32_t>(known_.size()); }
    /// The number of a place; kNone if nothing runs there.
    uint32_t find(ir::StreamRef place) const;
    bool any_effect() const { return any_effect_; }

private:
    std::vector<ir::StreamRef> known_;
    std::vector<uint32_t> place_, epoch_;
    bool any_effect_ = false;
};

/// The streams of the user's that a graph names, each once, by device and number.
std::vector<ir::StreamRef> user_streams(const ir::Graph &graph);

} // namespace lz::passes
