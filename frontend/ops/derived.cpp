// Functions that are made of others of the public API, and methods that bear LibTorch's names.
#include "frontend/autograd/attach.h"
#include "frontend/autograd/composites.h"
#include "frontend/ops/compose.h"
#include "lazuli/autograd.h"
#include "lazuli/autograd/swap.h"
#include "lazuli/ops.h"

#include <limits>

namespace lz {

// --- elementwise.h

Tensor clamp_min(const Tensor &x, Operand lower, Location loc) {
    loc = detail::in<"clamp_min">(loc);
    return lower.is_tensor() ? clamp(x, lower.tensor(), {}, loc)
                             : clamp(x, lower.number(), std::nullopt, loc);
}

Tensor clamp_max(const Tensor &x, Operand upper, Location loc) {
    loc = detail::in<"clamp_max">(loc);
    return upper.is_tensor() ? clamp(x, {}, upper.tensor(), loc)
                             : clamp(x, std::nullopt, upper.number(), loc);
}

Tensor logaddexp(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"logaddexp">(loc);
    detail::checked_type(a, "logaddexp", loc);
    detail::checked_type(b, "logaddexp", loc);
    const auto both = detail::together(loc, a, b);
    const Operand first(both[0], loc), second(both[1], loc);
    const ir::DType dtype = detail::result_type({&first, &second}, "logaddexp", loc);
    if (!ir::is_float(dtype))
        throw DTypeError("logaddexp: " + detail::text(detail::type(a)) + " and " +
                             detail::text(detail::type(b)) + " are no floats; convert one of them",
                         loc);
    const ir::DType working = detail::working_dtype(dtype);
    const Tensor x = detail::cast(both[0], working, loc), y = detail::cast(both[1], working, loc);
    const Tensor sum = detail::composite(detail::kLogAddExpRule, {&x, &y}, {}, loc, [&] {
        const Tensor larger = maximum(x, y, loc);
        // Two equal infinities have no difference.
        const Tensor below = where(eq(x, y, loc), 0, sub(minimum(x, y, loc), larger, loc), loc);
        return add(larger, log1p(exp(below, loc), loc), loc);
    });
    return detail::cast(sum, dtype, loc);
}

// --- reductions.h

ValuesIndices topk(const Tensor &x, int64_t k, int64_t axis, bool largest, bool /*sorted*/, Location loc) {
    return topk(x, k, axis, largest, loc);
}

Tensor count_nonzero(const Tensor &x, const Sizes &axes, Location loc) {
    loc = detail::in<"count_nonzero">(loc);
    detail::checked_type(x, "count_nonzero", loc);
    return sum(detail::cast(x, ir::DType::Bool, loc), axes, false, std::nullopt, loc);
}

// --- views.h

Tensor movedim(const Tensor &x, const Sizes &from, const Sizes &to, Location loc) {
    loc = detail::in<"movedim">(loc);
    const ir::TensorType type = detail::checked_type(x, "movedim", loc);
    const int rank = type.shape.rank();
    if (from.size() != to.size())
        throw IndexError("movedim: " + detail::text(from) + " names " + std::to_string(from.size()) +
                             " axes, and " + detail::text(to) + " names " + std::to_string(to.size()) +
                             " places",
                         loc);
    std::vector<int64_t> axes(static_cast<size_t>(rank), -1);
    std::vector<bool> moved(static_cast<size_t>(rank));
    for (size_t i = 0; i < from.size(); ++i) {
        const int axis = detail::normal_axis(from[i], rank, "movedim", type, loc);
        const int place = detail::normal_axis(to[i], rank, "movedim", type, loc);
        if (moved[static_cast<size_t>(axis)] || axes[static_cast<size_t>(place)] >= 0)
            throw IndexError("movedim: " + detail::text(from) + " to " + detail::text(to) +
                                 " names an axis or a place twice",
                             loc);
        moved[static_cast<size_t>(axis)] = true;
        axes[static_cast<size_t>(place)] = axis;
    }
    int64_t next = 0;
    for (int64_t &axis : axes) {
        if (axis >= 0)
            continue;
        while (moved[static_cast<size_t>(next)])
            ++next;
        axis = next++;
    }
    return permute(x, axes, loc);
}

Tensor hstack(std::span<const Tensor> tensors, Location loc) {
    loc = detail::in<"hstack">(loc);
    std::vector<Tensor> parts;
    for (const Tensor &x : tensors)
        parts.push_back(x.dim(loc) == 0 ? reshape(x, {1}, loc) : x);
    return cat(parts, parts.empty() || parts[0].dim(loc) == 1 ? 0 : 1, loc);
}
Tensor hstack(std::initializer_list<Tensor> tensors, Location loc) {
    return hstack(std::span(tensors.begin(), tensors.size()), loc);
}

Tensor vstack(std::span<const Tensor> tensors, Location loc) {
    loc = detail::in<"vstack">(loc);
    std::vector<Tensor> parts;
    for (const Tensor &x : tensors)
        parts.push_back(x.dim(loc) < 2 ? reshape(x, {1, x.numel(loc)}, loc) : x);
    return cat(parts, 0, loc);
}
Tensor vstack(std::initializer_list<Tensor> tensors, Location loc) {
    return vstack(std::span(tensors.begin(), tensors.size()), loc);
}

std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, std::string_view indexing, Location loc) {
    loc = detail::in<"meshgrid">(loc);
    if (tensors.empty())
        throw StateError("meshgrid: there is no tensor", loc);
    if (indexing != "ij" && indexing != "xy")
        throw StateError("meshgrid: indexing is \"" + std::string(indexing) + "\"; it is \"ij\" or \"xy\"",
                         loc);
    // Along which axis each one varies.
    std::vector<size_t> axis(tensors.size());
    for (size_t k = 0; k < axis.size(); ++k)
        axis[k] = indexing == "xy" && tensors.size() > 1 && k < 2 ? 1 - k : k;
    std::vector<int64_t> extents(tensors.size());
    for (size_t k = 0; k < axis.size(); ++k) {
        const ir::TensorType &type = detail::checked_type(tensors[k], "meshgrid", loc);
        if (type.shape.rank() > 1)
            throw ShapeError("meshgrid: tensor " + std::to_string(k) + " is " + detail::text(type) +
                                 "; it has one axis, or none",
                             loc);
        extents[axis[k]] = type.numel();
    }
    std::vector<Tensor> grids;
    for (size_t k = 0; k < axis.size(); ++k) {
        std::vector<int64_t> alone(tensors.size(), 1);
        alone[axis[k]] = extents[axis[k]];
        grids.push_back(expand(reshape(tensors[k], alone, loc), extents, loc));
    }
    return grids;
}
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors, std::string_view indexing, Location loc) {
    return meshgrid(std::span(tensors.begin(), tensors.size()), indexing, loc);
}

