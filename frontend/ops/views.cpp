// Views: each is one or two primitives with resolved axes.
#include "lazuli/ops/views.h"

#include "frontend/ops/compose.h"

#include <algorithm>
#include <numeric>

namespace lz {

using detail::Axes;
using detail::Op;
using detail::Shape;
using detail::Words;

Tensor reshape(const Tensor &x, const Sizes &sizes, Location loc) {
    const ir::TensorType &type = detail::checked_type(x, "reshape", loc);
    std::vector<int64_t> extents(sizes.begin(), sizes.end());
    int64_t known = 1;
    int64_t *unknown = nullptr;
    for (int64_t &e : extents) {
        if (e == -1 && !unknown)
            unknown = &e;
        else if (e < 0)
            throw ShapeError(
                "reshape: the shape " + detail::text(sizes.span()) +
                    (e == -1 ? " has more than one -1" : " has the negative extent " + std::to_string(e)),
                loc);
        else if (__builtin_mul_overflow(known, e, &known))
            throw ShapeError("reshape: the shape " + detail::text(sizes.span()) +
                                 " has more elements than fit a 64-bit number",
                             loc);
    }
    const int64_t count = type.numel();
    if (unknown) {
        if (known == 0 || count % known != 0)
            throw ShapeError("reshape: the " + std::to_string(count) + " elements of " + detail::text(type) +
                                 " do not fill the shape " + detail::text(sizes.span()) +
                                 (known == 0 ? "; with an extent of 0 the -1 could be anything" : ""),
                             loc);
        *unknown = count / known;
    }
    const Shape shape = detail::checked_shape(extents, type.dtype, "reshape", loc);
    return detail::record(Op::Reshape, {&x}, Words().ints(shape.extents()), loc);
}
Tensor view(const Tensor &x, const Sizes &sizes, Location loc) {
    loc = detail::in<"view">(loc);
    return reshape(x, sizes, loc);
}

Tensor flatten(const Tensor &x, int64_t first_axis, int64_t last_axis, Location loc) {
    loc = detail::in<"flatten">(loc);
    const ir::TensorType &type = detail::checked_type(x, "flatten", loc);
    const int rank = type.shape.rank();
    if (detail::is_axis_of_number(first_axis, rank) && detail::is_axis_of_number(last_axis, rank))
        return reshape(x, {1}, loc);
    const int first = detail::normal_axis(first_axis, rank, "flatten", type, loc);
    const int last = detail::normal_axis(last_axis, rank, "flatten", type, loc);
    if (first > last)
        throw IndexError("flatten: the first axis " + std::to_string(first) + " is behind the last axis " +
                             std::to_string(last),
                         loc);
    Shape shape;
    for (int a = 0; a < first; ++a)
        shape.push_back(type.shape[a]);
    int64_t merged = 1;
    for (int a = first; a <= last; ++a)
        merged *= type.shape[a];
    shape.push_back(merged);
    for (int a = last + 1; a < rank; ++a)
        shape.push_back(type.shape[a]);
    return reshape(x, Sizes(shape.extents()), loc);
}

Tensor unflatten(const Tensor &x, int64_t axis, const Sizes &sizes, Location loc) {
    loc = detail::in<"unflatten">(loc);
    const ir::TensorType &type = detail::checked_type(x, "unflatten", loc);
    const int at = detail::normal_axis(axis, type.shape.rank(), "unflatten", type, loc);
    std::vector<int64_t> parts(sizes.begin(), sizes.end()), extents;
    int64_t known = 1, unknown = 0;
    for (const int64_t e : parts)
        e == -1 ? ++unknown : known *= e;
    if (unknown == 1 && known > 0 && type.shape[at] % known == 0)
        std::ranges::replace(parts, int64_t{-1}, type.shape[at] / known);
    else if (unknown != 0 || known != type.shape[at])
        throw ShapeError("unflatten: axis " + std::to_string(at) + " of " + detail::text(type) +
                             " does not fall into the extents " + detail::text(sizes.span()),
                         loc);
    extents.assign(type.shape.begin(), type.shape.begin() + at);
    extents.insert(extents.end(), parts.begin(), parts.end());
    extents.insert(extents.end(), type.shape.begin() + at + 1, type.shape.end());
    return reshape(x, extents, loc);
}

Tensor transpose(const Tensor &x, int64_t axis0, int64_t axis1, Location loc) {
    loc = detail::in<"transpose">(loc);
    const ir::TensorType &type = detail::checked_type(x, "transpose", loc);
    const int rank = type.shape.rank();
    if (detail::is_axis_of_number(axis0, rank) && detail::is_axis_of_number(axis1, rank))
        return detail::fresh(x, loc);
    const int a = detail::normal_axis(axis0, rank, "transpose", type, loc);
    const int b = detail::normal_axis(axis1, rank, "transpose", type, loc);
    int64_t axes[ir::kMaxRank];
    std::iota(axes, axes + rank, 0);
    std::swap(axes[a], axes[b]);
    return detail::permute_to(x, {axes, static_cast<size_t>(rank)}, loc);
}

Tensor permute(const Tensor &x, const Sizes &axes, Location loc) {
    const ir::TensorType &type = detail::checked_type(x, "permute", loc);
    const int rank = type.shape.rank();
    if (static_cast<int>(axes.size()) != rank)
        throw ShapeError("permute: " + detail::text(axes.span()) + " names " + std::to_string(axes.size()) +
                             " axes; " + detail::text(type) + " has " + std::to_string(rank),
                         loc);
    int64_t order[ir::kMaxRank];
    uint32_t seen = 0;
    for (int i = 0; i < rank; ++i) {
        const int a = detail::normal_axis(axes[static_cast<size_t>(i)], rank, "permute", type, loc);
        if (seen & (1u << a))
            throw IndexError(
                "permute: axis " + std::to_string(a) + " stands twice in " + detail::text(axes.span()), loc);
        seen |= 1u << a;
        order[i] = a;
    }
    return detail::permute_to(x, {order, static_cast<size_t>(rank)}, loc);
}

Tensor movedim(const Tensor &x, int64_t from, int64_t to, Location loc) {
    loc = detail::in<"movedim">(loc);
    const ir::TensorType &type = detail::checked_type(x, "movedim", loc);
    const int rank = type.shape.rank();
    if (detail::is_axis_of_number(from, rank) && detail::is_axis_of_number(to, rank))
        return detail::fresh(x, loc);
    const int a = detail::normal_axis(from, rank, "movedim", type, loc);
    const int b = detail::normal_axis(to, rank, "movedim", type, loc);
    std::vector<int64_t> axes;
    for (int i = 0; i < rank; ++i)
        if (i != a)
            axes.push_back(i);
    axes.insert(axes.begin() + b, a);
    return detail::permute_to(x, axes, loc);
}

Tensor t(const Tensor &x, Location loc) {
    loc = detail::in<"t">(loc);
    const ir::TensorType &type = detail::checked_type(x, "t", loc);
    if (type.shape.rank() > 2)
        throw ShapeError("t: " + detail::text(type) + " has " + std::to_string(type.shape.rank()) +
                             " axes; t() takes at most 2 (mT() swaps the last two)",
                         loc);
    return type.shape.rank() < 2 ? detail::fresh(x, loc) : transpose(x, 0, 1, loc);
}

Tensor mT(const Tensor &x, Location loc) {
    loc = detail::in<"mT">(loc);
    const ir::TensorType &type = detail::checked_type(x, "mT", loc);
    if (type.shape.rank() < 2)
        throw ShapeError("mT: " + detail::text(type) + " has no two axes to swap", loc);
    return transpose(x, -2, -1, loc);
}

Tensor squeeze(const Tensor &x, const Sizes &axes, Location loc) {
    loc = detail::in<"squeeze">(loc);
    const ir::TensorType &type = detail::checked_type(x, "squeeze", loc);
    const Axes drop = detail::normal_axes(axes, "squeeze", type, loc);
    Shape shape;
    for (int a = 0; a < type.shape.rank(); ++a)
        if (type.shape[a] != 1 || !drop.has(a))
            shape.push_back(type.shape[a]);
    return detail::record(Op::Reshape, {&x}, Words().ints(shape.extents()), loc);
}

Tensor unsqueeze(const Tensor &x, int64_t axis, Location loc) {
    loc = detail::in<"unsqueeze">(loc);
    const ir::TensorType &type = detail::checked_type(x, "unsqueeze", loc);
    const int at = detail::normal_axis(axis, type.shape.rank() + 1, "unsqueeze", type, loc);
    std::vector<int64_t> extents(type.shape.begin(), type.shape.end());
    extents.insert(extents.begin() + at, 1);
    return reshape(x, extents, loc);
}

Tensor expand(const Tensor &x, const Sizes &sizes, Location loc) {
    loc = detail::in<"expand">(loc);
    const ir::TensorType &type = detail::checked_type(x, "expand", loc);
    std::vector<int64_t> extents(sizes.begin(), sizes.end());
    const auto skip = static_cast<int64_t>(extents.size()) - type.shape.rank();
    for (size_t i = 0; i < extents.size(); ++i) {
        const int64_t axis = static_cast<int64_t>(i) - skip;
        if (extents[i] == -1 && axis >= 0)
            extents[i] = type.shape[static_cast<int>(axis)];
    }
    const Shape shape = detail::checked_shape(extents, type.dtype, "expand", loc);
    return detail::record(Op::Broadcast, {&x}, Words().ints(shape.extents()), loc);
}
Tensor expand_as(const Tensor &x, const Tensor &like, Location loc) {
    loc = detail::in<"expand_as">(loc);
    return expand(x, Sizes(detail::checked_type(like, "expand_as", loc).shape.extents()), loc);
}
Tensor broadcast_to(const Tensor &x, const Sizes &sizes, Location loc) {
    loc = detail::in<"broadcast_to">(loc);
    return expand(x, sizes, loc);
}
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, Location loc) {
    loc = detail::in<"broadcast_tensors">(loc);
    Shape joined;
    for (const Tensor &x : tensors) {
        const Shape &shape = detail::checked_type(x, "broadcast_tensors", loc).shape;
        Shape next;
        int axis = 0;
        if (!ir::broadcast_shapes(joined, shape, next, axis))
            throw ShapeError("broadcast_tensors: shapes " + ir::to_string(joined) + " and " +
                                 ir::to_string(shape) + " do not broadcast (axis " + std::to_string(axis) +
                                 ")",
                             loc);
        joined = next;
    }
    std::vector<Tensor> out;
    for (const Tensor &x : tensors)
        out.push_back(expand(x, Sizes(joined.extents()), loc));
    return out;
}
std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors, Location loc) {
    return broadcast_tensors(std::span(tensors.begin(), tensors.size()), loc);
}

