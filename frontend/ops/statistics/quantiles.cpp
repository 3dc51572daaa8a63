// Quantiles: an element of a row in order, or a number between two of them.
#include "frontend/ops/compose.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/functional.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/views.h"

namespace lz {

using detail::Op;
using detail::Shape;

namespace {

enum class Between : uint8_t { Linear, Lower, Higher, Midpoint, Nearest };

Between between(std::string_view name, const char *function, Location loc) {
    constexpr std::pair<std::string_view, Between> kNames[] = {{"linear", Between::Linear},
                                                               {"lower", Between::Lower},
                                                               {"higher", Between::Higher},
                                                               {"midpoint", Between::Midpoint},
                                                               {"nearest", Between::Nearest}};
    for (const auto &[known, value] : kNames)
        if (name == known)
            return value;
    throw StateError(std::string(function) + ": the interpolation is \"" + std::string(name) +
                         "\"; it is \"linear\", \"lower\", \"higher\", \"midpoint\" or \"nearest\"",
                     loc);
}

void check_type(const ir::TensorType &type, const char *function, Location loc) {
    if (type.dtype != ir::DType::F32 && type.dtype != ir::DType::F64)
        throw DTypeError(std::string(function) + ": takes f32 or f64, not " + detail::text(type) +
                             "; convert it first, for example with to(f32)",
                         loc);
    if (type.numel() == 0)
        throw ShapeError(std::string(function) + ": " + detail::text(type) + " has no elements", loc);
}

/// What is at the parts `q`, [count], of the elements along the last axis of x: [..., count].
Tensor at_parts(const Tensor &x, const Tensor &q, Between mode, bool without_nans, Location loc) {
    const ir::TensorType type = detail::type(x);
    const int last = type.shape.rank() - 1;
    const Tensor order = sort(x, last, false, loc).values;
    // NaN stands last. Places have no gradient.
    const Tensor is_nan = detail::unary(Op::IsNan, order.detach(loc), loc);
    Tensor places;
    if (without_nans) {
        const Tensor there = sum(detail::unary(Op::Not, is_nan, loc), last, true, std::nullopt, loc);
        const Tensor end = detail::cast(detail::binary(Op::Sub, there, detail::literal(there, 1, loc), loc),
                                        type.dtype, loc);
        const Tensor place = detail::binary(Op::Mul, end, q, loc);
        places = detail::binary(Op::Maximum, place, detail::literal(place, 0, loc), loc);
    } else {
        const Tensor end = detail::constant(q, static_cast<double>(type.shape[last] - 1), loc);
        places = detail::select(any(is_nan, last, true, loc), end, detail::binary(Op::Mul, q, end, loc), loc);
    }
    if (mode == Between::Lower || mode == Between::Higher || mode == Between::Nearest)
        places = detail::unary(mode == Between::Lower    ? Op::Floor
                               : mode == Between::Higher ? Op::Ceil
                                                         : Op::Round,
                               places, loc);
    const auto values_at = [&](const Tensor &place) {
        return gather(order, last, detail::cast(place, ir::DType::I64, loc), loc);
    };
    const Tensor below = detail::unary(Op::Floor, places, loc);
    if (mode != Between::Linear && mode != Between::Midpoint)
        return values_at(below);
    const Tensor part = detail::binary(Op::Sub, places, below, loc);
    const Tensor weight = mode == Between::Linear ? part
                                                  : detail::broadcast_to(detail::literal(part, 0.5, loc),
                                                                         detail::type(part).shape, loc);
    return lerp(values_at(below), values_at(detail::unary(Op::Ceil, places, loc)), Operand(weight, loc), loc);
}

/// `q` is a row, or a number.
Tensor quantiles(const Tensor &x, const Tensor &q, std::optional<int64_t> axis, bool keepdim, Between mode,
                 bool without_nans, const char *function, Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    const int rank = type.shape.rank();
    const bool one = detail::type(q).shape.rank() == 0;
    Shape shape; // of the result, but for the axis of q
    Tensor rows;
    if (axis && !detail::is_axis_of_number(*axis, rank)) {
        const int a = detail::normal_axis(*axis, rank, function, type, loc);
        for (int i = 0; i < rank; ++i)
            if (i != a || keepdim)
                shape.push_back(i == a ? 1 : type.shape[i]);
        rows = movedim(x, a, -1, loc);
    } else {
        for (int i = 0; keepdim && i < rank; ++i)
            shape.push_back(1);
        rows = detail::reshape_to(x, Shape({type.numel()}), loc);
    }
    const int64_t count = detail::type(q).numel();
    const Tensor found = at_parts(rows, detail::reshape_to(q, Shape({count}), loc), mode, without_nans, loc);
    if (one)
        return detail::reshape_to(found, shape, loc);
    Shape all({count});
    for (const int64_t extent : shape)
        all.push_back(extent);
    return reshape(movedim(found, -1, 0, loc), Sizes(all.extents()), loc);
}

Tensor of_number(const Tensor &x, double q, std::optional<int64_t> axis, bool keepdim,
                 std::string_view interpolation, bool without_nans, const char *function, Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    check_type(type, function, loc);
    if (!(q >= 0 && q <= 1))
        throw IndexError(std::string(function) + ": q is " + std::to_string(q) + "; it is out of [0, 1]",
                         loc);
    detail::note_limits(q, 0, 1);
    return quantiles(x, detail::constant(x, q, loc), axis, keepdim, between(interpolation, function, loc),
                     without_nans, function, loc);
}

Tensor of_tensor(const Tensor &x, const Tensor &q, std::optional<int64_t> axis, bool keepdim,
                 std::string_view interpolation, bool without_nans, const char *function,
                 const char *sentence, Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    check_type(type, function, loc);
    const ir::TensorType parts = detail::checked_type(q, function, loc);
    if (parts.dtype != type.dtype)
        throw DTypeError(std::string(function) + ": q is " + detail::text(parts) + "; it must be " +
                             std::string(ir::name(type.dtype)) + " as the elements are",
                         loc);
    if (parts.shape.rank() > 1)
        throw ShapeError(std::string(function) + ": q is " + detail::text(parts) +
                             "; it must be a number or a row of numbers",
                         loc);
    const auto both = detail::together(loc, x, q.detach(loc));
    const Tensor &given = both[1];
    const Tensor in_range =
        detail::binary(Op::And, detail::binary(Op::Ge, given, detail::literal(given, 0, loc), loc),
                       detail::binary(Op::Le, given, detail::literal(given, 1, loc), loc), loc);
    return quantiles(both[0], detail::checked(given, in_range, sentence, loc), axis, keepdim,
                     between(interpolation, function, loc), without_nans, function, loc);
}

} // namespace

Tensor quantile(const Tensor &x, double q, std::optional<int64_t> axis, bool keepdim,
                std::string_view interpolation, Location loc) {
    loc = detail::in<"quantile">(loc);
    return of_number(x, q, axis, keepdim, interpolation, false, "quantile", loc);
}
Tensor quantile(const Tensor &x, const Tensor &q, std::optional<int64_t> axis, bool keepdim,
                std::string_view interpolation, Location loc) {
    loc = detail::in<"quantile">(loc);
    return of_tensor(x, q, axis, keepdim, interpolation, false, "quantile",
                     "quantile: a number of q is out of [0, 1]", loc);
}
Tensor nanquantile(const Tensor &x, double q, std::optional<int64_t> axis, bool keepdim,
                   std::string_view interpolation, Location loc) {
    loc = detail::in<"nanquantile">(loc);
    return of_number(x, q, axis, keepdim, interpolation, true, "nanquantile", loc);
}
Tensor nanquantile(const Tensor &x, const Tensor &q, std::optional<int64_t> axis, bool keepdim,
                   std::string_view interpolation, Location loc) {
    loc = detail::in<"nanquantile">(loc);
    return of_tensor(x, q, axis, keepdim, interpolation, true, "nanquantile",
                     "nanquantile: a number of q is out of [0, 1]", loc);
}

} // namespace lz
