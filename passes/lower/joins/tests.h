#pragma once
/// What the points of a part of an index space are tested for: where joins choose between their operands, and
/// where paddings end.

#include "passes/lower/nest.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace lz::passes {

/// Points of a space of some shape: along axis d those from begin[d] until end[d].
struct Box {
    std::vector<int64_t> begin, end;

    int64_t extent(size_t axis) const { return end[axis] - begin[axis]; }
};

struct BoxTests {
    /// By axis: places within the box where a test changes its answer, ascending, each once.
    std::vector<std::vector<int64_t>> cuts;
    int64_t count = 0;               ///< tests of each point
    std::vector<ir::NodeId> outside; ///< paddings of which the box has nothing but the fill value
};

class FindTests {
public:
    explicit FindTests(const ClusterView &cluster);

    /// The shape of the first join or padding that the stored values read at every point: boxes are parts of
    /// it. Nothing where there is none, or a join of so many parts that it is no border.
    const std::optional<ir::Shape> &shape() const { return shape_; }
    /// Whether that, or another that is read at every point, is a padding.
    bool pads() const { return pads_; }
    BoxTests in(const Box &box) const;

private:
    /// Where a dimension of a value lies: its coordinate is that of the space along `axis` less `offset`.
    struct Dim {
        int axis = -1; ///< -1: not known before the run, or always 0
        int64_t offset = 0;
        friend auto operator<=>(const Dim &, const Dim &) = default;
    };
    using Dims = std::vector<Dim>;
    struct Walk;

    bool inside(ir::ValueId v) const;
    void find_shape();
    void visit(ir::ValueId v, Dims dims, Walk &walk) const;
    void visit_pad(const ir::Node &node, Dims dims, Walk &walk) const;
    void visit_concat(const ir::Node &node, const Dims &dims, Walk &walk) const;
    Dims repeated(const ir::Node &node, ir::ValueId operand, const Dims &dims) const;

    const ClusterView &cluster_;
    const ir::Graph &graph_;
    std::optional<ir::Shape> shape_;
    std::vector<ir::ValueId> roots_; ///< values of that shape that are computed at every point
    bool pads_ = false;
};

} // namespace lz::passes
