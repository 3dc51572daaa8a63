#include "passes/lower/joins/pieces.h"

#include "ir/kernel/append.h"
#include "passes/lower/joins/bodies.h"
#include "passes/lower/joins/points.h"

#include <algorithm>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

/// Bytes of a cache line (of a CPU; two sectors of a GPU's), which parts whose runs are shorter fill
/// together, and how many parts do so at most. No measurement was kept; to measure: `arithmetic` of
/// bench_joins with 1 to 16 elements in a run.
constexpr int64_t kLine = 64, kMostSideBySide = 16;

class PieceLowering {
public:
    PieceLowering(const ClusterView &cluster, LoweredStep &step)
        : cluster_(cluster), graph_(*cluster.graph), step_(step) {}

    bool run() {
        if (cluster_.kind != ClusterKind::Loop || !find_joins())
            return false;
        shape_ = graph_.type(graph_.result(*joins_[0])).shape;
        axis_ = static_cast<int>(graph_.attrs(*joins_[0]).integer(attr::kAxis));
        if (shape_.numel() == 0)
            return false;
        const std::vector<int64_t> cut = cuts();
        for (size_t k = 0; k + 1 < cut.size();) {
            Piece piece;
            const int64_t extent = cut[k + 1] - cut[k];
            const int64_t together = side_by_side(extent);
            do {
                piece.parts.push_back(part(cut[k], cut[k + 1]));
                ++k;
            } while (static_cast<int64_t>(piece.parts.size()) < together && k + 1 < cut.size() &&
                     cut[k + 1] - cut[k] == extent);
            bodies_.add(lower_piece(cluster_, piece));
        }
        if (bodies_.axes() > kMostAxes)
            return false;
        note_rows(static_cast<int64_t>(cut.size()) - 1);
        bodies_.finish(step_);
        return true;
    }

private:
    bool inside(ValueId v) const {
        const NodeId p = graph_.value(v).producer;
        return p >= cluster_.first && p < cluster_.end;
    }

    /// Joins of one shape along one axis that the stored values read at every point.
    bool find_joins() {
        const auto look = [&](ValueId, const Node &node) {
            if (node.op == Op::Concat)
                note(node);
            return true;
        };
        return visit_points(cluster_, look) && !joins_.empty();
    }

    /// The one of most parts first; others are kept if they lie alike.
    void note(const Node &join) {
        if (!joins_.empty() && !alike(join, *joins_[0])) {
            if (join.operand_count <= joins_[0]->operand_count)
                return;
            joins_.clear();
        }
        joins_.push_back(&join);
    }
    bool alike(const Node &a, const Node &b) const {
        return graph_.type(graph_.result(a)).shape == graph_.type(graph_.result(b)).shape &&
               graph_.attrs(a).integer(attr::kAxis) == graph_.attrs(b).integer(attr::kAxis);
    }

    /// Where along the axis the pieces begin, and its extent.
    std::vector<int64_t> cuts() const {
        std::vector<int64_t> cut = {0};
        std::vector<std::pair<const Node *, int64_t>> open; // joins, and where they begin
        for (const Node *join : joins_)
            open.emplace_back(join, 0);
        while (!open.empty()) {
            auto [join, at] = open.back();
            open.pop_back();
            for (const ValueId v : graph_.operands(*join)) {
                const Node *part = inside(v) ? graph_.producer(v) : nullptr;
                if (part && part->op == Op::Concat && graph_.attrs(*part).integer(attr::kAxis) == axis_)
                    open.emplace_back(part, at);
                cut.push_back(at += graph_.type(v).shape[axis_]);
            }
        }
        std::ranges::sort(cut);
        const auto twice = std::ranges::unique(cut);
        cut.erase(twice.begin(), twice.end());
        return cut;
    }

    void note_rows(int64_t pieces) {
        int64_t bytes = 0;
        for (int d = 0; d < axis_; ++d)
            step_.joined_rows *= shape_[d];
        for (const ValueId v : cluster_.stored)
            bytes = std::max(bytes, graph_.type(v).bytes());
        step_.joined_run = bytes / step_.joined_rows / std::max<int64_t>(pieces, 1);
        step_.shortest_run = step_.joined_run;
    }

    /// Neighbours whose runs share a line of memory are written by one body, row by row: a line is then
    /// fetched once and not by each of them.
    int64_t side_by_side(int64_t extent) const {
        int64_t outer = 1, run = extent;
        for (int d = 0; d < shape_.rank(); ++d)
            if (d != axis_)
                (d < axis_ ? outer : run) *= shape_[d];
        run *= size_of(graph_.type(cluster_.stored[0]).dtype);
        return outer == 1 ? 1 : std::clamp<int64_t>(kLine / std::max<int64_t>(run, 1), 1, kMostSideBySide);
    }

    /// Axes of extent 1 are left out: nothing moves along them.
    Domain part(int64_t begin, int64_t end) const {
        Domain domain;
        domain.shape = shape_;
        domain.point.resize(static_cast<size_t>(shape_.rank()));
        const auto strides = shape_.dense_strides();
        for (int d = 0; d < shape_.rank(); ++d) {
            const int64_t extent = d == axis_ ? end - begin : shape_[d];
            Index &at = domain.point[static_cast<size_t>(d)];
            at.constant = d == axis_ ? begin : 0;
            if (extent != 1) {
                at.axes[domain.extents.size()] = 1;
                domain.extents.push_back(extent);
            }
            domain.full.add(at, strides[d]);
        }
        if (domain.extents.empty())
            domain.extents.push_back(1);
        domain.rows = domain.full;
        return domain;
    }

    const ClusterView &cluster_;
    const Graph &graph_;
    LoweredStep &step_;
    std::vector<const Node *> joins_;
    Shape shape_;
    int axis_ = 0;
    PieceBodies bodies_;
};

} // namespace

bool lower_in_pieces(const ClusterView &cluster, LoweredStep &step) {
    return PieceLowering(cluster, step).run();
}

} // namespace lz::passes
