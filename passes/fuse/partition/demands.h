#pragma once
/// Who reads what, and how, while `fuse` walks from the results to the inputs: each cluster notes its demands
/// on the values that it reads; when a value's producer is reached, they say which clusters it could join.

#include "passes/fuse/clusters.h"
#include "passes/fuse/state.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace lz::passes {

struct Demand {
    uint32_t cluster;
    Reading access;
    int64_t numel; ///< the cluster's points when it was noted
    int64_t evals; ///< how often an element is read
    ir::NodeId user;
    uint32_t next; ///< of the same value
};

/// What the readers of a node in one cluster ask of it.
struct ClusterUse {
    uint32_t cluster;
    ir::NodeId user;
    std::array<int64_t, 5> evals = {-1, -1, -1, -1, -1}; ///< by Reading::Kind, -1: not so
    std::array<bool, 5> whole = {};                      ///< likewise: all elements are read
    FoldId fold = kNoFold;                               ///< of rows and points
    Reason reason = kFits;                               ///< why the node cannot join

    bool full() const { return evals[Reading::Full] >= 0; }
    bool row() const { return evals[Reading::Row] >= 0; }
    bool point() const { return evals[Reading::Point] >= 0; }
    bool other() const { return evals[Reading::Other] >= 0; }
    bool stored() const { return evals[Reading::Stored] >= 0; }
    int64_t total() const;
};

/// How a node is computed in its cluster, and how often.
struct Evaluation {
    Reading access;
    int64_t evals;
};
/// In the cluster a node became part of, every way in which it is read there.
void evaluations_in(uint32_t cluster, std::span<const ClusterUse> uses, ClusterSet &clusters,
                    std::vector<Evaluation> &evaluations);

class Demands {
public:
    /// All three have to outlive it; what is noted counts as an input of its cluster.
    Demands(const ir::Graph &graph, ClusterSet &clusters, Folds &folds);

    void add(ir::ValueId v, uint32_t cluster, Reading access, int64_t evals, ir::NodeId user);
    /// What a node that is computed so in its cluster asks of its operands.
    void add_operands(ir::NodeId n, uint32_t home, std::span<const Evaluation> evaluations);
    /// The readers of a node that is copied into each of them read its operand.
    void pass_through(ir::NodeId n);
    /// Calls f(Demand) for each demand on a value; f may add demands on others.
    template <class F>
    void for_each(ir::ValueId v, F &&f) const {
        for (uint32_t d = first_[v]; d != ir::kNone; d = demands_[d].next)
            f(Demand(demands_[d]));
    }
    /// Drops those for which f(Demand) holds; they stay inputs.
    template <class F>
    void remove_if(ir::ValueId v, F &&f) {
        uint32_t *link = &first_[v];
        while (*link != ir::kNone)
            if (f(demands_[*link]))
                *link = demands_[*link].next;
            else
                link = &demands_[*link].next;
    }
    /// The access as the cluster is now: it may have become the rows of a reduction since.
    Reading current(const Demand &d, uint32_t cluster) const;
    /// What all readers of a node's results ask, by cluster; they are no inputs from then on.
    void gather(const ir::Node &node, std::vector<ClusterUse> &uses);
    /// The fold whose rows the cluster walks, or will walk when the reduction above the value joins.
    FoldId rows_of(const FusionCluster &c, ir::ValueId v) const {
        return c.fold != kNoFold ? c.fold : row_of_[v];
    }

private:
    void note_rows();

    const ir::Graph &graph_;
    ClusterSet &clusters_;
    Folds &folds_;
    std::vector<uint32_t> first_; // by value
    std::vector<Demand> demands_;
    std::vector<FoldId> row_of_; // by value: the fold over whose rows it is
};

/// A reduction's fold.
FoldId fold_of_reduction(const ir::Graph &graph, const ir::Node &reduction, Folds &folds);
/// Its family; a reduction of extents of 1 is elementwise.
ir::OpFamily fused_family(const ir::Graph &graph, const ir::Node &node);

} // namespace lz::passes
