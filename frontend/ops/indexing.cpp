// at(): an index as a composition of primitives, read forwards and written backwards.
#include "lazuli/ops/indexing.h"

#include "frontend/ops/compose.h"
#include "frontend/record/view_warnings.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/views.h"

#include <algorithm>
#include <numeric>

namespace lz {

using detail::Op;
using detail::Shape;
using detail::Words;

namespace {

/// One tensor of positions and the axis of x that it picks from.
struct Positions {
    const Tensor *tensor;
    int axis;
};

/// An index against a shape. The part is x cut to starts/sizes/steps, flipped along `flipped`, and reshaped
/// from `sizes` to `result`: integers go away and None comes in. Axes with tensors of positions are whole in
/// `sizes` and not in `result`, where the shape of all positions together comes in at `picked_at`.
struct Plan {
    int64_t starts[ir::kMaxRank] = {}, sizes[ir::kMaxRank] = {}, steps[ir::kMaxRank] = {};
    std::vector<int64_t> flipped;
    std::vector<int64_t> result;
    size_t rank = 0;
    bool whole = true; ///< the cut is all of x
    std::vector<Positions> positions;
    Shape picked;         ///< the positions broadcast
    size_t picked_at = 0; ///< in `result`
    int first_picked = 0; ///< axes of x before it stay before the picked ones
};

class Planner {
public:
    Planner(const ir::TensorType &type, std::span<const Index> index, Location loc)
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

/// The result's shape with the positions' own where they are picked.
std::vector<int64_t> picked_shape(const Plan &plan) {
    std::vector<int64_t> shape = plan.result;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(plan.picked_at), plan.picked.begin(),
                 plan.picked.end());
    return shape;
}

Tensor read(const Tensor &x, const Plan &plan, Location loc) {
    Tensor part = cut_of(x, plan, loc);
    if (!plan.positions.empty()) {
        const Merged merged(plan);
        part = index_select(merged.from(part, loc), merged.axis, row_of_positions(x, plan, loc), loc);
    }
    const Shape shape = detail::checked_shape(picked_shape(plan), detail::type(x).dtype, "at", loc);
    return detail::record(Op::Reshape, {&part}, Words().ints(shape.extents()), loc);
}

/// The pending slice that a part shows, flipped and reshaped as it may be, if it is the cut of the plan.
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

/// x with the part replaced by `value`, which has the part's shape. `read`: the slice of the same part that
/// the value is computed from, if it is.
Tensor written(const Tensor &x, const Plan &plan, const Tensor &value, Location loc,
               detail::Node *read = nullptr) {
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
        update =
            merged.back(detail::record(Op::Scatter, {&into, &index, &from}, {merged.axis, 0}, {}, loc), loc);
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

bool is_mask(const Index &entry) {
    return entry.kind() == Index::Kind::Tensor && entry.tensor().defined() &&
           entry.tensor().dtype() == DType::Bool;
}
bool has_mask(std::span<const Index> index) {
    return std::ranges::any_of(index, [](const Index &entry) { return is_mask(entry); });
}
/// A mask that stands alone needs not be read to be written through.
bool is_lone_mask(std::span<const Index> index) {
    return index.size() == 1 && is_mask(index[0]);
}

/// Axes of x that the entry stands for; an Ellipsis for none before the others are known.
int axes_of(const Index &entry) {
    if (entry.kind() == Index::Kind::Ellipsis || entry.kind() == Index::Kind::None)
        return 0;
    return is_mask(entry) ? detail::type(entry.tensor()).shape.rank() : 1;
}

/// An index whose masks are replaced by the positions where they are true, and x with one axis for all those
/// of a mask.
struct Unmasked {
    Tensor x;
    std::vector<Index> index;
};

/// Calls f(entry, first axis) and throws IndexError for a mask that does not match the axes that it covers.
template <class F>
void for_each_axes(const ir::TensorType &type, std::span<const Index> index, Location loc, F &&f) {
    int used = 0;
    for (const Index &entry : index)
        used += axes_of(entry);
    int axis = 0;
    for (const Index &entry : index) {
        if (is_mask(entry)) {
            const Shape &mask = detail::type(entry.tensor()).shape;
            bool fits = axis + mask.rank() <= type.shape.rank();
            for (int a = 0; fits && a < mask.rank(); ++a)
                fits = mask[a] == type.shape[axis + a];
            if (!fits)
                throw IndexError("at: the mask has shape " + ir::to_string(mask) +
                                     ", which does not match the axes from " + std::to_string(axis) +
                                     " on of " + detail::text(type),
                                 loc);
        }
        f(entry, axis);
        axis +=
            entry.kind() == Index::Kind::Ellipsis ? std::max(type.shape.rank() - used, 0) : axes_of(entry);
    }
}

Unmasked unmasked(const Tensor &x, std::span<const Index> index, Location loc) {
    const ir::TensorType type = detail::type(x);
    Unmasked out;
    Shape shape;
    int done = 0; // axes of x that are in `shape`
    for_each_axes(type, index, loc, [&](const Index &entry, int axis) {
        if (!is_mask(entry)) {
            out.index.push_back(entry);
            return;
        }
        const Tensor mask = detail::together_with(x, loc, entry.tensor())[1];
        for (; done < axis; ++done)
            shape.push_back(type.shape[done]);
        shape.push_back(detail::type(mask).numel());
        done += detail::type(mask).shape.rank();
        out.index.emplace_back(detail::positions_where(mask, loc), entry.loc());
    });
    for (; done < type.shape.rank(); ++done)
        shape.push_back(type.shape[done]);
    out.x = detail::reshape_to(x, shape, loc);
    return out;
}

/// The mask with axes of extent 1 for those of x that it does not name.
Tensor mask_over(const Tensor &mask, const Tensor &x, Location loc) {
    Shape shape = detail::type(mask).shape;
    while (shape.rank() < detail::type(x).shape.rank())
        shape.push_back(1);
    return detail::reshape_to(mask, shape, loc);
}

/// x with one axis for all those of the mask.
Tensor rows_under(const Tensor &mask, const Tensor &x, Location loc) {
    const Shape &shape = detail::type(x).shape;
    Shape rows({detail::type(mask).numel()});
    for (int a = detail::type(mask).shape.rank(); a < shape.rank(); ++a)
        rows.push_back(shape[a]);
    return detail::reshape_to(x, rows, loc);
}

/// A mask's part has no shape before it is computed: it is read when it is needed.
Tensor initial(const Tensor &base, std::span<const Index> index, Location loc) {
    const ir::TensorType &type = detail::checked_type(base, "at", loc);
    if (!has_mask(index))
        return read(base, Planner(type, index, loc).run(), loc);
    for_each_axes(type, index, loc, [](const Index &, int) {});
    return {};
}

} // namespace

Part::Part(const Tensor &base, std::span<const Index> index, Location loc)
    : Tensor(initial(base, index, detail::in<"at">(loc))), base_(base), index_(index.begin(), index.end()),
      loc_(loc) {
    if (has_mask(index))
        detail::Access::set_unread(*this);
}

void Part::read() const {
    if (!detail::Access::unread(*this))
        return;
    const Location loc = detail::in<"at">(loc_);
    const Unmasked positions = unmasked(base_, index_, loc);
    const Plan plan = Planner(detail::type(positions.x), positions.index, loc).run();
    static_cast<Tensor &>(const_cast<Part &>(*this)) = // NOLINT: a Part is never a constant
        lz::read(positions.x, plan, loc);
}

void detail::read_mask(const Tensor &part) {
    static_cast<const Part &>(part).read(); // only a Part is unread
}

Tensor::Tensor(const Part &part) : Tensor((part.read(), static_cast<const Tensor &>(part))) {}

void Tensor::read_copy(const Tensor &part) {
    cell_ = nullptr;
    detail::read_mask(part);
    *this = part;
}

Tensor &Tensor::operator=(const Part &part) & {
    return *this = Tensor(part);
}

void Part::write_masked(const Tensor &value, Location loc) const {
    const Tensor &mask = index_[0].tensor();
    const Tensor rows = rows_under(mask, base_, loc);
    const ir::TensorType type = detail::type(rows);
    const Shape &from = detail::type(value).shape;
    // Axes of extent 1 before those of a row say nothing; what then broadcasts to a row is written to each.
    int first = 0;
    while (from.rank() - first > type.shape.rank() - 1 && first < from.rank() && from[first] == 1)
        ++first;
    const Shape trimmed(from.extents().subspan(static_cast<size_t>(first)));
    const Shape row(type.shape.extents().subspan(1));
    Shape joined;
    int axis = 0;
    if (ir::broadcast_shapes(row, trimmed, joined, axis) && joined == row) {
        const Tensor cut = detail::reshape_to(value, trimmed, loc);
        const auto [base, chosen, number] = detail::together_with(base_, loc, mask, cut);
        detail::replace(base_, detail::select(mask_over(chosen, base, loc), number, base, loc));
    } else {
        const Tensor here = detail::together_with(base_, loc, mask)[1];
        const Index positions(detail::positions_where(here, loc), loc);
        Shape part = type.shape;
        part[0] = detail::type(positions.tensor()).numel();
        if (!ir::broadcast_shapes(part, trimmed, joined, axis) || !(joined == part))
            throw ShapeError("at: a value of shape " + ir::to_string(from) +
                                 " does not broadcast to the part of shape " + ir::to_string(part) +
                                 " that the mask selects of " + detail::text(detail::type(base_)),
                             loc);
        const Tensor whole = detail::broadcast_to(detail::reshape_to(value, trimmed, loc), part, loc);
        const Plan plan = Planner(type, {&positions, 1}, loc).run();
        const Tensor changed = written(rows, plan, whole, loc);
        detail::replace(base_, detail::reshape_to(changed, detail::type(base_).shape, loc));
    }
    detail::Access::set_unread(const_cast<Part &>(*this)); // a second use of the Part sees it
}

void Part::write(const Tensor &value, Location loc) const {
    loc = detail::in<"at">(loc);
    const ir::TensorType type = detail::type(base_);
    const Tensor here =
        detail::type(value).shape.rank() == 0 ? value : lz::to(value, detail::from_ir(type.device), loc);
    const Tensor cast = detail::cast(here, type.dtype, loc);
    if (is_lone_mask(index_))
        return write_masked(cast, loc);
    // From here on a number is a tensor with the part's axes, which has to be where the base is.
    const Tensor there = lz::to(cast, detail::from_ir(type.device), loc);
    const Unmasked into = has_mask(index_) ? unmasked(base_, index_, loc) : Unmasked{base_, index_};
    const Plan plan = Planner(detail::type(into.x), into.index, loc).run();
    const Shape part(picked_shape(plan));
    const Shape &from = detail::type(cast).shape;
    // As PyTorch: axes of extent 1 before the part's own are dropped.
    Shape trimmed;
    for (int a = 0; a < from.rank(); ++a)
        if (a >= from.rank() - part.rank() || from[a] != 1)
            trimmed.push_back(from[a]);
    Shape joined;
    int axis = 0;
    if (!ir::broadcast_shapes(part, trimmed, joined, axis) || !(joined == part))
        throw ShapeError("at: a value of shape " + ir::to_string(from) +
                             " does not broadcast to the part of shape " + ir::to_string(part) + " of " +
                             detail::text(type),
                         loc);
    const Tensor whole = detail::broadcast_to(detail::reshape_to(there, trimmed, loc), part, loc);
    detail::replace(base_, detail::reshape_to(written(into.x, plan, whole, loc), type.shape, loc));
    if (has_mask(index_))
        detail::Access::set_unread(
            const_cast<Part &>(*this)); // a second use of the Part sees what was written
    else
        show(whole, loc);
}

const Part &Part::operator=(const Operand &value) const {
    const Location loc = detail::in<"at">(value.loc());
    if (value.is_tensor())
        detail::checked_type(value.tensor(), "at", loc);
    write(detail::stored(value, detail::type(base_).dtype, base_, "at", loc), loc);
    return *this;
}
const Part &Part::operator=(const Part &value) const {
    const Location loc = value.index_.empty() ? Location() : value.index_[0].loc();
    return *this = Operand(static_cast<const Tensor &>(value), loc);
}

namespace {

/// Whether all elements meet the same number, so that a mask needs not be read.
bool is_number(const Operand &value, Location loc) {
    return !value.is_tensor() || detail::checked_type(value.tensor(), "at", loc).shape.rank() == 0;
}

/// The value in the shape of the part as it lies in x, where integers keep an axis of extent 1. None where
/// that is not possible: the operation itself will say why.
std::optional<Tensor> laid_out(const Tensor &value, const Shape &part, const Shape &cut_shape, Location loc) {
    const ir::TensorType &type = detail::type(value);
    if (type.shape.rank() == 0)
        return value;
    Shape joined;
    int axis = 0;
    if (!ir::broadcast_shapes(part, type.shape, joined, axis) || !(joined == part))
        return std::nullopt;
    return detail::reshape_to(detail::broadcast_to(value, part, loc), cut_shape, loc);
}

} // namespace

/// What is read of the part, changed and written to the same place: no axis comes or goes between, and the
/// compiler sees that it can work in x's memory. False where the part is not such a one.
bool Part::change(const Operand &value, Tensor &(Tensor::*function)(Operand, Location) &,
                  Location loc) const {
    if (value.is_tensor())
        detail::checked_type(value.tensor(), "at", loc);
    if (has_mask(index_) || (value.is_tensor() && &value.tensor() == this))
        return false;
    const Plan plan = Planner(detail::type(base_), index_, loc).run();
    detail::Node *const read = !plan.positions.empty() || plan.whole ? nullptr : slice_of(*this, plan);
    if (!read)
        return false;
    const Shape part = detail::type(*this).shape, cut_shape(std::span(plan.sizes, plan.rank));
    std::optional<Tensor> laid;
    if (value.is_tensor() && !(laid = laid_out(value.tensor(), part, cut_shape, loc)))
        return false;
    Tensor changed = detail::reshape_to(*this, cut_shape, loc);
    if (changed.same_tensor(*this))
        changed = lz::clone(*this, loc);
    if (detail::Node *const shown = detail::Access::node(changed); shown->is_view)
        detail::forget_view(shown);
    (changed.*function)(laid ? Operand(*laid, loc) : Operand(value), loc);
    detail::replace(base_, written(base_, plan, changed, loc, read));
    show(detail::reshape_to(changed, part, loc), loc);
    return true;
}

/// A second use of the Part sees what was written.
void Part::show(const Tensor &written, Location loc) const {
    if (detail::Node *const shown = detail::Access::node(*this);
        shown->is_view) // that is how a part is written
        detail::forget_view(shown);
    detail::replace(const_cast<Part &>(*this), detail::fresh(written, loc)); // NOLINT: never a constant
}

#define LZ_COMPOUND(symbol, function)                                                                        \
    const Part &Part::operator symbol(const Operand &value) const {                                          \
        const Location loc = detail::in<"at">(value.loc());                                                  \
        if (change(value, &Tensor::function, loc))                                                           \
            return *this;                                                                                    \
        const bool everywhere = is_lone_mask(index_) && is_number(value, loc);                               \
        Tensor changed = lz::clone(everywhere ? base_ : static_cast<const Tensor &>(*this), loc);            \
        changed.function(value, loc);                                                                        \
        if (everywhere) {                                                                                    \
            const auto [base, mask] = detail::together_with(base_, loc, index_[0].tensor());                 \
            detail::replace(base_, detail::select(mask_over(mask, base, loc), changed, base, loc));          \
            detail::Access::set_unread(const_cast<Part &>(*this));                                           \
        } else {                                                                                             \
            write(changed, loc);                                                                             \
        }                                                                                                    \
        return *this;                                                                                        \
    }

LZ_COMPOUND(+=, add_)
LZ_COMPOUND(-=, sub_)
LZ_COMPOUND(*=, mul_)
LZ_COMPOUND(/=, div_)
#undef LZ_COMPOUND

Part Tensor::at(std::initializer_list<Index> index, Location loc) const {
    return Part(*this, {index.begin(), index.size()}, loc);
}
Part Tensor::at(const Index &index, Location loc) const {
    return Part(*this, {&index, 1}, loc);
}
Part Tensor::at(std::span<const Index> index, Location loc) const {
    return Part(*this, index, loc);
}
Part Tensor::operator[](const Index &index) const {
    return Part(*this, {&index, 1}, index.loc());
}

} // namespace lz
