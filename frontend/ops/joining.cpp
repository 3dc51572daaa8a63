// Functions that join tensors, take them apart, or lay copies of them beside each other.
#include "frontend/ops/compose.h"
#include "lazuli/ops/views.h"

#include <algorithm>
#include <vector>

namespace lz {

using detail::Op;
using detail::Shape;
using detail::Words;

namespace {

using Pointers = std::vector<const Tensor *>;

Pointers pointers_to(std::span<const Tensor> tensors) {
    Pointers all;
    all.reserve(tensors.size());
    for (const Tensor &x : tensors)
        all.push_back(&x);
    return all;
}

Tensor joined(std::span<const Tensor *const> parts, int axis, Location loc) {
    return detail::record(Op::Concat, parts, Words().word(axis), {}, loc);
}
Tensor joined(std::span<const Tensor> parts, int axis, Location loc) {
    return joined(pointers_to(parts), axis, loc);
}

/// The tensors on one device and in the dtype in which they meet; `made` holds those that had to be made.
Pointers alike(std::span<const Tensor> tensors, std::vector<Tensor> &made, const char *function,
               Location loc) {
    if (tensors.empty())
        throw StateError(std::string(function) + ": there is no tensor to join", loc);
    const ir::TensorType &first = detail::checked_type(tensors[0], function, loc);
    ir::DType dtype = first.dtype;
    bool are_alike = true;
    for (const Tensor &x : tensors) {
        const ir::TensorType &type = detail::checked_type(x, function, loc);
        are_alike = are_alike && type.dtype == first.dtype && type.device == first.device;
        dtype = ir::promote(dtype, type.dtype);
    }
    if (are_alike) [[likely]]
        return pointers_to(tensors);
    made.assign(tensors.begin(), tensors.end());
    detail::bring_together(made, detail::home_of(made), loc);
    for (Tensor &x : made)
        x = detail::cast(x, dtype, loc);
    return pointers_to(made);
}

} // namespace

Tensor cat(std::span<const Tensor> tensors, int64_t axis, Location loc) {
    loc = detail::in<"cat">(loc);
    std::vector<Tensor> made;
    Pointers parts = alike(tensors, made, "cat", loc);
    // PyTorch lets an empty row join anything.
    const auto nothing = [](const Tensor *x) {
        const Shape &s = detail::type(*x).shape;
        return s.rank() == 1 && s[0] == 0;
    };
    if (!std::ranges::all_of(parts, nothing))
        std::erase_if(parts, nothing);
    const ir::TensorType first = detail::type(*parts[0]);
    if (first.shape.rank() == 0)
        throw ShapeError("cat: numbers (tensors of rank 0) cannot be joined along an axis; use stack", loc);
    const int a = detail::normal_axis(axis, first.shape.rank(), "cat", first, loc);
    for (size_t k = 1; k < parts.size(); ++k) {
        const ir::TensorType &type = detail::type(*parts[k]);
        bool fits = type.shape.rank() == first.shape.rank();
        for (int i = 0; fits && i < type.shape.rank(); ++i)
            fits = i == a || type.shape[i] == first.shape[i];
        if (!fits)
            throw ShapeError("cat: tensor " + std::to_string(k) + " has shape " + ir::to_string(type.shape) +
                                 "; it must equal " + ir::to_string(first.shape) + " but for axis " +
                                 std::to_string(a),
                             loc);
    }
    return joined(parts, a, loc);
}
Tensor cat(std::initializer_list<Tensor> tensors, int64_t axis, Location loc) {
    return cat(std::span(tensors.begin(), tensors.size()), axis, loc);
}
Tensor concat(std::span<const Tensor> tensors, int64_t axis, Location loc) {
    return cat(tensors, axis, loc);
}
Tensor concat(std::initializer_list<Tensor> tensors, int64_t axis, Location loc) {
    return cat(tensors, axis, loc);
}

Tensor stack(std::span<const Tensor> tensors, int64_t axis, Location loc) {
    loc = detail::in<"stack">(loc);
    std::vector<Tensor> made;
    const Pointers parts = alike(tensors, made, "stack", loc);
    const ir::TensorType first = detail::type(*parts[0]);
    const int rank = first.shape.rank(), a = detail::normal_axis(axis, rank + 1, "stack", first, loc);
    for (size_t k = 0; k < parts.size(); ++k)
        if (!(detail::type(*parts[k]).shape == first.shape))
            throw ShapeError("stack: tensor " + std::to_string(k) + " has shape " +
                                 ir::to_string(detail::type(*parts[k]).shape) + "; it must equal " +
                                 ir::to_string(first.shape),
                             loc);
    if (a == rank) {
        std::vector<Tensor> columns;
        columns.reserve(parts.size());
        for (const Tensor *const x : parts)
            columns.push_back(unsqueeze(*x, a, loc));
        return joined(columns, a, loc);
    }
    // Two nodes for any number of parts: the same bytes are joined along the axis that is there.
    Shape shape;
    for (int d = 0; d <= rank; ++d)
        shape.push_back(d == a ? static_cast<int64_t>(parts.size()) : first.shape[d < a ? d : d - 1]);
    return reshape(joined(parts, a, loc), Sizes(shape), loc);
}
Tensor stack(std::initializer_list<Tensor> tensors, int64_t axis, Location loc) {
    return stack(std::span(tensors.begin(), tensors.size()), axis, loc);
}

std::vector<Tensor> split_with_sizes(const Tensor &x, const Sizes &sizes, int64_t axis, Location loc) {
    loc = detail::in<"split_with_sizes">(loc);
    const ir::TensorType type = detail::checked_type(x, "split", loc);
    const int a = detail::normal_axis(axis, type.shape.rank(), "split", type, loc);
    int64_t total = 0;
    bool negative = false;
    for (const int64_t s : sizes) {
        negative |= s < 0;
        total += s;
    }
    if (negative || total != type.shape[a])
        throw ShapeError("split: the sizes " + detail::text(sizes.span()) + " do not add up to the " +
                             std::to_string(type.shape[a]) + " elements of axis " + std::to_string(a) +
                             " of " + detail::text(type),
                         loc);
    std::vector<Tensor> out;
    int64_t at = 0;
    for (const int64_t s : sizes) {
        out.push_back(detail::cut(x, a, at, s, 1, loc));
        at += s;
    }
    return out;
}
std::vector<Tensor> split(const Tensor &x, std::initializer_list<int64_t> sizes, int64_t axis, Location loc) {
    loc = detail::in<"split">(loc);
    return split_with_sizes(x, sizes, axis, loc);
}

std::vector<Tensor> split(const Tensor &x, int64_t size, int64_t axis, Location loc) {
    loc = detail::in<"split">(loc);
    const ir::TensorType type = detail::checked_type(x, "split", loc);
    const int a = detail::normal_axis(axis, type.shape.rank(), "split", type, loc);
    const int64_t extent = type.shape[a];
    if (size < 0 || (size == 0 && extent != 0))
        throw ShapeError("split: the size of a part is " + std::to_string(size) + "; it must be at least 1",
                         loc);
    std::vector<Tensor> out;
    int64_t at = 0;
    do {
        const int64_t part = std::min(size, extent - at);
        out.push_back(detail::cut(x, a, at, part, 1, loc));
        at += part;
    } while (at < extent);
    return out;
}

std::vector<Tensor> chunk(const Tensor &x, int64_t chunks, int64_t axis, Location loc) {
    loc = detail::in<"chunk">(loc);
    const ir::TensorType type = detail::checked_type(x, "chunk", loc);
    const int a = detail::normal_axis(axis, type.shape.rank(), "chunk", type, loc);
    if (chunks < 1)
        throw ShapeError(
            "chunk: the number of parts is " + std::to_string(chunks) + "; it must be at least 1", loc);
    const int64_t extent = type.shape[a];
    const int64_t size = extent / chunks + (extent % chunks != 0);
    if (size == 0) // as many empty parts as were asked for
        return split_with_sizes(x, std::vector<int64_t>(static_cast<size_t>(chunks), 0), a, loc);
    return split(x, size, a, loc);
}

std::vector<Tensor> unbind(const Tensor &x, int64_t axis, Location loc) {
    loc = detail::in<"unbind">(loc);
    const ir::TensorType type = detail::checked_type(x, "unbind", loc);
    const int a = detail::normal_axis(axis, type.shape.rank(), "unbind", type, loc);
    std::vector<Tensor> out;
    for (int64_t i = 0; i < type.shape[a]; ++i)
        out.push_back(select(x, a, i, loc));
    return out;
}

Tensor pad(const Tensor &x, const Sizes &pairs, const Scalar &value, Location loc) {
    loc = detail::in<"pad">(loc);
    const ir::TensorType type = detail::checked_type(x, "pad", loc);
    const int rank = type.shape.rank();
    if (pairs.size() % 2 != 0 || pairs.size() > 2 * static_cast<size_t>(rank))
        throw ShapeError("pad: " + detail::text(pairs.span()) + " are not pairs for at most the " +
                             std::to_string(rank) + " axes of " + detail::text(type),
                         loc);
    int64_t low[ir::kMaxRank] = {}, high[ir::kMaxRank] = {};
    Tensor y = x;
    for (size_t k = 0; k < pairs.size() / 2; ++k) {
        const int a = rank - 1 - static_cast<int>(k);
        const int64_t before = pairs[2 * k], after = pairs[2 * k + 1], extent = type.shape[a];
        const int64_t cut_front = std::max<int64_t>(0, -before), cut_back = std::max<int64_t>(0, -after);
        if (cut_front > extent || cut_back > extent - cut_front)
            throw ShapeError("pad: " + std::to_string(before) + " and " + std::to_string(after) +
                                 " cut more than the " + std::to_string(extent) + " elements of axis " +
                                 std::to_string(a) + " of " + detail::text(type),
                             loc);
        if (cut_front + cut_back > 0)
            y = detail::cut(y, a, cut_front, extent - cut_front - cut_back, 1, loc);
        low[a] = std::max<int64_t>(0, before);
        high[a] = std::max<int64_t>(0, after);
    }
    detail::check_fits(value, type.dtype, "pad", loc);
    const Tensor fill = detail::constant(value, type.dtype, type.device, loc);
    const auto count = static_cast<size_t>(rank);
    return detail::record(Op::Pad, {&y, &fill}, Words().ints({low, count}).ints({high, count}), loc);
}

namespace {

/// `before` and `after` positions, 0 or more, put beside an axis.
Tensor surrounded(const Tensor &x, int a, int64_t before, int64_t after, PaddingMode mode, Location loc) {
    if (before == 0 && after == 0)
        return x;
    const ir::TensorType type = detail::type(x);
    const int64_t extent = type.shape[a];
    const auto refuse = [&](const char *name, int64_t most) {
        if (before > most || after > most)
            throw ShapeError("pad: " + std::to_string(before) + " and " + std::to_string(after) +
                                 " of axis " + std::to_string(a) + " of " + detail::text(type) +
                                 " are more than there is; " + name + " it is at most " +
                                 std::to_string(most),
                             loc);
    };
    const auto mirrored = [&](int64_t start, int64_t size) {
        const int64_t axis[] = {a};
        const Tensor part = detail::cut(x, a, start, size, 1, loc);
        return detail::record(Op::Flip, {&part}, Words().ints(axis), loc);
    };
    const auto repeated = [&](int64_t start, int64_t size) {
        Shape wide = type.shape;
        wide[a] = size;
        return detail::broadcast_to(detail::cut(x, a, start, 1, 1, loc), wide, loc);
    };
    Tensor parts[3] = {{}, x, {}};
    if (mode == PaddingMode::Reflect) {
        refuse("mirrored", std::max<int64_t>(extent - 1, 0));
        if (before > 0)
            parts[0] = mirrored(1, before);
        if (after > 0)
            parts[2] = mirrored(extent - 1 - after, after);
    } else if (mode == PaddingMode::Circular) {
        refuse("of the other end", extent);
        if (before > 0)
            parts[0] = detail::cut(x, a, extent - before, before, 1, loc);
        if (after > 0)
            parts[2] = detail::cut(x, a, 0, after, 1, loc);
    } else {
        if (extent == 0)
            refuse("of no elements", 0);
        if (before > 0)
            parts[0] = repeated(0, before);
        if (after > 0)
            parts[2] = repeated(extent - 1, after);
    }
    const size_t first = before == 0, last = after == 0 ? 2 : 3;
    return joined(std::span(parts).subspan(first, last - first), a, loc);
}

} // namespace

Tensor pad(const Tensor &x, const Sizes &pairs, PaddingMode mode, const Scalar &value, Location loc) {
    loc = detail::in<"pad">(loc);
    if (mode == PaddingMode::Constant)
        return pad(x, pairs, value, loc);
    const ir::TensorType type = detail::checked_type(x, "pad", loc);
    const int rank = type.shape.rank();
    // What is cut off takes part where things are mirrored and repeated, and does not where ends meet.
    std::vector<int64_t> cuts(pairs.begin(), pairs.end());
    bool is_cut = false;
    for (int64_t &pair : cuts) {
        pair = std::min<int64_t>(pair, 0);
        is_cut |= pair < 0;
    }
    // Checks the pairs as well.
    const Tensor inside = pad(x, cuts, 0, loc);
    Tensor y = mode == PaddingMode::Circular && is_cut ? inside : x;
    for (size_t k = 0; k < pairs.size() / 2; ++k)
        y = surrounded(y, rank - 1 - static_cast<int>(k), std::max<int64_t>(pairs[2 * k], 0),
                       std::max<int64_t>(pairs[2 * k + 1], 0), mode, loc);
    if (mode != PaddingMode::Circular && is_cut)
        y = pad(y, cuts, 0, loc);
    return y.same_tensor(x) ? detail::fresh(x, loc) : y;
}

Tensor roll(const Tensor &x, const Sizes &shifts, const Sizes &axes, Location loc) {
    loc = detail::in<"roll">(loc);
    const ir::TensorType type = detail::checked_type(x, "roll", loc);
    if (axes.empty() && shifts.size() == 1) {
        const Tensor flat = roll(flatten(x, 0, -1, loc), shifts, {0}, loc);
        return detail::reshape_to(flat, type.shape, loc);
    }
    if (shifts.size() != axes.size())
        throw ShapeError("roll: " + std::to_string(shifts.size()) + " shifts were given for " +
                             std::to_string(axes.size()) + " axes",
                         loc);
    std::vector<int64_t> shift_of(
        static_cast<size_t>(type.shape.rank())); // of axes, which may be named twice
    for (size_t k = 0; k < axes.size(); ++k) {
        const int a = detail::normal_axis(axes[k], type.shape.rank(), "roll", type, loc);
        if (const int64_t extent = type.shape[a]; extent > 0) {
            int64_t &shift = shift_of[static_cast<size_t>(a)];
            shift = ((shift + shifts[k] % extent) % extent + extent) % extent;
        }
    }
    // The first axis last: what is joined along it are whole rows.
    Tensor y = detail::fresh(x, loc);
    for (int a = type.shape.rank(); a-- > 0;) {
        const int64_t extent = type.shape[a], shift = shift_of[static_cast<size_t>(a)];
        if (shift == 0)
            continue;
        const Tensor parts[] = {detail::cut(y, a, extent - shift, shift, 1, loc),
                                detail::cut(y, a, 0, extent - shift, 1, loc)};
        y = joined(parts, a, loc);
    }
    return y;
}

namespace {

/// x where row + diagonal compares to the column, else 0.
Tensor triangle(Op compare, const Tensor &x, int64_t diagonal, const char *function, Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    const int rank = type.shape.rank();
    if (rank < 2)
        throw ShapeError(std::string(function) + ": " + detail::text(type) + " is no matrix", loc);
    const int64_t rows = type.shape[rank - 2], columns = type.shape[rank - 1];
    const Tensor row = detail::iota({ir::DType::I64, {rows, 1}, type.device}, 0, diagonal, 1, loc);
    const Tensor column = detail::iota({ir::DType::I64, {1, columns}, type.device}, 1, 0, 1, loc);
    return detail::select(detail::binary(compare, column, row, loc), x, detail::literal(x, 0, loc), loc);
}

} // namespace

Tensor tril(const Tensor &x, int64_t diagonal, Location loc) {
    loc = detail::in<"tril">(loc);
    return triangle(Op::Le, x, diagonal, "tril", loc);
}
Tensor triu(const Tensor &x, int64_t diagonal, Location loc) {
    loc = detail::in<"triu">(loc);
    return triangle(Op::Ge, x, diagonal, "triu", loc);
}

Tensor repeat(const Tensor &x, const Sizes &repeats, Location loc) {
    loc = detail::in<"repeat">(loc);
    const ir::TensorType type = detail::checked_type(x, "repeat", loc);
    const auto rank = static_cast<size_t>(type.shape.rank());
    if (repeats.size() < rank)
        throw ShapeError("repeat: " + detail::text(repeats.span()) + " names " +
                             std::to_string(repeats.size()) + " axes; " + detail::text(type) + " has " +
                             std::to_string(rank),
                         loc);
    std::vector<int64_t> extents(repeats.size() - rank, 1);
    extents.insert(extents.end(), type.shape.begin(), type.shape.end());
    std::vector<int64_t> result = extents;
    for (size_t a = 0; a < result.size(); ++a)
        if (repeats[a] < 0 || __builtin_mul_overflow(result[a], repeats[a], &result[a]))
            throw ShapeError("repeat: " + std::to_string(repeats[a]) + " is no number of copies of axis " +
                                 std::to_string(a) + " of " + detail::text(extents),
                             loc);
    detail::checked_shape(result, type.dtype, "repeat", loc);
    // One axis at a time, with what is before and after it as one: the rank stays small.
    Tensor y = x;
    for (size_t a = 0; a < extents.size(); ++a) {
        if (repeats[a] == 1)
            continue;
        int64_t before = 1, after = 1;
        for (size_t i = 0; i < a; ++i)
            before *= result[i];
        for (size_t i = a + 1; i < extents.size(); ++i)
            after *= extents[i];
        y = detail::reshape_to(y, {before, 1, extents[a], after}, loc);
        y = detail::broadcast_to(y, {before, repeats[a], extents[a], after}, loc);
        y = detail::reshape_to(y, {before, repeats[a] * extents[a], after}, loc);
    }
    return detail::record(Op::Reshape, {&y}, Words().ints(result), loc);
}

} // namespace lz
