#pragma once
/// Products: how an operand of a `dot` is read through the views above it, and the kernel of a contraction
/// cluster.

#include "passes/lower/expr.h"
#include "passes/lower/nest.h"

#include <functional>
#include <optional>
#include <string_view>

namespace lz::passes {

/// A product as batches of matrices. Axes of the result in order: batch, m (lhs free), n (rhs free).
struct DotDims {
    std::vector<int64_t> batch, m, n, k; ///< extents
    int64_t rows() const;
    int64_t columns() const;
    int64_t depth() const;
};
DotDims dot_dims(const ir::Graph &graph, const ir::Node &dot);

/// An operand as a strided array: what it is read from, and its strides.
struct DotOperand {
    ir::ValueId base;
    Index address;              ///< constant and words: the offset
    std::vector<int64_t> batch; ///< stride along each batch axis
    int64_t free = 0;           ///< along m or n
    int64_t k = 0;
};

/// The operand (0: lhs, 1: rhs) read through views as long as `look_through` allows it for a value. Nothing
/// if its rows, columns or depth are not single strides: then it has to be copied before.
std::optional<DotOperand> dot_operand(const ir::Graph &graph, const ir::Node &dot, int which,
                                      const std::function<bool(ir::ValueId)> &look_through);

/// The strides of a value's dimensions in the memory of what it is a view of. Nothing if one has no single
/// stride.
std::optional<std::vector<int64_t>> strides_through_views(const ir::Graph &graph, ir::ValueId value);

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
