// The largest and the smallest of all elements up to each.
#include "frontend/ops/compose.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/views.h"

#include <limits>

namespace lz {

using detail::Op;
using detail::Shape;

namespace {

/// A number beside which every other one is the extreme, or equal to it.
Scalar weakest(ir::DType dtype, bool largest) {
    if (ir::is_float(dtype)) {
        constexpr double kInf = std::numeric_limits<double>::infinity();
        return largest ? -kInf : kInf;
    }
    if (dtype == ir::DType::Bool)
        return !largest;
    return detail::saturated(largest ? INT64_MIN : INT64_MAX, dtype);
}

/// Rows of at most so many elements are compared each with each. Of 8, 16 and 32 it was the fastest for a
/// million elements of f32, i32 and i64 on Zen 5.
constexpr int64_t kBlock = 16;

/// Along the last axis of [rows, n], n > 0: within blocks first, then of the blocks' last elements, and then
/// both meet. A row of a million elements takes five rounds, of which all but the first are short.
Tensor running(const Tensor &x, bool largest, Location loc) {
    const ir::TensorType type = detail::type(x);
    const int64_t rows = type.shape[0], n = type.shape[1];
    const Tensor none = detail::constant(weakest(type.dtype, largest), type.dtype, type.device, loc);
    const Op both = largest ? Op::Maximum : Op::Minimum;
    if (n <= kBlock) { // over the middle axis, so that neighbours are computed side by side
        const Tensor j = detail::iota({ir::DType::I32, Shape({n, 1}), type.device}, 0, 0, 1, loc);
        const Tensor i = detail::iota({ir::DType::I32, Shape({1, n}), type.device}, 1, 0, 1, loc);
        const Tensor each = detail::broadcast_to(detail::reshape_to(x, {rows, n, 1}, loc), {rows, n, n}, loc);
        const Tensor counts = detail::broadcast_to(detail::binary(Op::Le, j, i, loc), {rows, n, n}, loc);
        const int64_t middle[] = {1};
        return detail::reduce(largest ? Op::ReduceMax : Op::ReduceMin,
                              detail::select(counts, each, none, loc), middle, false, loc);
    }
    const auto padded = [&](const Tensor &v, int64_t before, int64_t after) {
        const int64_t low[] = {0, before}, high[] = {0, after};
        return detail::record(Op::Pad, {&v, &none}, detail::Words().ints(low).ints(high), loc);
    };
    const int64_t blocks = (n + kBlock - 1) / kBlock;
    const Tensor whole = blocks * kBlock == n ? x : padded(x, 0, blocks * kBlock - n);
    const Tensor within = running(detail::reshape_to(whole, {rows * blocks, kBlock}, loc), largest, loc);
    const Tensor ends = detail::cut(within, 1, kBlock - 1, 1, 1, loc);
    const Tensor until = running(detail::reshape_to(ends, {rows, blocks}, loc), largest, loc);
    const Tensor before = padded(detail::cut(until, 1, 0, blocks - 1, 1, loc), 1, 0);
    const Tensor all = detail::binary(both, detail::reshape_to(within, {rows, blocks, kBlock}, loc),
                                      detail::reshape_to(before, {rows, blocks, 1}, loc), loc);
    return detail::cut(detail::reshape_to(all, {rows, blocks * kBlock}, loc), 1, 0, n, 1, loc);
}

ValuesIndices running_extremes(const Tensor &given, int64_t axis, bool largest, const char *function,
                               Location loc) {
    const ir::TensorType type = detail::checked_type(given, function, loc);
    if (detail::is_axis_of_number(axis, type.shape.rank()))
        return {detail::fresh(given, loc), detail::record_literal(DType::I64, 0, {}, type.device, loc)};
    const int rank = type.shape.rank(), a = detail::normal_axis(axis, rank, function, type, loc);
    const int64_t n = type.shape[a];
    if (type.numel() == 0)
        return {detail::fresh(given, loc),
                detail::record_literal(DType::I64, 0, type.shape, type.device, loc)};
    const Tensor turned = movedim(given.detach(loc), a, -1, loc);
    const Shape turned_shape = detail::type(turned).shape;
    const Tensor x = detail::reshape_to(turned, {type.numel() / n, n}, loc);
    const Tensor extremes = running(x, largest, loc);
    // An element takes over where it is the extreme so far, or NaN; the last one that did is the place.
    Tensor takes = detail::binary(Op::Eq, x, extremes, loc);
    if (ir::is_float(type.dtype))
        takes = detail::binary(Op::Or, takes, detail::unary(Op::IsNan, x, loc), loc);
    const ir::DType narrow = n <= INT32_MAX ? ir::DType::I32 : ir::DType::I64;
    const Tensor place = detail::iota({narrow, Shape({1, n}), type.device}, 1, 0, 1, loc);
    const Tensor taken = detail::select(takes, detail::broadcast_to(place, detail::type(x).shape, loc),
                                        detail::literal(place, 0, loc), loc);
    const auto back = [&](const Tensor &v) {
        return movedim(detail::reshape_to(v, turned_shape, loc), -1, a, loc);
    };
    const Tensor places = back(detail::cast(running(taken, true, loc), ir::DType::I64, loc));
    // Looked up, so that of zeros it is the one at the place, and gradients go there.
    return {gather(given, a, places, loc), places};
}

} // namespace

ValuesIndices cummax(const Tensor &x, int64_t axis, Location loc) {
    loc = detail::in<"cummax">(loc);
    return running_extremes(x, axis, true, "cummax", loc);
}
ValuesIndices cummin(const Tensor &x, int64_t axis, Location loc) {
    loc = detail::in<"cummin">(loc);
    return running_extremes(x, axis, false, "cummin", loc);
}

} // namespace lz