Tensor slice(const Tensor &x, int64_t axis, std::optional<int64_t> start, std::optional<int64_t> stop,
             int64_t step, Location loc) {
    loc = detail::in<"slice">(loc);
    const ir::TensorType &type = detail::checked_type(x, "slice", loc);
    const int a = detail::normal_axis(axis, type.shape.rank(), "slice", type, loc);
    const detail::Range range = detail::clip(type.shape[a], start, stop, step, "slice", loc);
    const Tensor part = detail::cut(x, a, range.start, range.size, range.step, loc);
    const int64_t flipped[] = {a};
    return range.backwards ? detail::record(Op::Flip, {&part}, Words().ints(flipped), loc) : part;
}

Tensor narrow(const Tensor &x, int64_t axis, int64_t start, int64_t length, Location loc) {
    loc = detail::in<"narrow">(loc);
    const ir::TensorType &type = detail::checked_type(x, "narrow", loc);
    const int a = detail::normal_axis(axis, type.shape.rank(), "narrow", type, loc);
    const int64_t extent = type.shape[a];
    const int64_t first = start < 0 ? start + extent : start;
    if (length < 0 || first < 0 || first > extent || length > extent - first)
        throw IndexError("narrow: " + std::to_string(length) + " positions from " + std::to_string(start) +
                             " are not inside axis " + std::to_string(a) + " of " + detail::text(type),
                         loc);
    return detail::cut(x, a, first, length, 1, loc);
}

