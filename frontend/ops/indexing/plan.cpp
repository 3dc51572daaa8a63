#include "frontend/ops/indexing/plan.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace lz::indexing {

using detail::Op;
using detail::Shape;
using detail::Words;

namespace {

class PlanMaker {
public:
    PlanMaker(const ir::TensorType &type, std::span<const Index> index, Location loc)
        : type_(type), index_(index), loc_(loc) {}

    Plan run() {
        plan_.rank = static_cast<size_t>(type_.shape.rank());
        count_axes();
        for (const Index &entry : index_)
            add(entry);
        while (axis_ < type_.shape.rank())
            keep_axis();
        join_positions();
        const size_t axes = plan_.result.size() + static_cast<size_t>(plan_.picked.rank());
        if (axes > ir::kMaxRank)
            throw ShapeError("at: the part would have " + std::to_string(axes) + " axes; at most " +
                                 std::to_string(ir::kMaxRank) + " are possible",
                             loc_);
        return std::move(plan_);
    }

private:
    void count_axes() {
        int used = 0, ellipses = 0;
        for (const Index &entry : index_) {
            ellipses += entry.kind() == Index::Kind::Ellipsis;
            used += entry.kind() != Index::Kind::Ellipsis && entry.kind() != Index::Kind::None;
        }
        if (ellipses > 1)
            throw IndexError("at: Ellipsis stands more than once in the index", loc_);
        if (used > type_.shape.rank())
            throw IndexError("at: the index names " + std::to_string(used) + " axes; " + detail::text(type_) +
                                 " has " + std::to_string(type_.shape.rank()),
                             loc_);
        left_over_ = type_.shape.rank() - used;
    }

    void take(int64_t start, int64_t size, int64_t step) {
        const auto a = static_cast<size_t>(axis_);
        plan_.starts[a] = start;
        plan_.sizes[a] = size;
        plan_.steps[a] = step;
        plan_.whole &= size == type_.shape[axis_] && step == 1;
        ++axis_;
    }
    void show(int64_t extent) {
        plan_.result.push_back(extent);
        shown_since_positions_ = true;
    }
    void keep_axis() {
        const int64_t extent = type_.shape[axis_];
        show(extent);
        take(0, extent, 1);
    }

    void add(const Index &entry) {
        switch (entry.kind()) {
        case Index::Kind::None:
            show(1);
            break;
        case Index::Kind::Ellipsis:
            for (int i = 0; i < left_over_; ++i)
                keep_axis();
            break;
        case Index::Kind::Integer:
            add_integer(entry.integer());
            break;
        case Index::Kind::Slice:
            add_slice(entry.slice());
            break;
        case Index::Kind::Tensor:
            add_positions(entry.tensor());
            break;
        }
    }

    void add_integer(int64_t given) {
        const int64_t extent = type_.shape[axis_];
        if (given < -extent || given >= extent)
            throw IndexError("at: index " + std::to_string(given) + " is out of range for axis " +
                                 std::to_string(axis_) + " of " + detail::text(type_),
                             loc_);
        take(given < 0 ? given + extent : given, 1, 1);
    }

    void add_slice(const Slice &slice) {
        const detail::Range range =
            detail::clip(type_.shape[axis_], slice.start(), slice.stop(), slice.step(), "at", loc_);
        if (range.backwards)
            plan_.flipped.push_back(axis_);
        show(range.size);
        take(range.start, range.size, range.step);
    }

    void add_positions(const Tensor &positions) {
        const ir::TensorType &t = detail::checked_type(positions, "at", loc_);
        if (t.dtype != ir::DType::I64 && t.dtype != ir::DType::I32)
            throw DTypeError(
                "at: a tensor in an index must be i64 or i32, or a bool mask, not " + detail::text(t), loc_);
        // As PyTorch: what is picked stands where the positions stand, or first if other axes are between
        // them. One number selects as an integer does.
        if (t.shape.rank() > 0) {
            if (!has_row_) {
                plan_.picked_at = plan_.result.size();
                plan_.first_picked = axis_;
            } else if (shown_since_positions_) {
                plan_.picked_at = 0;
                plan_.first_picked = 0;
            }
            has_row_ = true;
            shown_since_positions_ = false;
        }
        plan_.positions.push_back({&positions, axis_});
        take(0, type_.shape[axis_], 1);
    }

    void join_positions() {
        for (const Positions &p : plan_.positions) {
            const Shape &shape = detail::type(*p.tensor).shape;
            Shape joined;
            int axis = 0;
            if (!ir::broadcast_shapes(plan_.picked, shape, joined, axis))
                throw IndexError("at: the tensors in the index have shapes " + ir::to_string(plan_.picked) +
                                     " and " + ir::to_string(shape) + ", which do not broadcast",
                                 loc_);
            plan_.picked = joined;
        }
    }

    const ir::TensorType type_;
    std::span<const Index> index_;
    Location loc_;
    Plan plan_;
    int axis_ = 0;
    int left_over_ = 0;
    bool has_row_ = false;
    bool shown_since_positions_ = false; ///< an axis of the result that is not picked
};

} // namespace

Plan make_plan(const ir::TensorType &type, std::span<const Index> index, Location loc) {
    return PlanMaker(type, index, loc).run();
}

std::vector<int64_t> picked_shape(const Plan &plan) {
    std::vector<int64_t> shape = plan.result;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(plan.picked_at), plan.picked.begin(),
                 plan.picked.end());
    return shape;
}

} // namespace lz::indexing