Tensor tile(const Tensor &x, const Sizes &repeats, Location loc) {
    loc = detail::in<"tile">(loc);
    const auto rank = static_cast<size_t>(x.dim(loc));
    std::vector<int64_t> all(rank - std::min(rank, repeats.size()), 1);
    all.insert(all.end(), repeats.begin(), repeats.end());
    return repeat(x, all, loc);
}

Tensor repeat_interleave(const Tensor &x, int64_t repeats, std::optional<int64_t> axis, Location loc) {
    loc = detail::in<"repeat_interleave">(loc);
    if (repeats < 0)
        throw ShapeError("repeat_interleave: " + std::to_string(repeats) + " is no number of copies", loc);
    const Tensor row = axis && x.dim(loc) != 0 ? x : reshape(x, {-1}, loc);
    const ir::TensorType type = detail::type(row);
    const int a = detail::normal_axis(axis.value_or(0), type.shape.rank(), "repeat_interleave", type, loc);
    // What is before and after the positions is one axis each: the rank stays small.
    int64_t positions = 1, after = 1;
    std::vector<int64_t> result;
    for (int i = 0; i < type.shape.rank(); ++i) {
        (i <= a ? positions : after) *= type.shape[i];
        result.push_back(type.shape[i]);
    }
    int64_t &extent = result[static_cast<size_t>(a)];
    if (__builtin_mul_overflow(extent, repeats, &extent))
        extent = std::numeric_limits<int64_t>::max();
    detail::checked_shape(result, type.dtype, "repeat_interleave", loc);
    const Tensor apart = reshape(row, {positions, 1, after}, loc);
    return reshape(expand(apart, {positions, repeats, after}, loc), result, loc);
}

Tensor repeat_interleave(const Tensor &x, const Tensor &repeats, std::optional<int64_t> axis, Location loc) {
    loc = detail::in<"repeat_interleave">(loc);
    const ir::TensorType &counts_type = detail::checked_type(repeats, "repeat_interleave", loc);
    if (counts_type.dtype != ir::DType::I32 && counts_type.dtype != ir::DType::I64)
        throw DTypeError("repeat_interleave: the numbers of copies are " + detail::text(counts_type) +
                             "; they are i32 or i64",
                         loc);
    const Tensor row = axis && x.dim(loc) != 0 ? x : reshape(x, {-1}, loc);
    const ir::TensorType type = detail::type(row);
    const int a = detail::normal_axis(axis.value_or(0), type.shape.rank(), "repeat_interleave", type, loc);
    const int64_t extent = type.shape[a], given = counts_type.numel();
    if (counts_type.shape.rank() > 1 || (given != extent && given != 1))
        throw ShapeError("repeat_interleave: the numbers of copies are " + detail::text(counts_type) +
                             "; axis " + std::to_string(a) + " of " + detail::text(type) + " takes " +
                             std::to_string(extent) + " in a row, or one",
                         loc);
    const std::vector<int64_t> counts = repeats.to(i64, loc).to_vector<int64_t>(loc);
    std::vector<int64_t> index;
    for (int64_t i = 0; i < extent; ++i) {
        const int64_t count = counts[given == 1 ? 0 : static_cast<size_t>(i)];
        if (count < 0)
            throw ShapeError("repeat_interleave: " + std::to_string(count) + " is no number of copies", loc);
        index.insert(index.end(), static_cast<size_t>(count), i);
    }
    return index_select(row, a, tensor(index, {.device = x.device(loc)}, loc), loc);
}

