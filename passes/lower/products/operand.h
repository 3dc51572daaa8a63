#pragma once
/// How an operand of a `dot` is read through the views above it.

#include "ir/graph/graph.h"
#include "ir/target.h"
#include "passes/lower/index_map.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace lz::passes {

/// A product as batches of matrices. Axes of the result in order: batch, m (lhs free), n (rhs free).
struct DotDims {
    std::vector<int64_t> batch, m, n, k; ///< extents
    int64_t rows() const;
    int64_t columns() const;
    int64_t depth() const;
};
DotDims dot_dims(const ir::Graph &graph, const ir::Node &dot);

/// A part of an axis of a product along which an operand has one stride (ir::ContractionDigit).
struct DotDigit {
    int64_t extent, stride;
};

/// An operand as a strided array: what it is read from, and its strides. Or, where that is not one, a
/// gathered one: windows of an image have no stride along their rows.
struct DotOperand {
    ir::ValueId base;
    Index address;              ///< constant and words: the offset
    std::vector<int64_t> batch; ///< stride along each batch axis
    int64_t free = 0;           ///< along m or n
    int64_t k = 0;
    /// Of a gathered operand, in place of `free` and `k`: the outermost digit first, at least one of each.
    std::vector<DotDigit> free_digits = {}, k_digits = {};
    bool gathered() const { return !free_digits.empty(); }
};

/// Digits that a gathered operand has at most: a convolution in three dimensions has eight.
inline constexpr size_t kMostDotDigits = 8;

/// Whether kernels of the product gather operands that are not strided. They do where CPU code multiplies
/// elements as they are; elsewhere such operands are copied.
bool gathers_operands(const ir::Graph &graph, const ir::Node &dot, const ir::Target &target);

/// The operand (0: lhs, 1: rhs) read through views as long as `look_through` allows it for a value. Nothing
/// if its rows, columns or depth are not single strides, nor digits where it may be `gathered` and that costs
/// no more than a copy: then it has to be copied before.
std::optional<DotOperand> dot_operand(const ir::Graph &graph, const ir::Node &dot, int which, bool gathered,
                                      const std::function<bool(ir::ValueId)> &look_through);

/// The strides of a value's dimensions in the memory of what it is a view of. Nothing if one has no single
/// stride.
std::optional<std::vector<int64_t>> strides_through_views(const ir::Graph &graph, ir::ValueId value);

} // namespace lz::passes
