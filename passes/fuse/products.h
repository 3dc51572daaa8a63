#pragma once
/// Before clusters are chosen: products whose operands are no strided matrices even when they lie dense in
/// memory.

#include "ir/graph/graph.h"

#include <optional>

namespace lz::passes {

/// The graph with such operands permuted to [batch.., free.., contracted..], which `fuse` then makes copies.
/// Nothing if there are none.
std::optional<ir::Graph> permute_operands(const ir::Graph &graph);

} // namespace lz::passes
