#pragma once
/// Whether a node may become part of a cluster that reads it: what both are, where they run, what the kernel
/// would cost.

#include "ir/graph/uses.h"
#include "ir/target.h"
#include "passes/fuse/clusters.h"
#include "passes/fuse/partition/bodies.h"
#include "passes/fuse/partition/demands.h"
#include "passes/fuse/state.h"

namespace lz::passes {

class Legality {
public:
    /// All have to outlive it.
    Legality(const ir::Graph &graph, const ir::Target &target, const ClusterSet &clusters,
             const Demands &demands, const PartBodies &bodies, Folds &folds)
        : graph_(graph), target_(target), clusters_(clusters), demands_(demands), bodies_(bodies),
          folds_(folds), uses_(graph) {}

    /// kFits, or why the node may not become part of the cluster whose use of it this is.
    Reason check(const ClusterUse &use, ir::NodeId n, const ir::Node &node) const;
    /// Whether the cluster could store the node: it computes each element once, in their order.
    bool can_store(const ClusterUse &use, const ir::Node &node) const;
    /// Of the device that the node is on; 0 where that is not known.
    int64_t memory_bytes(ir::NodeId n) const;

private:
    bool has_room(const ClusterUse &use, const ir::Node &node) const;
    int repeated_ops(const ClusterUse &use, ir::NodeId n, const ir::Node &node) const;
    bool runs_on_cpu(const ir::Node &node) const;

    const ir::Graph &graph_;
    const ir::Target &target_;
    const ClusterSet &clusters_;
    const Demands &demands_;
    const PartBodies &bodies_;
    Folds &folds_;
    const ir::Uses uses_;
};

} // namespace lz::passes
