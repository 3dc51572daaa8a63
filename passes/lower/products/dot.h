#pragma once
/// Products: the kernel of a contraction cluster.

#include "passes/lower/expr.h"
#include "passes/lower/nest.h"
#include "passes/lower/products/operand.h"

#include <string_view>

namespace lz::passes {

/// The library's function for products: see `multiplies` and runtime/cuda/library/matmul.h for its arguments.
inline constexpr std::string_view kDot = "dot";

/// Whether the device's library makes such products: of floats, into their own dtype. Then a product is a
/// call of it, and what is done with the result a kernel of its own, unless the call can do all of it
/// (epilogue.h).
bool library_multiplies(const ir::Graph &graph, const ir::Node &dot, const ir::Target &target,
                        ir::Device device);

/// Fills kernel and the one segment of a contraction cluster; where the library multiplies, and takes
/// operands that lie like these, its call.
void lower_dot(const ClusterView &cluster, const ir::Target &target, LoweredStep &step);

} // namespace lz::passes
