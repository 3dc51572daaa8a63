#pragma once
/// Inside fuse: what the user ordered, as order edges, so that everything after sees one kind of order.

#include "ir/graph/graph.h"

#include <optional>

namespace lz::passes {

/// The graph with order edges
///  - between an effect of the user's and what was recorded before and after it in its place (its stream:
///    passes/devices/places.h),
///  - from what was recorded on a stream to each wait_stream for it.
/// Nothing where there is no effect. Linear in the size of the graph times the number
/// of streams that wait for one another.
std::optional<ir::Graph> order_effects(const ir::Graph &graph);

} // namespace lz::passes
