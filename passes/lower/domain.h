#pragma once
/// Which axes a cluster's kernel has: found from the shapes of the values that it computes at every point.

#include "passes/lower/index_map.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lz::passes {

/// The index space that a cluster's stored values are pulled at.
struct Domain {
    std::vector<int64_t> extents;
    uint32_t reduced = 0; ///< bit a: axis a is walked by loops, not by the grid
    Index full;           ///< element number of values over all axes
    Index rows;           ///< element number of values over the axes that are not reduced
    /// Shape that has one dimension an axis, empty if there is none: values of this shape need no arithmetic.
    bool per_dimension = false;
    /// A part of the whole: where its point is in values of shape `shape`. Empty where the domain is all of
    /// it.
    IndexMap point;
    /// Bit a: axis a stays apart from the one before it, and stays where it has one element, so that parts of
    /// other extents have the same kernel.
    uint32_t parted = 0;
    ir::Shape shape;
    ir::Shape row_shape;
};

/// Runs of kept and of reduced dimensions, outermost first; kept dimensions of extent 1 do not count. Two
/// reductions with equal folds walk the same elements in the same order, however their operands' dimensions
/// are written.
struct Fold {
    struct Group {
        int64_t extent;
        bool reduced;
        friend bool operator==(const Group &, const Group &) = default;
    };
    std::vector<Group> groups;

    int64_t rows() const;
    int64_t reduced() const;
    int64_t numel() const { return rows() * reduced(); }
    int reduced_groups() const;
    /// The last group is reduced: the order of LoopOrder::Lanes along it.
    bool lanes() const { return !groups.empty() && groups.back().reduced; }
    friend bool operator==(const Fold &a, const Fold &b);
};
Fold fold_of(const ir::Shape &shape, std::span<const int64_t> reduced_axes);

/// Axes for a cluster without reductions: `shapes` are those of values at every point, the first of a stored
/// one.
Domain loop_domain(std::span<const ir::Shape> shapes);
/// Axes for reductions of `operand` over `axes`. `full` and `rows` are shapes of further values at every
/// point and every row. With `one_axis_a_group` each reduced group is one axis, whatever its dimensions.
Domain row_domain(const ir::Shape &operand, std::span<const int64_t> axes, std::span<const ir::Shape> full,
                  std::span<const ir::Shape> rows, bool one_axis_a_group);

} // namespace lz::passes
