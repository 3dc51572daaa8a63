#include "passes/lower/joins/boxes.h"

#include "ir/kernel/append.h"
#include "passes/lower/joins/bodies.h"
#include "passes/lower/joins/tests.h"
#include "passes/schedule/schedule.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

/// Three boxes along each of three axes and a little more; kernels of one step; axes among which cuts are
/// chosen, all subsets of them.
constexpr size_t kMostBoxes = 32, kMostBodies = 4, kMostCutAxes = 4;
/// Operations of several operands from which on tests are not hidden by memory. Padding a matrix of 4096x4096
/// and doing nothing else takes 1.9 ms with its tests, and 2.7 ms in boxes (Zen 4). Measure: that, and
/// `heat_slices` of bench_programs.
constexpr int kLeastCombined = 2;

/// A way to cut the space.
struct Cut {
    uint32_t along = 0; ///< bit a: at each test's border on axis a
    std::vector<Box> boxes;
    double cost = 0; ///< nanoseconds
};

class BoxLowering {
public:
    BoxLowering(const ClusterView &cluster, const PieceCosts &costs, LoweredStep &step)
        : cluster_(cluster), graph_(*cluster.graph), costs_(costs), step_(step), tests_(cluster) {}

    bool run() {
        if (!tests_.shape() || tests_.shape()->numel() == 0 || (costs_.body > 0 && waits_for_memory()))
            return false;
        shape_ = *tests_.shape();
        const Cut best = choose();
        if (best.boxes.size() < 2 || (std::popcount(best.along) == 1 && !tests_.pads()))
            return false; // a join along one axis: pieces.h
        PieceBodies bodies;
        for (const Box &box : best.boxes)
            bodies.add(lower_piece(cluster_, {{domain(box, best.along)}}));
        if (bodies.count() > kMostBodies || bodies.axes() > kMostAxes)
            return false;
        note_rows(best);
        bodies.finish(step_);
        return true;
    }

private:
    /// A copy, or little more, whose tests are made while memory is waited for; and single elements at the
    /// ends of rows are a line of memory each.
    bool waits_for_memory() const {
        int combined = 0;
        for (NodeId n = cluster_.first; n < cluster_.end; ++n) {
            const Node &node = graph_.node(n);
            combined += info(node.op).family == OpFamily::Elementwise && node.operand_count > 1 ? 1 : 0;
        }
        return combined < kLeastCombined;
    }

    Box whole() const {
        Box box;
        box.begin.assign(static_cast<size_t>(shape_.rank()), 0);
        box.end.assign(shape_.begin(), shape_.end());
        return box;
    }

    /// The cheapest cut; without boxes where it is best to cut nothing.
    Cut choose() const {
        const BoxTests all = tests_.in(whole());
        std::vector<size_t> axes;
        for (size_t a = all.cuts.size(); a-- > 0 && axes.size() < kMostCutAxes;)
            if (!all.cuts[a].empty())
                axes.push_back(a);
        Cut best;
        best.cost = cost(whole(), all) + costs_.body;
        for (uint32_t subset = 1; subset < 1u << axes.size(); ++subset) {
            Cut cut;
            for (size_t k = 0; k < axes.size(); ++k)
                if (subset >> k & 1)
                    cut.along |= 1u << axes[k];
            std::set<std::vector<NodeId>> kinds;
            divide(whole(), 0, cut, kinds);
            cut.cost += costs_.body * static_cast<double>(kinds.size());
            if (cut.boxes.size() <= kMostBoxes && cut.cost < best.cost)
                best = std::move(cut);
        }
        return best;
    }

    /// Cuts a box along the axes from `axis` on.
    void divide(const Box &box, size_t axis, Cut &cut, std::set<std::vector<NodeId>> &kinds) const {
        if (cut.boxes.size() > kMostBoxes)
            return;
        const BoxTests tests = tests_.in(box);
        while (axis < tests.cuts.size() && (!(cut.along >> axis & 1) || tests.cuts[axis].empty()))
            ++axis;
        if (axis == tests.cuts.size()) {
            cut.boxes.push_back(box);
            cut.cost += cost(box, tests);
            kinds.insert(tests.outside);
            return;
        }
        Box part = box;
        std::vector<int64_t> ends = tests.cuts[axis];
        ends.push_back(box.end[axis]);
        for (const int64_t end : ends) {
            part.end[axis] = end;
            divide(part, axis + 1, cut, kinds);
            part.begin[axis] = end;
        }
    }

    double cost(const Box &box, const BoxTests &tests) const {
        int64_t run = 1, points = 1;
        bool dense = true; // axes from this one on are one
        for (size_t a = box.begin.size(); a-- > 0;) {
            points *= box.extent(a);
            run *= dense ? box.extent(a) : 1;
            dense = dense && tests.cuts[a].empty() && box.extent(a) == shape_[static_cast<int>(a)];
        }
        return costs_.piece + costs_.row * static_cast<double>(points / run) +
               costs_.test * static_cast<double>(points * tests.count);
    }

    /// Axes of extent 1 are left out unless the space is cut along them.
    Domain domain(const Box &box, uint32_t along) const {
        Domain domain;
        domain.shape = shape_;
        const auto strides = shape_.dense_strides();
        for (int d = 0; d < shape_.rank(); ++d) {
            const auto a = static_cast<size_t>(d);
            const bool cut = along >> a & 1;
            Index &at = domain.point.emplace_back();
            at.constant = box.begin[a];
            if (cut || box.extent(a) != 1) {
                at.axes[domain.extents.size()] = 1;
                domain.parted |= (cut ? 1u : 0u) << domain.extents.size();
                domain.extents.push_back(box.extent(a));
            }
            domain.full.add(at, strides[d]);
        }
        domain.rows = domain.full;
        return domain;
    }

    /// Boxes alternate in memory along the last axis that is cut.
    void note_rows(const Cut &cut) {
        const int last = std::bit_width(cut.along) - 1;
        int64_t bytes = 0, narrowest = shape_[last];
        for (int d = 0; d < last; ++d)
            step_.joined_rows *= shape_[d];
        for (const ValueId v : cluster_.stored)
            bytes = std::max(bytes, graph_.type(v).bytes());
        for (const Box &box : cut.boxes)
            narrowest = std::min(narrowest, box.extent(static_cast<size_t>(last)));
        const auto across = static_cast<int64_t>(tests_.in(whole()).cuts[static_cast<size_t>(last)].size());
        step_.joined_run = bytes / step_.joined_rows / (across + 1);
        step_.shortest_run = bytes / step_.joined_rows / shape_[last] * narrowest;
    }

    const ClusterView &cluster_;
    const Graph &graph_;
    const PieceCosts costs_;
    LoweredStep &step_;
    const FindTests tests_;
    Shape shape_;
};

} // namespace

bool lower_in_boxes(const ClusterView &cluster, const Target &target, LoweredStep &step) {
    const PieceCosts costs = piece_costs(target, step.device);
    return cluster.kind == ClusterKind::Loop && costs.test > 0 && BoxLowering(cluster, costs, step).run();
}

} // namespace lz::passes
