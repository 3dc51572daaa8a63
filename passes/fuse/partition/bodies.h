#pragma once
/// Joins of many tensors in long runs: each part is computed by itself, where it is joined, and equal parts
/// share a body of the kernel.

#include "passes/fuse/clusters.h"
#include "passes/fuse/partition/demands.h"

#include <cstdint>
#include <vector>

namespace lz::passes {

/// A node that joins so many tensors that each part, a long run or rows of a few lines, is a kernel's work by
/// itself.
bool joins_long_runs(const ir::Graph &graph, const ir::Node &node);

/// The cluster is one view, which is stored.
bool is_view_alone(const ir::Graph &graph, const FusionCluster &c);

/// What the nodes of such joins do to their parts.
class PartBodies {
public:
    explicit PartBodies(const ir::Graph &graph) : graph_(graph), body_(graph.nodes().size(), 0) {}

    /// Whether a cluster that shares bodies has one for the node, or may have one more: of no more than so
    /// many scalar operations in all.
    bool has_room(const FusionCluster &c, const ClusterUse &use, const ir::Node &node, int most_ops) const;
    /// The node becomes part of the cluster: its body is known there from now on. Returns the operations that
    /// the kernel grows by.
    int enter(FusionCluster &c, const ClusterUse &use, ir::NodeId n, const ir::Node &node);

private:
    uint64_t body_of(const ClusterUse &use, const ir::Node &node) const;

    const ir::Graph &graph_;
    std::vector<uint64_t> body_; // by node
};

} // namespace lz::passes
