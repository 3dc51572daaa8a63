#include "passes/fuse/clusters.h"

#include "passes/operations.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

/// Clusters that overlap in a row, from one to the next, before they are taken to go on for ever.
constexpr int kMaxOverlaps = 8;
/// Edges that are looked at before a circle is taken for granted.
constexpr int kSearchBudget = 1024;

/// In the order of Reason.
constexpr const char *kReasons[] = {
    "",
    "its result is read on another stream, or across an effect",
    "the kernel would have more than the allowed scalar operations or operands",
    "something between them has to run first",
    "it would be computed more than twice as often",
    "it is read at other places than it is made, and others read it too",
    "it reduces over other axes than its consumer",
    "its consumer needs it in memory",
    "a long row is shared by all workers, and what follows needs the whole row",
    "one kernel holds one product, and no reduction beside it",
    "it updates memory in place",
    "it is checked as a whole, and its consumer reads a part of it",
    "many tensors are joined part by part, in a kernel that visits every element once and reduces nothing",
    "the device's library makes the product, which knows nothing of what follows",
    "it is a permute whose rows lie apart in memory, and they are read more than once",
};

} // namespace

const char *reason_text(Reason reason) {
    return kReasons[reason];
}

ClusterSet::ClusterSet(const Graph &graph, const Target &target)
    : graph_(graph), target_(target), highest_(graph.nodes().size() + 1, 0),
      ordered_after_(graph.nodes().size(), kNone), places_(graph), of_(graph.nodes().size(), kNone),
      next_member_(graph.nodes().size(), kNone) {
    clusters_.reserve(graph.nodes().size());
}

uint32_t ClusterSet::find(uint32_t c) {
    while (clusters_[c].parent != c)
        c = clusters_[c].parent = clusters_[clusters_[c].parent].parent;
    return c;
}

uint32_t ClusterSet::add(ClusterKind kind, int64_t numel) {
    const auto id = static_cast<uint32_t>(clusters_.size());
    FusionCluster &c = clusters_.emplace_back();
    c.parent = id;
    c.kind = kind;
    c.numel = numel;
    return id;
}

void ClusterSet::add_member(uint32_t cluster, NodeId n, int ops) {
    FusionCluster &c = clusters_[cluster];
    of_[n] = cluster;
    c.low = std::min(c.low, n);
    c.high = std::max(c.high, n);
    next_member_[n] = c.members;
    c.members = n;
    if (c.last_member == kNone)
        c.last_member = n;
    c.ops += ops;
    note_span(c);
}

void ClusterSet::note_span(const FusionCluster &c) {
    for (size_t i = size_t{c.low} + 1; i < highest_.size(); i += i & (~i + 1))
        highest_[i] = std::max(highest_[i], c.high);
}

NodeId ClusterSet::highest_from(NodeId position) const {
    NodeId highest = position;
    for (size_t i = size_t{position} + 1; i > 0; i -= i & (~i + 1))
        highest = std::max(highest, highest_[i]);
    return highest;
}

/// Whether there is a place between the two over which no cluster reaches. Then whatever the earlier one has
/// to wait for lies before it, because nodes come after what they read.
bool ClusterSet::gap_between(uint32_t earlier, uint32_t later) const {
    NodeId high = clusters_[earlier].high;
    for (int k = 0; k < kMaxOverlaps; ++k) {
        const NodeId next = highest_from(high);
        if (next >= clusters_[later].low)
            return false;
        if (next == high)
            return true;
        high = next;
    }
    return false;
}

void ClusterSet::add_before(uint32_t cluster, uint32_t earlier) {
    FusionCluster &c = clusters_[cluster];
    if (c.before != kNone && links_[c.before].cluster == earlier)
        return;
    links_.push_back({earlier, c.before});
    c.before = static_cast<uint32_t>(links_.size() - 1);
    if (c.last_before == kNone)
        c.last_before = c.before;
}

