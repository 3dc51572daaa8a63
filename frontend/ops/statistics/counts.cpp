// How many there are: of each number, and in each part of a range.
#include "frontend/ops/compose.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/functional.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/statistics.h"
#include "lazuli/ops/views.h"

#include <cmath>

namespace lz {

using detail::Op;
using detail::Shape;

Tensor bincount(const Tensor &x, const Tensor &weights, int64_t minlength, Location loc) {
    loc = detail::in<"bincount">(loc);
    const ir::TensorType type = detail::checked_type(x, "bincount", loc);
    if (ir::is_float(type.dtype) || type.dtype == ir::DType::Bool)
        throw DTypeError("bincount: takes integers, not " + detail::text(type), loc);
    if (type.shape.rank() != 1)
        throw ShapeError("bincount: " + detail::text(type) + " is no row; it must have one axis", loc);
    if (minlength < 0)
        throw ShapeError("bincount: " + std::to_string(minlength) + " is no number of counts", loc);
    const bool weighted = detail::Access::given(weights);
    if (weighted && !(detail::checked_type(weights, "bincount", loc).shape == type.shape))
        throw ShapeError("bincount: the weights are " + detail::text(detail::type(weights)) +
                             "; each element of " + detail::text(type) + " takes one",
                         loc);
    const auto both = detail::together(loc, x, weights);
    const Tensor &row = both[0], &heavy = both[1];
    ir::DType dtype = ir::DType::I64;
    if (weighted)
        dtype = detail::type(heavy).dtype == ir::DType::F32 ? ir::DType::F32 : ir::DType::F64;
    const auto zeros = [&](int64_t count) {
        const Shape shape = detail::checked_shape(count, dtype, "bincount", loc);
        return detail::record_literal(detail::from_ir(dtype), 0, shape, detail::type(row).device, loc);
    };
    if (type.numel() == 0) { // as PyTorch: without weights
        dtype = ir::DType::I64;
        return zeros(minlength);
    }
    const Tensor numbers = detail::cast(row, ir::DType::I64, loc);
    const std::vector<int64_t> ends =
        stack({min(numbers, loc), max(numbers, loc)}, 0, loc).to_vector<int64_t>(loc);
    if (ends[0] < 0)
        throw IndexError("bincount: the number " + std::to_string(ends[0]) +
                             " is negative; numbers are counted from 0 on",
                         loc);
    if (ends[1] == INT64_MAX)
        throw IndexError("bincount: there is no room for as many counts as the number " +
                             std::to_string(ends[1]) + " needs",
                         loc);
    const Tensor ones =
        weighted ? detail::cast(heavy.detach(loc), dtype, loc)
                 : detail::record_literal(DType::I64, 1, type.shape, detail::type(row).device, loc);
    return scatter_add(zeros(std::max(minlength, ends[1] + 1)), 0, numbers, ones, loc);
}

Tensor histc(const Tensor &x, int64_t bins, const Scalar &min, const Scalar &max, Location loc) {
    loc = detail::in<"histc">(loc);
    const ir::TensorType type = detail::checked_type(x, "histc", loc);
    if (!ir::is_float(type.dtype))
        throw DTypeError("histc: takes floats, not " + detail::text(type) +
                             "; convert it first, for example with to(f32)",
                         loc);
    if (bins < 1)
        throw ShapeError("histc: " + std::to_string(bins) + " is no number of parts; it is 1 or more", loc);
    const double from = detail::double_of(min), to = detail::double_of(max);
    detail::note_on_host({from, to}); // how far apart they are
    if (!std::isfinite(from) || !std::isfinite(to) || from > to)
        throw IndexError("histc: the bounds " + std::to_string(from) + " and " + std::to_string(to) +
                             " are not finite, or not in order",
                         loc);
    const ir::DType work = detail::working_dtype(type.dtype);
    const int64_t count = type.numel();
    const Tensor row = detail::reshape_to(detail::cast(x.detach(loc), work, loc), Shape({count}), loc);
    Tensor low, high;
    if (from < to || count == 0) {
        low = detail::constant(row, from < to ? from : from - 1, loc);
        high = detail::constant(row, from < to ? to : to + 1, loc);
    } else {
        const Tensor least = lz::min(row, loc), most = lz::max(row, loc);
        const Tensor finite = detail::binary(Op::And, isfinite(least, loc), isfinite(most, loc), loc);
        low = detail::checked(least, finite,
                              "histc: the extremes of the elements are not finite; name bounds", loc);
        const Tensor flat = detail::binary(Op::Eq, low, most, loc), one = detail::literal(low, 1, loc);
        high = detail::select(flat, detail::binary(Op::Add, most, one, loc), most, loc);
        low = detail::select(flat, detail::binary(Op::Sub, low, one, loc), low, loc);
    }
    const auto integer = [&](int64_t value) {
        return detail::constant(Scalar(value), ir::DType::I64, type.device, loc);
    };
    const Tensor part =
        detail::binary(Op::Div,
                       detail::binary(Op::Mul, detail::binary(Op::Sub, row, low, loc),
                                      detail::constant(row, static_cast<double>(bins), loc), loc),
                       detail::binary(Op::Sub, high, low, loc), loc);
    const Tensor inside = detail::binary(Op::And, detail::binary(Op::Ge, row, low, loc),
                                         detail::binary(Op::Le, row, high, loc), loc);
    // The upper bound itself counts for the last part; what is outside is counted behind it.
    const Tensor place =
        detail::binary(Op::Minimum, detail::cast(part, ir::DType::I64, loc), integer(bins - 1), loc);
    const Tensor at = detail::select(inside, place, integer(bins), loc);
    if (bins == INT64_MAX)
        throw ShapeError("histc: there is no memory for " + std::to_string(bins) + " parts", loc);
    const Shape room = detail::checked_shape(bins + 1, ir::DType::I64, "histc", loc);
    const Tensor zeros = detail::record_literal(DType::I64, 0, room, type.device, loc);
    const Tensor ones = detail::record_literal(DType::I64, 1, Shape({count}), type.device, loc);
    const Tensor counts = scatter_add(zeros, 0, at, ones, loc);
    return detail::cast(detail::cut(counts, 0, 0, bins, 1, loc), type.dtype, loc);
}

} // namespace lz