Tensor diag(const Tensor &x, int64_t offset, Location loc) {
    loc = detail::in<"diag">(loc);
    const ir::TensorType type = detail::checked_type(x, "diag", loc);
    if (type.shape.rank() == 2)
        return diagonal(x, offset, 0, 1, loc);
    if (type.shape.rank() != 1)
        throw ShapeError("diag: " + detail::text(type) + " is neither a row nor a matrix", loc);
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    const int64_t n = type.shape[0], away = offset >= 0 ? offset : offset == -kMost - 1 ? kMost : -offset;
    const int64_t m = away > kMost - n ? kMost : n + away;
    detail::checked_shape({m, m}, type.dtype, "diag", loc);
    // Read as one row, the matrix has an element every m + 1 places.
    const Tensor row = reshape(pad(reshape(x, {n, 1}, loc), {0, m}, 0, loc), {n * (m + 1)}, loc);
    const int64_t first = offset >= 0 ? away : away * m;
    return reshape(pad(row, {first, m * m - first - n * (m + 1)}, 0, loc), {m, m}, loc);
}

// --- libtorch_methods.def

namespace {

Tensor copied(const Tensor &x, Tensor made, bool copy, Location loc) {
    return copy && made.same_tensor(x) ? made.clone(loc) : made;
}

/// The tensor, for whoever has a handle of it, is from now on what was made of it.
Tensor &become(Tensor &x, Tensor made, const char *function, Location loc) {
    if (x.requires_grad(loc) && !x.is_leaf(loc)) {
        swap_tensors(x, made, loc);
        return x;
    }
    if (x.requires_grad(loc) && GradMode::is_enabled())
        throw StateError(std::string(function) +
                             ": the tensor is a leaf that requires grad, which cannot be changed in place "
                             "while gradients are recorded; change it under a NoGradGuard, or change a "
                             "clone of it",
                         loc);
    return x.set_data(made, loc);
}

} // namespace

Tensor Tensor::to(DType dtype, bool, bool copy, Location loc) const {
    return copied(*this, lz::to(*this, dtype, loc), copy, loc);
}
Tensor Tensor::to(const Device &device, bool non_blocking, bool copy, Location loc) const {
    return copied(*this, lz::to(*this, device, CopyOptions{non_blocking}, loc), copy, loc);
}
Tensor Tensor::to(const Device &device, DType dtype, bool non_blocking, bool copy, Location loc) const {
    return copied(*this, lz::to(*this, device, dtype, CopyOptions{non_blocking}, loc), copy, loc);
}
Tensor Tensor::to(const Tensor &other, bool non_blocking, bool copy, Location loc) const {
    return to(other.device(loc), other.dtype(loc), non_blocking, copy, loc);
}

std::vector<Tensor> Tensor::nonzero_numpy(Location loc) const {
    return lz::nonzero_numpy(*this, loc);
}
Tensor &Tensor::clamp_min_(Operand lower, Location loc) & {
    return detail::assign(*this, lz::clamp_min(*this, std::move(lower), loc), "clamp_min_", loc);
}
Tensor &Tensor::clamp_max_(Operand upper, Location loc) & {
    return detail::assign(*this, lz::clamp_max(*this, std::move(upper), loc), "clamp_max_", loc);
}

Tensor &Tensor::unsqueeze_(int64_t axis, Location loc) & {
    loc = detail::in<"unsqueeze_">(loc);
    return become(*this, lz::unsqueeze(*this, axis, loc), "unsqueeze_", loc);
}
Tensor &Tensor::squeeze_(const Sizes &axes, Location loc) & {
    loc = detail::in<"squeeze_">(loc);
    return become(*this, lz::squeeze(*this, axes, loc), "squeeze_", loc);
}
Tensor &Tensor::transpose_(int64_t axis0, int64_t axis1, Location loc) & {
    loc = detail::in<"transpose_">(loc);
    return become(*this, lz::transpose(*this, axis0, axis1, loc), "transpose_", loc);
}
Tensor &Tensor::t_(Location loc) & {
    loc = detail::in<"t_">(loc);
    return become(*this, lz::t(*this, loc), "t_", loc);
}

} // namespace lz
