// Looking up and storing by index tensors.
#include "frontend/ops/indexing/gather.h"
#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "lazuli/ops/creation.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/views.h"

namespace lz {

using detail::Op;
using detail::Shape;

namespace detail {

Tensor from_front(const Tensor &index, int64_t extent, Location loc) {
    const ir::TensorType &t = type(index);
    const Tensor size = constant(Scalar(extent), t.dtype, t.device, loc);
    const Tensor negative = binary(Op::Lt, index, literal(index, 0, loc), loc);
    const Tensor counted = select(negative, binary(Op::Add, index, size, loc), index, loc);
    // Out of range stays what the user wrote, for the message.
    return select(binary(Op::Lt, counted, literal(index, 0, loc), loc), index, counted, loc);
}

Tensor positions_where(const Tensor &mask, Location loc) {
    const Tensor flat = reshape_to(mask, Shape({type(mask).numel()}), loc);
    // A stable sort puts the positions that are true first, in their order.
    const Tensor order = argsort(flat, 0, true, loc);
    const int64_t count = sum(flat, {}, false, std::nullopt, loc).item<int64_t>(loc);
    return cut(order, 0, 0, count, 1, loc);
}

} // namespace detail

namespace {

void check_index(const Tensor &index, const char *function, Location loc) {
    const ir::TensorType &t = detail::checked_type(index, function, loc);
    if (t.dtype != ir::DType::I64 && t.dtype != ir::DType::I32)
        throw DTypeError(std::string(function) + ": the index must be i64 or i32, not " + detail::text(t),
                         loc);
}

/// A number is looked into as a row of one.
Tensor as_row(const Tensor &x, Location loc) {
    return detail::type(x).shape.rank() == 0 ? reshape(x, {1}, loc) : x;
}

/// x cut to `extents`, but for `axis` (-1: every axis).
Tensor cut_to(const Tensor &x, const Shape &extents, int axis, Location loc) {
    Tensor y = x;
    for (int a = 0; a < extents.rank(); ++a)
        if (a != axis && detail::type(y).shape[a] != extents[a])
            y = detail::cut(y, a, 0, extents[a], 1, loc);
    return y;
}

/// Both have one rank and `inner` is nowhere larger than `outer`, but for `axis`.
void check_inside(const Tensor &inner, const char *inner_name, const Tensor &outer, int axis,
                  const char *function, Location loc) {
    const Shape &in = detail::type(inner).shape, &out = detail::type(outer).shape;
    bool fits = in.rank() == out.rank();
    for (int a = 0; fits && a < in.rank(); ++a)
        fits = a == axis || in[a] <= out[a];
    if (!fits)
        throw ShapeError(std::string(function) + ": " + inner_name + " has shape " + ir::to_string(in) +
                             ", which is not inside " + ir::to_string(out) +
                             (axis >= 0 ? " (but for axis " + std::to_string(axis) + ")" : ""),
                         loc);
}

/// A row of indices as the index of a gather or scatter over `axis` of x.
Tensor spread(const Tensor &row, const Shape &shape, int axis, Location loc) {
    Shape narrow, wide = shape;
    wide[axis] = detail::type(row).numel();
    for (int a = 0; a < shape.rank(); ++a)
        narrow.push_back(a == axis ? wide[a] : 1);
    return detail::broadcast_to(detail::reshape_to(row, narrow, loc), wide, loc);
}

void check_row(const Tensor &index, const char *function, Location loc) {
    check_index(index, function, loc);
    if (detail::type(index).shape.rank() > 1)
        throw ShapeError(std::string(function) + ": the index is " + detail::text(detail::type(index)) +
                             "; it must have one axis",
                         loc);
}

Tensor store(const Tensor &x, int64_t axis, const Tensor &index, const Tensor &source, bool add,
             const char *function, Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    check_index(index, function, loc);
    if (detail::checked_type(source, function, loc).dtype != type.dtype)
        throw DTypeError(std::string(function) + ": the source is " + detail::text(detail::type(source)) +
                             " and the tensor " + detail::text(type) + "; both must have the same dtype",
                         loc);
    if (add && type.dtype == ir::DType::Bool) { // there a sum is whether any is true
        const auto count = [&](const Tensor &t) { return detail::cast(t, ir::DType::I32, loc); };
        return detail::cast(store(count(x), axis, index, count(source), true, function, loc), type.dtype,
                            loc);
    }
    const auto [target, positions, values] = detail::together(loc, x, index, source);
    const Tensor into = as_row(target, loc), at = as_row(positions, loc);
    const Shape shape = detail::type(into).shape;
    const int a = detail::normal_axis(axis, shape.rank(), function, detail::type(into), loc);
    const Tensor from = as_row(values, loc);
    check_inside(at, "the index", into, a, function, loc);
    check_inside(at, "the index", from, -1, function, loc);
    const Shape extents = detail::type(at).shape;
    const Tensor cut_source = cut_to(from, extents, -1, loc);
    const Tensor region = cut_to(into, extents, a, loc);
    const Tensor stored = detail::record(Op::Scatter, {&region, &at, &cut_source}, {a, add}, {}, loc);
    if (detail::type(region).shape == shape)
        return detail::reshape_to(stored, type.shape, loc);
    // The index covers a corner of x: the rest stays.
    const int64_t starts[ir::kMaxRank] = {}, steps[ir::kMaxRank] = {1, 1, 1, 1, 1, 1, 1, 1};
    const auto rank = static_cast<size_t>(shape.rank());
    return detail::record(Op::UpdateSlice, {&into, &stored},
                          detail::Words().word(shape.rank()).ints({steps, rank}), loc, {starts, rank});
}

} // namespace

Tensor gather(const Tensor &x, int64_t axis, const Tensor &index, Location loc) {
    loc = detail::in<"gather">(loc);
    detail::checked_type(x, "gather", loc);
    check_index(index, "gather", loc);
    const auto [source, positions] = detail::together(loc, x, index);
    const Tensor from = as_row(source, loc), at = as_row(positions, loc);
    const int a =
        detail::normal_axis(axis, detail::type(from).shape.rank(), "gather", detail::type(from), loc);
    check_inside(at, "the index", from, a, "gather", loc);
    const Tensor region = cut_to(from, detail::type(at).shape, a, loc);
    return detail::reshape_to(detail::record(Op::Gather, {&region, &at}, {a}, {}, loc),
                              detail::type(index).shape, loc);
}

Tensor index_select(const Tensor &x, int64_t axis, const Tensor &index, Location loc) {
    loc = detail::in<"index_select">(loc);
    const ir::TensorType type = detail::checked_type(x, "index_select", loc);
    check_row(index, "index_select", loc);
    if (detail::is_axis_of_number(axis, type.shape.rank())) {
        if (detail::type(index).numel() != 1)
            throw ShapeError("index_select: of a number only one index can be selected, not " +
                                 detail::text(detail::type(index)),
                             loc);
        return detail::reshape_to(index_select(reshape(x, {1}, loc), 0, index, loc), {}, loc);
    }
    const int a = detail::normal_axis(axis, type.shape.rank(), "index_select", type, loc);
    const auto [from, row] = detail::together(loc, x, index);
    const Tensor at = spread(row, type.shape, a, loc);
    return detail::record(Op::Gather, {&from, &at}, {a}, {}, loc);
}

Tensor take(const Tensor &x, const Tensor &index, Location loc) {
    loc = detail::in<"take">(loc);
    const int64_t count = detail::checked_type(x, "take", loc).numel();
    check_index(index, "take", loc);
    const Shape row({count}), flat({detail::type(index).numel()});
    const auto [source, positions] = detail::together(loc, x, index);
    const Tensor from = detail::reshape_to(source, row, loc);
    const Tensor at = detail::reshape_to(detail::from_front(positions, count, loc), flat, loc);
    return detail::reshape_to(detail::record(Op::Gather, {&from, &at}, {0}, {}, loc),
                              detail::type(index).shape, loc);
}

Tensor scatter(const Tensor &x, int64_t axis, const Tensor &index, Operand source, Location loc) {
    loc = detail::in<"scatter">(loc);
    const ir::TensorType &type = detail::checked_type(x, "scatter", loc);
    check_index(index, "scatter", loc);
    if (source.is_tensor())
        return detail::consumed(store(x, axis, index, source.tensor(), false, "scatter", loc), source);
    detail::check_fits(source.number(), type.dtype, "scatter", loc);
    const Tensor number = detail::constant(source.number(), type.dtype, type.device, loc);
    return store(x, axis, index, detail::broadcast_to(number, detail::type(index).shape, loc), false,
                 "scatter", loc);
}

Tensor scatter_add(const Tensor &x, int64_t axis, const Tensor &index, const Tensor &source, Location loc) {
    loc = detail::in<"scatter_add">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"scatter_add">(
            loc, [&](const Tensor &v, const Tensor &s) { return scatter_add(v, axis, index, s, loc); }, x,
            source);
    return store(x, axis, index, source, true, "scatter_add", loc);
}

Tensor index_add(const Tensor &x, int64_t axis, const Tensor &index, const Tensor &source, Location loc) {
    loc = detail::in<"index_add">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"index_add">(
            loc, [&](const Tensor &v, const Tensor &s) { return index_add(v, axis, index, s, loc); }, x,
            source);
    const ir::TensorType type = detail::checked_type(x, "index_add", loc);
    check_row(index, "index_add", loc);
    if (detail::is_axis_of_number(axis, type.shape.rank()) &&
        detail::checked_type(source, "index_add", loc).shape.rank() == 0 && detail::type(index).numel() == 1)
        return store(x, axis, index, source, true, "index_add", loc);
    const int a = detail::normal_axis(axis, type.shape.rank(), "index_add", type, loc);
    Shape wanted = type.shape;
    wanted[a] = detail::type(index).numel();
    if (!(detail::checked_type(source, "index_add", loc).shape == wanted))
        throw ShapeError("index_add: the source has shape " + ir::to_string(detail::type(source).shape) +
                             "; it must be " + ir::to_string(wanted),
                         loc);
    const auto [into, row, from] = detail::together(loc, x, index, source);
    return store(into, a, spread(row, type.shape, a, loc), from, true, "index_add", loc);
}

Tensor index_fill(const Tensor &x, int64_t axis, const Tensor &index, Operand value, Location loc) {
    loc = detail::in<"index_fill">(loc);
    const ir::TensorType type = detail::checked_type(x, "index_fill", loc);
    check_row(index, "index_fill", loc);
    if (value.is_tensor() && detail::checked_type(value.tensor(), "index_fill", loc).shape.rank() != 0)
        throw ShapeError("index_fill: the value is " + detail::text(detail::type(value.tensor())) +
                             "; it must be one number",
                         loc);
    const auto [target, row, number] = detail::together(loc, x, index, detail::tensor_or_none(value));
    const Tensor into = as_row(target, loc);
    const Shape shape = detail::type(into).shape;
    const int a = detail::is_axis_of_number(axis, type.shape.rank())
                      ? 0
                      : detail::normal_axis(axis, type.shape.rank(), "index_fill", type, loc);
    const Tensor fill = detail::stored(detail::replaced(value, number), type.dtype, into, "index_fill", loc);
    const Tensor at = spread(detail::from_front(row, shape[a], loc), shape, a, loc);
    const Tensor source = detail::broadcast_to(fill, detail::type(at).shape, loc);
    const Tensor filled = store(into, a, at, source, false, "index_fill", loc);
    return detail::consumed(detail::reshape_to(filled, type.shape, loc), value);
}

Tensor index_copy(const Tensor &x, int64_t axis, const Tensor &index, const Tensor &source, Location loc) {
    loc = detail::in<"index_copy">(loc);
    const ir::TensorType type = detail::checked_type(x, "index_copy", loc);
    check_row(index, "index_copy", loc);
    if (detail::is_axis_of_number(axis, type.shape.rank()) &&
        detail::checked_type(source, "index_copy", loc).shape.rank() == 0 && detail::type(index).numel() == 1)
        return store(x, axis, index, source, false, "index_copy", loc);
    const int a = detail::normal_axis(axis, type.shape.rank(), "index_copy", type, loc);
    Shape wanted = type.shape;
    wanted[a] = detail::type(index).numel();
    if (!(detail::checked_type(source, "index_copy", loc).shape == wanted))
        throw ShapeError("index_copy: the source has shape " + ir::to_string(detail::type(source).shape) +
                             "; it must be " + ir::to_string(wanted),
                         loc);
    const auto [into, row, from] = detail::together(loc, x, index, source);
    return store(into, a, spread(row, type.shape, a, loc), from, false, "index_copy", loc);
}

Tensor embedding(const Tensor &weight, const Tensor &index, Location loc) {
    loc = detail::in<"embedding">(loc);
    const ir::TensorType type = detail::checked_type(weight, "embedding", loc);
    check_index(index, "embedding", loc);
    if (type.shape.rank() != 2)
        throw ShapeError("embedding: the weight is " + detail::text(type) + "; it must be a matrix", loc);
    const Shape &shape = detail::type(index).shape;
    std::vector<int64_t> extents(shape.begin(), shape.end());
    extents.push_back(type.shape[1]);
    const auto [rows, positions] = detail::together(loc, weight, index);
    const Tensor row = detail::reshape_to(positions, Shape({shape.numel()}), loc);
    return reshape(index_select(rows, 0, row, loc), extents, loc);
}

Tensor one_hot(const Tensor &index, int64_t classes, Location loc) {
    loc = detail::in<"one_hot">(loc);
    check_index(index, "one_hot", loc);
    const ir::TensorType type = detail::type(index);
    if (classes == -1) {
        if (type.numel() == 0)
            throw ShapeError("one_hot: the number of classes cannot be found from no index; name it", loc);
        classes = max(index, loc).item<int64_t>(loc) + 1;
        if (classes < 1)
            throw IndexError("one_hot: all classes are negative; the first one is 0", loc);
    }
    if (classes < 1)
        throw ShapeError(
            "one_hot: the number of classes is " + std::to_string(classes) + "; it must be at least 1", loc);
    std::vector<int64_t> extents(type.shape.begin(), type.shape.end());
    extents.push_back(classes);
    const Shape shape = detail::checked_shape(extents, ir::DType::I64, "one_hot", loc);
    // Each position against its class, which is looked up among the positions: so a class out of range is an
    // error and not a row of zeros. All of it is one kernel.
    const int last = shape.rank() - 1;
    const Tensor positions = detail::iota({ir::DType::I64, shape, type.device}, last, 0, 1, loc);
    const Tensor wide = detail::broadcast_to(unsqueeze(index, -1, loc), shape, loc);
    const Tensor wanted = detail::record(Op::Gather, {&positions, &wide}, {last}, {}, loc);
    return detail::cast(detail::binary(Op::Eq, positions, wanted, loc), ir::DType::I64, loc);
}

Tensor masked_select(const Tensor &x, const Tensor &mask, Location loc) {
    loc = detail::in<"masked_select">(loc);
    const ir::TensorType type = detail::checked_type(x, "masked_select", loc);
    const ir::TensorType chosen = detail::checked_type(mask, "masked_select", loc);
    if (chosen.dtype != ir::DType::Bool)
        throw DTypeError("masked_select: the mask is " + detail::text(chosen) + "; it must be bool", loc);
    Shape both;
    int axis = 0;
    if (!ir::broadcast_shapes(type.shape, chosen.shape, both, axis))
        throw ShapeError("masked_select: the mask is " + detail::text(chosen) +
                             ", which does not broadcast with " + detail::text(type),
                         loc);
    const auto [from, chosen_by] = detail::together(loc, x, mask);
    const Tensor row = detail::reshape_to(detail::broadcast_to(from, both, loc), Shape({both.numel()}), loc);
    const Tensor spread_mask = detail::broadcast_to(chosen_by, both, loc);
    return index_select(row, 0, detail::positions_where(spread_mask, loc), loc);
}

std::vector<Tensor> nonzero_numpy(const Tensor &x, Location loc) {
    loc = detail::in<"nonzero">(loc);
    detail::checked_type(x, "nonzero", loc);
    const Tensor rows = as_row(x, loc);
    const Shape shape = detail::type(rows).shape;
    Tensor rest = detail::positions_where(detail::cast(rows, ir::DType::Bool, loc), loc);
    std::vector<Tensor> positions(static_cast<size_t>(shape.rank()));
    for (int a = shape.rank() - 1; a > 0; --a) {
        const ir::TensorType &type = detail::type(rest);
        const Tensor extent =
            detail::constant(Scalar(std::max<int64_t>(shape[a], 1)), type.dtype, type.device, loc);
        positions[static_cast<size_t>(a)] = detail::binary(Op::Remainder, rest, extent, loc);
        rest = detail::binary(Op::FloorDiv, rest, extent, loc);
    }
    positions[0] = rest;
    return positions;
}
std::vector<Tensor> where(const Tensor &condition, Location loc) {
    return nonzero_numpy(condition, loc);
}
Tensor nonzero(const Tensor &x, Location loc) {
    loc = detail::in<"nonzero">(loc);
    const std::vector<Tensor> positions = nonzero_numpy(x, loc);
    const int64_t count = positions[0].numel(loc);
    if (detail::type(x).shape.rank() == 0)
        return zeros({count, 0}, {.dtype = i64, .device = x.device(loc)}, loc);
    return stack(positions, 1, loc);
}
Tensor argwhere(const Tensor &x, Location loc) {
    return nonzero(x, loc);
}

Tensor &Tensor::scatter_(int64_t axis, const Tensor &index, Operand source, Location loc) & {
    loc = detail::in<"scatter_">(loc);
    return detail::assign(*this, lz::scatter(*this, axis, index, source, loc), "scatter_", loc);
}
Tensor &Tensor::scatter_add_(int64_t axis, const Tensor &index, const Tensor &source, Location loc) & {
    loc = detail::in<"scatter_add_">(loc);
    return detail::assign(*this, lz::scatter_add(*this, axis, index, source, loc), "scatter_add_", loc);
}
Tensor &Tensor::index_fill_(int64_t axis, const Tensor &index, Operand value, Location loc) & {
    loc = detail::in<"index_fill_">(loc);
    return detail::assign(*this, lz::index_fill(*this, axis, index, value, loc), "index_fill_", loc);
}
Tensor &Tensor::index_copy_(int64_t axis, const Tensor &index, const Tensor &source, Location loc) & {
    loc = detail::in<"index_copy_">(loc);
    return detail::assign(*this, lz::index_copy(*this, axis, index, source, loc), "index_copy_", loc);
}
Tensor &Tensor::index_add_(int64_t axis, const Tensor &index, const Tensor &source, Location loc) & {
    loc = detail::in<"index_add_">(loc);
    return detail::assign(*this, lz::index_add(*this, axis, index, source, loc), "index_add_", loc);
}

} // namespace lz
