#include "frontend/autograd/composites.h"
#include "frontend/ops/compose.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/views.h"

#include <limits>
#include <string>

namespace lz {

using detail::Op;

namespace {

ValuesIndices sorted(Op op, const Tensor &x, std::span<const int64_t> words, Location loc) {
    const Tensor *operands[] = {&x};
    std::vector<Tensor> both = detail::record_many(op, operands, words, {}, loc);
    return {std::move(both[0]), std::move(both[1])};
}

ValuesIndices sorted(const Tensor &x, int axis, bool descending, Location loc) {
    const int64_t words[] = {axis, descending};
    return sorted(Op::Sort, x, words, loc);
}

/// A number is sorted as a row of one.
ValuesIndices sorted_axis(const Tensor &x, int64_t axis, bool descending, const char *function,
                          Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    if (type.shape.rank() > 0)
        return sorted(x, detail::normal_axis(axis, type.shape.rank(), function, type, loc), descending, loc);
    if (axis != 0 && axis != -1)
        detail::normal_axis(axis, 0, function, type, loc);
    const ValuesIndices row = sorted(reshape(x, {1}, loc), 0, descending, loc);
    return {reshape(row.values, {}, loc), reshape(row.indices, {}, loc)};
}

} // namespace

ValuesIndices sort(const Tensor &x, int64_t axis, bool descending, Location loc) {
    loc = detail::in<"sort">(loc);
    return sorted_axis(x, axis, descending, "sort", loc);
}

Tensor argsort(const Tensor &x, int64_t axis, bool descending, Location loc) {
    loc = detail::in<"argsort">(loc);
    return sorted_axis(x, axis, descending, "argsort", loc).indices;
}

ValuesIndices topk(const Tensor &x, int64_t k, int64_t axis, bool largest, Location loc) {
    loc = detail::in<"topk">(loc);
    const ir::TensorType type = detail::checked_type(x, "topk", loc);
    const int rank = type.shape.rank();
    const int a = rank == 0 ? 0 : detail::normal_axis(axis, rank, "topk", type, loc);
    const int64_t extent = rank == 0 ? 1 : type.shape[a];
    if (k < 0 || k > extent)
        throw IndexError("topk: k is " + std::to_string(k) + "; axis " + std::to_string(a) + " of " +
                             detail::text(type) + " has " + std::to_string(extent) + " elements",
                         loc);
    if (rank == 0)
        return sorted_axis(x, axis, largest, "topk", loc);
    const int64_t words[] = {a, largest, k};
    return sorted(Op::TopK, x, words, loc);
}

namespace {

/// The elements that `indices`, which has the axis with extent 1, names, and themselves. The gradient goes to
/// these elements alone.
ValuesIndices picked(const Tensor &x, int axis, const Tensor &indices, bool keepdim, Location loc) {
    const Tensor values = gather(x, axis, indices, loc);
    if (keepdim)
        return {values, indices};
    return {squeeze(values, axis, loc), squeeze(indices, axis, loc)};
}

/// The axis of a row to pick from, which has elements. A number is a row of one.
int axis_with_elements(const Tensor &x, int64_t axis, const char *function, Location loc) {
    const ir::TensorType &type = detail::checked_type(x, function, loc);
    const int a = detail::normal_axis(axis, type.shape.rank(), function, type, loc);
    if (type.shape[a] == 0)
        throw IndexError(std::string(function) + ": axis " + std::to_string(a) + " of " + detail::text(type) +
                             " has no elements",
                         loc);
    return a;
}

ValuesIndices of_number(const ValuesIndices &row, Location loc) {
    return {reshape(row.values, {}, loc), reshape(row.indices, {}, loc)};
}

} // namespace

ValuesIndices median(const Tensor &x, int64_t axis, bool keepdim, Location loc) {
    loc = detail::in<"median">(loc);
    const ir::TensorType type = detail::checked_type(x, "median", loc);
    if (detail::is_axis_of_number(axis, type.shape.rank()))
        return of_number(median(reshape(x, {1}, loc), 0, false, loc), loc);
    const int a = axis_with_elements(x, axis, "median", loc);
    const Tensor order = sorted(x.detach(loc), a, false, loc).indices;
    const int64_t middle = (type.shape[a] - 1) / 2;
    const Tensor lower = detail::cut(order, a, middle, 1, 1, loc);
    if (!ir::is_float(type.dtype))
        return picked(x, a, lower, keepdim, loc);
    // NaN counts as the largest: the first of them stands behind all numbers.
    const Tensor nans = sum(isnan(x, loc), a, true, std::nullopt, loc);
    const Tensor extent = detail::constant(Scalar(type.shape[a]), ir::DType::I64, type.device, loc);
    const Tensor none = detail::binary(Op::Eq, nans, detail::literal(nans, 0, loc), loc);
    const Tensor first =
        detail::select(none, detail::literal(nans, 0, loc), detail::binary(Op::Sub, extent, nans, loc), loc);
    return picked(x, a, detail::select(none, lower, gather(order, a, first, loc), loc), keepdim, loc);
}

Tensor median(const Tensor &x, Location loc) {
    loc = detail::in<"median">(loc);
    const ir::TensorType type = detail::checked_type(x, "median", loc);
    if (type.numel() == 0) {
        if (!ir::is_float(type.dtype))
            throw IndexError("median: " + detail::text(type) + " has no elements", loc);
        return detail::constant(Scalar(std::numeric_limits<double>::quiet_NaN()), type.dtype, type.device,
                                loc);
    }
    const Tensor line = reshape(x, {-1}, loc);
    const auto value = [&] { return median(line, 0, false, loc).values; };
    return ir::is_float(type.dtype) ? detail::composite(detail::kMedianRule, {&line}, {}, loc, value)
                                    : value();
}

ValuesIndices kthvalue(const Tensor &x, int64_t k, int64_t axis, bool keepdim, Location loc) {
    loc = detail::in<"kthvalue">(loc);
    const ir::TensorType type = detail::checked_type(x, "kthvalue", loc);
    if (detail::is_axis_of_number(axis, type.shape.rank()))
        return of_number(kthvalue(reshape(x, {1}, loc), k, 0, false, loc), loc);
    const int a = axis_with_elements(x, axis, "kthvalue", loc);
    if (k < 1 || k > type.shape[a])
        throw IndexError("kthvalue: k is " + std::to_string(k) + "; axis " + std::to_string(a) + " of " +
                             detail::text(type) + " has " + std::to_string(type.shape[a]) + " elements",
                         loc);
    const int64_t first[] = {a, 0, k};
    const Tensor order = sorted(Op::TopK, x.detach(loc), first, loc).indices;
    return picked(x, a, detail::cut(order, a, k - 1, 1, 1, loc), keepdim, loc);
}

} // namespace lz
