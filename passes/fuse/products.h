#pragma once
/// Before clusters are chosen: products that become something else.

#include "ir/graph/graph.h"
#include "ir/target.h"

#include <optional>

namespace lz::passes {

/// The graph with products of a matrix and a vector as sums of products, but where a library multiplies or
/// the order of products is fixed; and with operands that have to be copied, because they are no strided
/// matrices and are not gathered (lower/products/operand.h), in the order of the copy: [batch.., free..,
/// contracted..], or [batch.., contracted.., free..] where that has the longer runs in memory. Nothing if
/// there are neither.
std::optional<ir::Graph> prepare_products(const ir::Graph &graph, const ir::Target &target);

} // namespace lz::passes
