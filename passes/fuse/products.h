#pragma once
/// Before clusters are chosen: products that become something else.

#include "ir/graph/graph.h"
#include "ir/target.h"

#include <optional>

namespace lz::passes {

/// The graph with products of a matrix and a vector as sums of products, but where a library multiplies
/// or the order of products is fixed, and
/// with operands that are no strided matrices even when they lie dense in memory permuted to [batch..,
/// free.., contracted..], which `fuse` then makes copies. Nothing if there are neither.
std::optional<ir::Graph> prepare_products(const ir::Graph &graph, const ir::Target &target);

} // namespace lz::passes
