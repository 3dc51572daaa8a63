#pragma once
/// Sideways merging: independent loop clusters with equal bodies share a launch.

#include "passes/fuse/partition/partition.h"

#include <span>

namespace lz::passes {

/// A group for each cluster, -1 for those that stand alone. Members of a group have the same distance to the
/// end of the graph, so none depends on another, and joining them makes no circle. `members` of cluster c are
/// [members_begin[c], members_begin[c + 1]); `edges` likewise are the clusters it reads from. What a group
/// stores for later clusters is in memory all at once, so it is no more than a small part of its device's;
/// `kept` are these bytes of each cluster.
std::vector<int32_t> choose_groups(const ir::Graph &graph, const Partition &partition,
                                   std::span<const uint32_t> members_begin,
                                   std::span<const ir::NodeId> members, std::span<const uint32_t> edges_begin,
                                   std::span<const int32_t> edges, std::span<const int64_t> kept,
                                   const ir::Target &target);

} // namespace lz::passes