Tensor select(const Tensor &x, int64_t axis, int64_t index, Location loc) {
    loc = detail::in<"select">(loc);
    const ir::TensorType &type = detail::checked_type(x, "select", loc);
    const int a = detail::normal_axis(axis, type.shape.rank(), "select", type, loc);
    const int64_t extent = type.shape[a];
    if (index < -extent || index >= extent)
        throw IndexError("select: index " + std::to_string(index) + " is out of range for axis " +
                             std::to_string(a) + " of " + detail::text(type),
                         loc);
    Shape shape;
    for (int i = 0; i < type.shape.rank(); ++i)
        if (i != a)
            shape.push_back(type.shape[i]);
    return detail::reshape_to(detail::cut(x, a, index < 0 ? index + extent : index, 1, 1, loc), shape, loc);
}

Tensor flip(const Tensor &x, const Sizes &axes, Location loc) {
    const ir::TensorType &type = detail::checked_type(x, "flip", loc);
    if (axes.empty())
        return detail::fresh(x, loc);
    return detail::record(Op::Flip, {&x}, Words().ints(detail::normal_axes(axes, "flip", type, loc).span()),
                          loc);
}

Tensor diagonal(const Tensor &x, int64_t offset, int64_t axis0, int64_t axis1, Location loc) {
    loc = detail::in<"diagonal">(loc);
    const ir::TensorType &type = detail::checked_type(x, "diagonal", loc);
    const int rank = type.shape.rank();
    const int a = detail::normal_axis(axis0, rank, "diagonal", type, loc);
    const int b = detail::normal_axis(axis1, rank, "diagonal", type, loc);
    if (a == b)
        throw IndexError("diagonal: both axes are axis " + std::to_string(a), loc);
    std::vector<int64_t> order, extents;
    for (int i = 0; i < rank; ++i)
        if (i != a && i != b) {
            order.push_back(i);
            extents.push_back(type.shape[i]);
        }
    order.push_back(a);
    order.push_back(b);
    const int64_t rows = type.shape[a], columns = type.shape[b];
    const int64_t count = std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset)
                                                           : std::min(rows + offset, columns));
    // In a row-major matrix the diagonal is every (columns + 1)th element.
    extents.push_back(rows * columns);
    const Tensor flat = reshape(detail::permute_to(x, order, loc), extents, loc);
    const int64_t start = count == 0 ? 0 : offset >= 0 ? offset : -offset * columns;
    return detail::cut(flat, rank - 2, start, count, columns + 1, loc);
}