void ClusterSet::keep_order(NodeId n, uint32_t home) {
    for (uint32_t l = ordered_after_[n]; l != kNone; l = order_links_[l].next)
        if (const uint32_t c = find(order_links_[l].cluster); c != home)
            add_before(c, home);
    for (const NodeId before : graph_.order(graph_.node(n))) {
        order_links_.push_back({home, ordered_after_[before]});
        ordered_after_[before] = static_cast<uint32_t>(order_links_.size() - 1);
    }
}

bool ClusterSet::leads(uint32_t from, uint32_t to) {
    ++stamp_;
    search_.assign(1, to);
    int budget = kSearchBudget;
    while (!search_.empty()) {
        const uint32_t c = search_.back();
        search_.pop_back();
        for (uint32_t l = clusters_[c].before; l != kNone; l = links_[l].next) {
            const uint32_t p = find(links_[l].cluster);
            if (p == from || --budget == 0)
                return true;
            if (p == to || clusters_[p].stamp == stamp_)
                continue;
            clusters_[p].stamp = stamp_;
            if (gap_between(p, from))
                continue;
            search_.push_back(p);
        }
    }
    return false;
}

bool ClusterSet::same_place(uint32_t cluster, NodeId n) const {
    const NodeId m = clusters_[cluster].members;
    const Node &a = graph_.node(m), &b = graph_.node(n);
    return a.stream == b.stream && places_.of(m) == places_.of(n) && places_.epoch(m) == places_.epoch(n);
}

Reason ClusterSet::can_unite(uint32_t a, uint32_t b) {
    const FusionCluster &x = clusters_[a], &y = clusters_[b];
    if (x.sealed || y.sealed || x.in_place || y.in_place)
        return kNeedsMemory;
    if (x.numel != y.numel || (x.fold != y.fold && x.fold != kNoFold && y.fold != kNoFold))
        return kOtherAxes;
    if ((x.in_parts && y.fold != kNoFold) || (y.in_parts && x.fold != kNoFold))
        return kManyParts;
    const bool x_dot = x.kind == ClusterKind::Contraction, y_dot = y.kind == ClusterKind::Contraction;
    if ((x_dot && (y_dot || y.fold != kNoFold)) || (y_dot && x.fold != kNoFold))
        return kOneProduct;
    if ((x_dot && y.in_parts) || (y_dot && x.in_parts))
        return kManyParts;
    if (x.ops + y.ops > target_.max_scalar_ops ||
        x.inputs + y.inputs + x.outputs + y.outputs + 1 > target_.max_operands)
        return kTooBig;
    return !same_place(a, y.members) ? kOtherStream : leads(a, b) || leads(b, a) ? kCircle : kFits;
}

void ClusterSet::unite(uint32_t into, uint32_t from) {
    FusionCluster &a = clusters_[into], &b = clusters_[from];
    b.parent = into;
    if (b.kind == ClusterKind::Contraction)
        a.kind = b.kind;
    if (a.fold == kNoFold)
        a.fold = b.fold;
    a.ops += b.ops;
    a.repeated += b.repeated;
    a.in_parts = a.in_parts || b.in_parts;
    a.shares_bodies = a.shares_bodies && b.shares_bodies;
    a.bodies.insert(a.bodies.end(), b.bodies.begin(), b.bodies.end());
    a.inputs += b.inputs;
    a.outputs += b.outputs;
    a.reductions += b.reductions;
    a.full_outputs += b.full_outputs;
    a.row_outputs += b.row_outputs;
    a.low = std::min(a.low, b.low);
    a.high = std::max(a.high, b.high);
    note_span(a);
    next_member_[a.last_member] = b.members;
    a.last_member = b.last_member;
    if (b.before != kNone) {
        if (a.before == kNone)
            a.before = b.before;
        else
            links_[a.last_before].next = b.before;
        a.last_before = b.last_before;
    }
}

} // namespace lz::passes
