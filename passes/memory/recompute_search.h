#pragma once
/// Which values recompute makes again: the search. It is a function of the extents of all values, and is done
/// again for other sizes (found_again.h): what it finds is the same for many of them, though what it compares
/// is not.

#include "ir/graph/graph.h"
#include "ir/target.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace lz::passes {

/// A kernel to be added: it makes `value` again, of these nodes of the graph.
struct Again {
    uint32_t before; ///< a moment
    ir::ValueId value;
    ir::ClusterKind kind;
    std::vector<ir::NodeId> nodes; ///< in order
};

/// What a search has found, and in which order it has the kernels.
struct Recomputed {
    /// In the order in which they were found: one that another one reads comes before it.
    std::vector<Again> all;
    /// In the order that the moments are those of, the clusters of a group as one: of each its first cluster
    /// and the one behind its last. None where nothing is made again.
    std::vector<std::pair<uint32_t, uint32_t>> kernels;
};
/// Of a graph with clusters on one device, in which the user orders nothing.
Recomputed find_recomputed(const ir::Graph &graph, const ir::DeviceInfo &device);

} // namespace lz::passes
