// at(): an index as a composition of primitives, read forwards and written backwards.
#include "lazuli/indexing.h"

#include "lazuli/detail/compose.h"
#include "lazuli/elementwise.h"
#include "lazuli/views.h"

#include <algorithm>
#include <numeric>

namespace lz {

using detail::Op;
using detail::Shape;
using detail::Words;

namespace {

/// An index against a shape. The part is x cut to starts/sizes/steps, flipped along `flipped`, and reshaped
/// from `sizes` to `result`: integers go away and None comes in. With a tensor of positions, `sizes` and
/// `result` hold the whole axis until `picked` replaces it by the positions' own shape.
struct Plan {
    int64_t starts[ir::kMaxRank] = {}, sizes[ir::kMaxRank] = {}, steps[ir::kMaxRank] = {};
    std::vector<int64_t> flipped;
    std::vector<int64_t> result;
    size_t rank = 0;
    bool whole = true; ///< the cut is all of x
    const Tensor *positions = nullptr;
    size_t picked_axis = 0; ///< of x
    size_t picked_at = 0;   ///< in `result`
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
        if (plan_.result.size() > ir::kMaxRank)
            throw ShapeError("at: the part would have " + std::to_string(plan_.result.size()) +
                                 " axes; at most " + std::to_string(ir::kMaxRank) + " are possible",
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
    void keep_axis() {
        const int64_t extent = type_.shape[axis_];
        plan_.result.push_back(extent);
        take(0, extent, 1);
    }

    void add(const Index &entry) {
        switch (entry.kind()) {
        case Index::Kind::None:
            plan_.result.push_back(1);
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
        plan_.result.push_back(range.size);
        take(range.start, range.size, range.step);
    }

    void add_positions(const Tensor &positions) {
        const ir::TensorType &t = detail::checked_type(positions, "at", loc_);
        if (t.dtype != ir::DType::I64 && t.dtype != ir::DType::I32)
            throw DTypeError(
                "at: a tensor in an index must be i64 or i32 (or a bool mask standing alone), not " +
                    detail::text(t),
                loc_);
        if (plan_.positions)
            throw IndexError("at: at most one tensor can stand in an index", loc_);
        plan_.positions = &positions;
        plan_.picked_axis = static_cast<size_t>(axis_);
        plan_.picked_at = plan_.result.size();
        keep_axis();
    }

    const ir::TensorType type_;
    std::span<const Index> index_;
    Location loc_;
    Plan plan_;
    int axis_ = 0;
    int left_over_ = 0;
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

/// Positions as one row beside x, counted from 0.
Tensor row_of_positions(const Tensor &x, const Plan &plan, Location loc) {
    const int64_t extent = plan.sizes[plan.picked_axis];
    const Tensor here = detail::together_with(x, loc, *plan.positions)[1];
    return detail::reshape_to(detail::from_front(here, extent, loc),
                              Shape({detail::type(*plan.positions).numel()}), loc);
}

/// The result's shape with the positions' own in place of the picked axis.
std::vector<int64_t> picked_shape(const Plan &plan) {
    std::vector<int64_t> shape = plan.result;
    if (plan.positions) {
        const Shape &own = detail::type(*plan.positions).shape;
        const auto at = shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(plan.picked_at));
        shape.insert(at, own.begin(), own.end());
    }
    return shape;
}

Tensor read(const Tensor &x, const Plan &plan, Location loc) {
    Tensor part = cut_of(x, plan, loc);
    if (plan.positions)
        part =
            index_select(part, static_cast<int64_t>(plan.picked_axis), row_of_positions(x, plan, loc), loc);
    const Shape shape = detail::checked_shape(picked_shape(plan), detail::type(x).dtype, "at", loc);
    return detail::record(Op::Reshape, {&part}, Words().ints(shape.extents()), loc);
}

/// x with the part replaced by `value`, which has the part's shape.
Tensor written(const Tensor &x, const Plan &plan, const Tensor &value, Location loc) {
    Shape cut_shape(std::span(plan.sizes, plan.rank));
    Tensor update;
    if (plan.positions) {
        const Tensor row = row_of_positions(x, plan, loc);
        const auto axis = static_cast<int>(plan.picked_axis);
        Shape source = cut_shape;
        source[axis] = detail::type(row).numel();
        Shape index_shape;
        for (int a = 0; a < source.rank(); ++a)
            index_shape.push_back(a == axis ? source[a] : 1);
        const Tensor index = detail::broadcast_to(detail::reshape_to(row, index_shape, loc), source, loc);
        const Tensor into = cut_of(x, plan, loc), from = detail::reshape_to(value, source, loc);
        update = detail::record(Op::Scatter, {&into, &index, &from}, {axis, 0}, {}, loc);
    } else {
        update = detail::reshape_to(value, cut_shape, loc);
    }
    update = flip_back(update, plan, loc);
    if (plan.whole)
        return update;
    return detail::record(Op::UpdateSlice, {&x, &update},
                          Words().word(static_cast<int64_t>(plan.rank)).ints({plan.steps, plan.rank}), loc,
                          {plan.starts, plan.rank});
}

bool is_mask(std::span<const Index> index) {
    return index.size() == 1 && index[0].kind() == Index::Kind::Tensor && index[0].tensor().defined() &&
           index[0].tensor().dtype() == DType::Bool;
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
    if (!is_mask(index))
        return read(base, Planner(type, index, loc).run(), loc);
    const Shape &mask = detail::type(index[0].tensor()).shape;
    bool fits = mask.rank() <= type.shape.rank();
    for (int a = 0; fits && a < mask.rank(); ++a)
        fits = mask[a] == type.shape[a];
    if (!fits)
        throw IndexError("at: the mask has shape " + ir::to_string(mask) +
                             ", which does not match the first axes of " + detail::text(type),
                         loc);
    return {};
}

} // namespace

Part::Part(const Tensor &base, std::span<const Index> index, Location loc)
    : Tensor(initial(base, index, detail::in<"at">(loc))), base_(base), index_(index.begin(), index.end()),
      loc_(loc) {
    if (is_mask(index))
        detail::Access::set_unread(*this);
}

void Part::read() const {
    if (!detail::Access::unread(*this))
        return;
    const Location loc = detail::in<"at">(loc_);
    const auto [base, mask] = detail::together_with(base_, loc, index_[0].tensor());
    static_cast<Tensor &>(const_cast<Part &>(*this)) = // NOLINT: a Part is never a constant
        lz::index_select(rows_under(mask, base, loc), 0, detail::positions_where(mask, loc), loc);
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
    if (is_mask(index_))
        return write_masked(cast, loc);
    // From here on a number is a tensor with the part's axes, which has to be where the base is.
    const Tensor there = lz::to(cast, detail::from_ir(type.device), loc);
    const Plan plan = Planner(type, index_, loc).run();
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
    detail::replace(base_, written(base_, plan, whole, loc));
    detail::replace(const_cast<Part &>(*this), detail::fresh(whole, loc)); // a second use of the Part sees it
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

} // namespace

#define LZ_COMPOUND(symbol, function)                                                                        \
    const Part &Part::operator symbol(const Operand &value) const {                                          \
        const Location loc = detail::in<"at">(value.loc());                                                  \
        const bool everywhere = is_mask(index_) && is_number(value, loc);                                    \
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
Part Tensor::operator[](const Index &index) const {
    return Part(*this, {&index, 1}, index.loc());
}

} // namespace lz
