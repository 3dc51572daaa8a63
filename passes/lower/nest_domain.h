#pragma once
/// The points of a loop, row or reduce cluster, what is stored at each of them, and which axes are its
/// kernel's grid and which its loops.

#include "passes/lower/domain.h"
#include "passes/lower/emit.h"
#include "passes/lower/nest.h"

#include <vector>

namespace lz::passes {

/// A value that the kernel stores.
struct NestOutput {
    ir::ValueId value = ir::kNone;
    bool row = false; ///< once a row; else at each point
    ExprId expr = kNoExpr;
    ir::ValueId replaces = ir::kNone; ///< updated in place
    Index address;
};

class NestDomain {
public:
    explicit NestDomain(const ClusterView &cluster)
        : cluster_(cluster), graph_(*cluster.graph), exprs_(graph_, cluster.first, cluster.end) {}

    /// Of the whole cluster.
    void choose();
    /// Of a piece of a cluster without reductions.
    void choose(const Piece &piece);
    /// Of an update that is made apart (joins/updates.h): the part that is replaced, or what lies on both
    /// sides of it along `axis`, where it is within the replaced part along the axes before.
    void choose_replaced();
    void choose_beside(int axis);

    /// Holds after choose(), as all below do.
    bool has_reduction() const { return reduction_ != nullptr; }
    /// It updates a value in place, of which it reads other elements than those that it writes.
    bool reads_what_it_replaces() const;
    /// The vector axis is reduced.
    bool lanes() const { return fold_.lanes(); }
    ClusterExprs &exprs() { return exprs_; }
    const Collapsed &axes() const { return axes_; }
    const std::vector<NestOutput> &outputs() const { return outputs_; }
    /// Axes of the kernel, outermost first. Without reductions none is a loop.
    const std::vector<int> &grid() const { return grid_; }
    const std::vector<int> &loops() const { return loops_; }
    int64_t extent(int axis) const { return axes_.extents[static_cast<size_t>(axis)]; }
    /// Axes of the domain along which a row stays the same row: those of the grid, and those that `collapse`
    /// dropped, which move nothing.
    uint32_t grid_mask() const;

private:
    void find_reduction();
    std::vector<bool> row_values() const;
    bool is_of_points_or_rows(const ir::Shape &result, const ir::Shape &operand) const;
    std::vector<bool> nodes_of_points_or_rows() const;
    void choose_points(bool one_axis_a_group);
    bool updates_in_place() const;
    void choose_update(bool in_place);
    void choose_axes();

    const ClusterView &cluster_;
    const ir::Graph &graph_;
    ClusterExprs exprs_;
    const ir::Node *reduction_ = nullptr;
    std::vector<int64_t> reduced_;
    Fold fold_;
    std::vector<NestOutput> outputs_;
    Collapsed axes_;
    std::vector<int> grid_, loops_;
};

} // namespace lz::passes
