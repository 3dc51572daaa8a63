#pragma once
/// How clusters take in a node that they read, and unite over it.

#include "passes/fuse/partition/bodies.h"
#include "passes/fuse/partition/legality.h"

#include <span>
#include <vector>

namespace lz::passes {

class Growth {
public:
    /// All have to outlive it.
    Growth(const ir::Graph &graph, ClusterSet &clusters, Folds &folds, PartBodies &bodies,
           const Legality &legality)
        : graph_(graph), clusters_(clusters), folds_(folds), bodies_(bodies), legality_(legality) {}

    /// Makes the node part of one cluster that reads it, with which the others that it fits into become one
    /// as far as they may. That cluster, or kNone; each use that stays apart has its reason. `is_result`: the
    /// graph returns the node.
    uint32_t take_in(ir::NodeId n, const ir::Node &node, std::vector<ClusterUse> &uses, bool is_result);

    /// Clusters that read a value from memory at each of their points become one where they may: they read it
    /// once. Not a number that is no value in memory, or that other kernels read at all of their points.
    void unite_readers(ir::ValueId v, const Demands &demands);

private:
    bool after_a_reader(std::span<const ClusterUse> uses, uint32_t cluster, uint32_t home, ir::NodeId n);
    bool keep_little(uint32_t a, uint32_t b) const;
    bool become_rows(ClusterUse &use, uint32_t home);
    uint32_t enter(const ClusterUse &use, ir::NodeId n, const ir::Node &node);

    const ir::Graph &graph_;
    ClusterSet &clusters_;
    Folds &folds_;
    PartBodies &bodies_;
    const Legality &legality_;
};

} // namespace lz::passes
