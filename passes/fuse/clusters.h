#pragma once
/// The clusters that `fuse` is building: what is in each, what it reads, and whether two may become one.

#include "ir/target.h"
#include "passes/devices/places.h"
#include "passes/fuse/state.h"

#include <vector>

namespace lz::passes {

/// Why a node or a cluster does not become part of another.
enum Reason : uint8_t {
    kFits,
    kOtherStream,
    kTooBig,
    kCircle,
    kTooOften,
    kOtherPlace,
    kOtherAxes,
    kNeedsMemory,
    kLongRows,
    kOneProduct,
    kInPlace,
    kChecked,
    kManyParts,
    kLibraryProduct,
    kStridedRows,
};
/// A clause for FusionNote::reason.
const char *reason_text(Reason reason);

/// What clusters that are launched together because that is faster, and not because one needs the other, keep
/// in memory for later ones is at most this part of their device's.
inline constexpr double kMemoryOfGroup = 1.0 / 16;

struct FusionCluster {
    uint32_t parent = 0;
    ir::ClusterKind kind = ir::ClusterKind::Loop;
    FoldId fold = kNoFold; ///< of its reductions
    int64_t numel = 0;     ///< points
    int ops = 0;
    int repeated = 0; ///< cheap operations done more than twice as often as alone
    int inputs = 0, outputs = 0;
    int reductions = 0, full_outputs = 0, row_outputs = 0;
    bool sealed = false;   ///< a library call: nothing joins
    bool in_place = false; ///< an update in place: it stores nothing else
    bool in_parts = false; ///< it joins many tensors, part by part: it reduces nothing
    /// Likewise in long runs, each by itself: equal parts share a body, whose operations count once.
    bool shares_bodies = false;
    std::vector<uint64_t> bodies; ///< what its parts do, without repetitions
    ir::NodeId low = ir::kNone, high = 0;
    ir::NodeId members = ir::kNone, last_member = ir::kNone;
    uint32_t before = ir::kNone, last_before = ir::kNone; ///< list of clusters it reads from
    uint32_t stamp = 0;
};

/// Disjoint sets of nodes. Ids stay good when clusters unite: `find` gives the one that lives on.
class ClusterSet {
public:
    ClusterSet(const ir::Graph &graph, const ir::Target &target);

    FusionCluster &operator[](uint32_t c) { return clusters_[c]; }
    const FusionCluster &operator[](uint32_t c) const { return clusters_[c]; }
    size_t size() const { return clusters_.size(); }
    uint32_t find(uint32_t c);
    /// The cluster of a node, kNone if it has none.
    uint32_t of(ir::NodeId n) { return of_[n] == ir::kNone ? ir::kNone : find(of_[n]); }

    uint32_t add(ir::ClusterKind kind, int64_t numel);
    /// `ops`: scalar operations that the kernel grows by.
    void add_member(uint32_t cluster, ir::NodeId n, int ops);
    template <class F>
    void for_each_member(uint32_t cluster, F &&f) const {
        for (ir::NodeId n = clusters_[cluster].members; n != ir::kNone; n = next_member_[n])
            f(n);
    }
    /// `earlier` has to run before `cluster`.
    void add_before(uint32_t cluster, uint32_t earlier);
    /// What is ordered after the node comes after `home`, its cluster, and that after what the node is
    /// ordered after. Called for each node, from the last to the first.
    void keep_order(ir::NodeId n, uint32_t home);
    /// Whether something is ordered after the node.
    bool is_ordered(ir::NodeId n) const { return ordered_after_[n] != ir::kNone; }
    /// Whether f(cluster) holds for one that is ordered after the node.
    template <class F>
    bool any_ordered_after(ir::NodeId n, F &&f) {
        for (uint32_t l = ordered_after_[n]; l != ir::kNone; l = order_links_[l].next)
            if (f(find(order_links_[l].cluster)))
                return true;
        return false;
    }
    /// Whether a chain of clusters leads from `from` to `to`; true as well when the search grows too long,
    /// which keeps the pass linear.
    bool leads(uint32_t from, uint32_t to);
    /// Cluster and node are on the same device and stream, and no effect of the user's stands between them.
    bool same_place(uint32_t cluster, ir::NodeId n) const;
    Reason can_unite(uint32_t a, uint32_t b);
    void unite(uint32_t into, uint32_t from);

private:
    struct Link {
        uint32_t cluster, next;
    };
    void note_span(const FusionCluster &c);
    ir::NodeId highest_from(ir::NodeId position) const;
    bool gap_between(uint32_t earlier, uint32_t later) const;

    const ir::Graph &graph_;
    const ir::Target &target_;
    std::vector<FusionCluster> clusters_;
    /// Highest node of all clusters that begin at or before a node: a Fenwick tree of maxima.
    std::vector<ir::NodeId> highest_;
    std::vector<Link> links_;
    std::vector<uint32_t> ordered_after_; // by node: list of clusters
    std::vector<Link> order_links_;
    const Places places_;
    std::vector<uint32_t> of_, next_member_; // by node
    std::vector<uint32_t> search_;
    uint32_t stamp_ = 0;
};

} // namespace lz::passes
