#include "frontend/ops/indexing/access.h"

#include "frontend/ops/indexing/gather.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/views.h"

#include <algorithm>
#include <vector>

namespace lz::indexing {

using detail::Op;
using detail::Shape;
using detail::Words;

namespace {

Tensor flip_back(const Tensor &x, const Plan &plan, Location loc) {
    return plan.flipped.empty() ? x : detail::record(Op::Flip, {&x}, Words().ints(plan.flipped), loc);
}

/// x cut and flipped, in x's rank.
Tensor cut_of(const Tensor &x, const Plan &plan, Location loc) {
    if (plan.whole)
        return flip_back(x, plan, loc);
    const Tensor part = detail::record(Op::Slice, {&x},
                                       Words()
                                           .word(static_cast<int64_t>(plan.rank))
                                           .ints({plan.sizes, plan.rank})
                                           .ints({plan.steps, plan.rank}),
                                       loc, {plan.starts, plan.rank});
    return flip_back(part, plan, loc);
}

/// The cut's axes with those that are picked side by side and then merged into one, `axis`.
struct Merged {
    std::vector<int64_t> order; ///< of the cut's axes
    Shape apart, merged;        ///< in that order, before and after
    int axis = 0;

    explicit Merged(const Plan &plan) {
        const auto is_picked = [&](int a) {
            return std::ranges::any_of(plan.positions, [&](const Positions &p) { return p.axis == a; });
        };
        const int rank = static_cast<int>(plan.rank);
        const auto place = [&](bool picked, int from, int to) {
            for (int a = from; a < to; ++a)
                if (is_picked(a) == picked)
                    order.push_back(a);
        };
        place(false, 0, plan.first_picked);
        axis = static_cast<int>(order.size());
        place(true, 0, rank);
        place(false, plan.first_picked, rank);
        int64_t extent = 1;
        for (int i = 0; i < rank; ++i) {
            const int64_t own = plan.sizes[static_cast<size_t>(order[static_cast<size_t>(i)])];
            apart.push_back(own);
            const int last = axis + static_cast<int>(plan.positions.size()) - 1;
            extent *= i >= axis && i <= last ? own : 1;
            if (i < axis || i > last)
                merged.push_back(own);
            else if (i == last)
                merged.push_back(extent);
        }
    }
    Tensor from(const Tensor &cut, Location loc) const {
        return detail::reshape_to(permuted(cut, order, loc), merged, loc);
    }
    Tensor back(const Tensor &x, Location loc) const {
        std::vector<int64_t> inverse(order.size());
        for (size_t i = 0; i < order.size(); ++i)
            inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
        return permuted(detail::reshape_to(x, apart, loc), inverse, loc);
    }

private:
    static Tensor permuted(const Tensor &x, std::span<const int64_t> axes, Location loc) {
        return std::ranges::is_sorted(axes) ? x : detail::permute_to(x, axes, loc);
    }
};

/// Positions as one row beside x, counted from 0 along the merged axis.
Tensor row_of_positions(const Tensor &x, const Plan &plan, Location loc) {
    std::vector<Tensor> here = {x};
    for (const Positions &p : plan.positions)
        here.push_back(*p.tensor);
    detail::bring_together(here, detail::type(x).device, loc);
    const auto extent_of = [&](size_t k) { return plan.sizes[static_cast<size_t>(plan.positions[k].axis)]; };
    const Shape row({plan.picked.numel()});
    if (plan.positions.size() == 1)
        return detail::reshape_to(detail::from_front(here[1], extent_of(0), loc), row, loc);
    // Each is looked up in the offsets of its own axis, so that its own range is checked and named.
    Tensor sum;
    int64_t stride = 1;
    for (size_t k = plan.positions.size(); k-- > 0; stride *= extent_of(k)) {
        const ir::TensorType offsets = {ir::DType::I64, Shape({extent_of(k)}), detail::type(x).device};
        const Tensor all = detail::iota(offsets, 0, 0, stride, loc);
        const Tensor from_front = detail::from_front(here[k + 1], extent_of(k), loc);
        const Shape own = detail::type(from_front).shape;
        const Tensor flat = detail::reshape_to(from_front, Shape({own.numel()}), loc);
        const Tensor offset = detail::broadcast_to(
            detail::reshape_to(index_select(all, 0, flat, loc), own, loc), plan.picked, loc);
        sum = sum.defined() ? detail::binary(Op::Add, sum, offset, loc) : offset;
    }
    return detail::reshape_to(sum, row, loc);
}

} // namespace

Tensor read(const Tensor &x, const Plan &plan, Location loc) {
    Tensor part = cut_of(x, plan, loc);
    if (!plan.positions.empty()) {
        const Merged merged(plan);
        part = index_select(merged.from(part, loc), merged.axis, row_of_positions(x, plan, loc), loc);
    }
    const Shape shape = detail::checked_shape(picked_shape(plan), detail::type(x).dtype, "at", loc);
    return detail::record(Op::Reshape, {&part}, Words().ints(shape.extents()), loc);
}

detail::Node *slice_of(const Tensor &part, const Plan &plan) {
    detail::Node *n = detail::Access::node(part);
    while (n->pending() && (n->op == Op::Reshape || n->op == Op::Flip))
        n = n->operand_data()[0];
    if (!n->pending() || n->op != Op::Slice)
        return nullptr;
    const ir::AttrView attrs = n->attrs();
    const bool same = std::ranges::equal(attrs.runtime, std::span(plan.starts, plan.rank)) &&
                      std::ranges::equal(attrs.ints(ir::attr::kSliceSteps), std::span(plan.steps, plan.rank));
    return same ? n : nullptr;
}

namespace {

/// What `written` and `added` have in common.
Tensor changed(const Tensor &x, const Plan &plan, const Tensor &value, bool add, Location loc,
               detail::Node *read) {
    Tensor update;
    if (!plan.positions.empty()) {
        const Merged merged(plan);
        const Tensor row = row_of_positions(x, plan, loc);
        Shape source = merged.merged, index_shape;
        source[merged.axis] = detail::type(row).numel();
        for (int a = 0; a < source.rank(); ++a)
            index_shape.push_back(a == merged.axis ? source[a] : 1);
        const Tensor index = detail::broadcast_to(detail::reshape_to(row, index_shape, loc), source, loc);
        const Tensor into = merged.from(cut_of(x, plan, loc), loc),
                     from = detail::reshape_to(value, source, loc);
        update = merged.back(detail::record(Op::Scatter, {&into, &index, &from}, {merged.axis, add}, {}, loc),
                             loc);
    } else {
        update = detail::reshape_to(value, Shape(std::span(plan.sizes, plan.rank)), loc);
    }
    update = flip_back(update, plan, loc);
    if (plan.whole)
        return update;
    const Words structural = Words().word(static_cast<int64_t>(plan.rank)).ints({plan.steps, plan.rank});
    if (read)
        return detail::record_update(x, update, read, structural, {plan.starts, plan.rank}, loc);
    return detail::record(Op::UpdateSlice, {&x, &update}, structural, loc, {plan.starts, plan.rank});
}

} // namespace

Tensor written(const Tensor &x, const Plan &plan, const Tensor &value, Location loc, detail::Node *read) {
    return changed(x, plan, value, false, loc, read);
}

Tensor added(const Tensor &x, const Plan &plan, const Tensor &value, Location loc) {
    const ir::DType dtype = detail::type(x).dtype;
    if (dtype == ir::DType::Bool) { // there a sum is whether any is true
        const auto count = [&](const Tensor &t) { return detail::cast(t, ir::DType::I32, loc); };
        return detail::cast(added(count(x), plan, count(value), loc), dtype, loc);
    }
    if (!plan.positions.empty())
        return changed(x, plan, value, true, loc, nullptr);
    return changed(x, plan, add(read(x, plan, loc), value, loc), false, loc, nullptr);
}

} // namespace lz::indexing
