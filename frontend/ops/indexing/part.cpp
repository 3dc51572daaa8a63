// A Part of a tensor, as `at` gives it: read when it is used, written when it is assigned to.
#include "lazuli/ops/indexing.h"

#include "frontend/autograd/attach.h"
#include "frontend/ops/compose.h"
#include "frontend/ops/indexing/access.h"
#include "frontend/ops/indexing/gather.h"
#include "frontend/ops/indexing/masks.h"
#include "frontend/ops/indexing/plan.h"
#include "frontend/record/view_warnings.h"
#include "lazuli/ops/creation.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/views.h"

#include <optional>
#include <string>
#include <string_view>

namespace lz {

using detail::Shape;
using namespace indexing;

namespace {

/// A mask's part has no shape before it is computed: it is read when it is needed.
Tensor initial(const Tensor &base, std::span<const Index> index, Location loc) {
    const ir::TensorType &type = detail::checked_type(base, "at", loc);
    if (!has_mask(index))
        return indexing::read(base, make_plan(type, index, loc), loc);
    check_masks(type, index, loc);
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
    const Plan plan = make_plan(detail::type(positions.x), positions.index, loc);
    static_cast<Tensor &>(const_cast<Part &>(*this)) = // NOLINT: a Part is never a constant
        indexing::read(positions.x, plan, loc);
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
        const Plan plan = make_plan(type, {&positions, 1}, loc);
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
    const Plan plan = make_plan(detail::type(into.x), into.index, loc);
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
    {
        const Tensor made = written(into.x, plan, whole, loc);
        Tensor changed = detail::reshape_to(made, type.shape, loc);
        if (plan.whole)
            detail::attach_overwriting(base_, changed, loc);
        detail::replace(base_, changed);
    }
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
    const Plan plan = make_plan(detail::type(base_), index_, loc);
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

Part Tensor::index(std::initializer_list<Index> index, Location loc) const {
    return at(index, loc);
}
Part Tensor::index(std::span<const Index> index, Location loc) const {
    return at(index, loc);
}

Tensor detail::mask_of(bool value, Location loc) {
    return full({}, value, {.device = Device::cpu()}, loc);
}

void detail::check_ellipsis(const char *text, Location loc) {
    if (!text || std::string_view(text) != "...")
        throw IndexError("at: the text \"" + std::string(text ? text : "(null)") +
                             "\" stands in an index, where \"...\" is the only one",
                         loc);
}

Tensor &Tensor::index_put_(std::initializer_list<Index> index, Operand value, bool accumulate,
                           Location loc) & {
    return index_put_(std::span(index.begin(), index.size()), std::move(value), accumulate, loc);
}

Tensor &Tensor::index_put_(std::span<const Index> index, Operand value, bool accumulate, Location loc) & {
    loc = detail::in<"index_put_">(loc);
    const ir::TensorType type = detail::checked_type(*this, "index_put_", loc);
    if (!accumulate) {
        Part(*this, index, loc) =
            value.is_tensor() ? Operand(value.tensor(), loc) : Operand(value.number(), loc);
        return *this;
    }
    check_masks(type, index, loc);
    const Unmasked into =
        has_mask(index) ? unmasked(*this, index, loc) : Unmasked{*this, {index.begin(), index.end()}};
    const Plan plan = make_plan(detail::type(into.x), into.index, loc);
    const Tensor number = detail::stored(value, type.dtype, *this, "index_put_", loc);
    const Tensor whole = detail::broadcast_to(lz::to(number, detail::from_ir(type.device), loc),
                                              Shape(picked_shape(plan)), loc);
    return detail::assign(*this, detail::reshape_to(added(into.x, plan, whole, loc), type.shape, loc),
                          "index_put_", loc);
}

Part NestedPart::operator[](const Index &index) const & {
    return Tensor::operator[](index);
}
NestedPart NestedPart::operator[](const Index &index) const && {
    return NestedPart(Tensor(Tensor::operator[](index)));
}
Part NestedPart::at(std::initializer_list<Index> index, Location loc) const & {
    return Tensor::at(index, loc);
}
NestedPart NestedPart::at(std::initializer_list<Index> index, Location loc) const && {
    return NestedPart(Tensor(Tensor::at(index, loc)));
}
Part NestedPart::index(std::initializer_list<Index> index, Location loc) const & {
    return Tensor::at(index, loc);
}
NestedPart NestedPart::index(std::initializer_list<Index> index, Location loc) const && {
    return NestedPart(Tensor(Tensor::at(index, loc)));
}
Part NestedPart::at(const Index &index, Location loc) const & {
    return Tensor::at(index, loc);
}
NestedPart NestedPart::at(const Index &index, Location loc) const && {
    return NestedPart(Tensor(Tensor::at(index, loc)));
}
Part NestedPart::at(std::span<const Index> index, Location loc) const & {
    return Tensor::at(index, loc);
}
NestedPart NestedPart::at(std::span<const Index> index, Location loc) const && {
    return NestedPart(Tensor(Tensor::at(index, loc)));
}

NestedPart Part::at(std::initializer_list<Index> index, Location loc) const {
    return NestedPart(Tensor(static_cast<const Tensor &>(*this).at(index, loc)));
}
NestedPart Part::at(const Index &index, Location loc) const {
    return NestedPart(Tensor(static_cast<const Tensor &>(*this).at(index, loc)));
}
NestedPart Part::at(std::span<const Index> index, Location loc) const {
    return NestedPart(Tensor(static_cast<const Tensor &>(*this).at(index, loc)));
}
NestedPart Part::operator[](const Index &index) const {
    return NestedPart(Tensor(static_cast<const Tensor &>(*this)[index]));
}
NestedPart Part::index(std::initializer_list<Index> index, Location loc) const {
    return at(index, loc);
}

NestedPart TensorData::operator[](const Index &index) const {
    return NestedPart(Tensor(Tensor::operator[](index)));
}
NestedPart TensorData::at(std::initializer_list<Index> index, Location loc) const {
    return NestedPart(Tensor(Tensor::at(index, loc)));
}
NestedPart TensorData::index(std::initializer_list<Index> index, Location loc) const {
    return at(index, loc);
}

} // namespace lz