Tensor clone(const Tensor &x, Location loc) {
    loc = detail::in<"clone">(loc);
    detail::checked_type(x, "clone", loc);
    return detail::fresh(x, loc);
}

Tensor unfold(const Tensor &x, int64_t axis, int64_t size, int64_t step, Location loc) {
    loc = detail::in<"unfold">(loc);
    const ir::TensorType type = detail::checked_type(x, "unfold", loc);
    const bool is_number = detail::is_axis_of_number(axis, type.shape.rank());
    const int a = is_number ? 0 : detail::normal_axis(axis, type.shape.rank(), "unfold", type, loc);
    const int64_t extent = is_number ? 1 : type.shape[a];
    if (size < 0 || size > extent)
        throw IndexError("unfold: the size is " + std::to_string(size) + "; axis " + std::to_string(a) +
                             " of " + detail::text(type) + " has " + std::to_string(extent) + " elements",
                         loc);
    if (step < 1)
        throw IndexError("unfold: the step is " + std::to_string(step) + "; it must be at least 1", loc);
    if (is_number) // PyTorch: a row of `size`
        return detail::cut(reshape(x, {1}, loc), 0, 0, size, 1, loc);
    const int64_t windows = (extent - size) / step + 1;
    if (size <= step) {                      // windows that do not meet are a view
        const int64_t whole = extent / step; // windows with all of their step
        const Tensor cut_whole = detail::cut(x, a, 0, whole * step, 1, loc);
        const Tensor rows = unflatten(cut_whole, a, {whole, step}, loc);
        Tensor windows_of = detail::cut(rows, a + 1, 0, size, 1, loc);
        if (whole < windows)
            windows_of =
                cat({windows_of, unsqueeze(detail::cut(x, a, whole * step, size, 1, loc), a, loc)}, a, loc);
        return movedim(windows_of, a + 1, -1, loc);
    }
    return detail::record(Op::Window, {&x}, Words().word(a).word(0).word(windows).word(size).word(step), loc);
}

} // namespace lz
