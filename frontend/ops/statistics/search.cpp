// Places in an order.
#include "frontend/ops/compose.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/statistics.h"
#include "lazuli/ops/views.h"

#include <bit>

namespace lz {

using detail::Op;
using detail::Shape;

namespace {

bool goes_right(bool right, std::optional<std::string_view> side, Location loc) {
    if (!side)
        return right;
    if (*side != "left" && *side != "right")
        throw StateError(
            "searchsorted: the side is \"" + std::string(*side) + "\"; it is \"left\" or \"right\"", loc);
    if (right && *side == "left")
        throw StateError("searchsorted: the side is \"left\", and `right` is true; one of them is enough",
                         loc);
    return *side == "right";
}

/// Rows [..., n] and values [..., m] of one dtype on one device, both as one row of numbers.
struct Search {
    Tensor sorted, values, sorter; ///< in a row; `sorter` may be empty
    Tensor row;                    ///< where the row of each value begins; empty where there is one row
    int64_t n;                     ///< elements of a row
    Location loc;

    Tensor number(int64_t value) const {
        return detail::constant(Scalar(value), ir::DType::I64, detail::type(sorted).device, loc);
    }
    Tensor add(const Tensor &a, const Tensor &b) const { return detail::binary(Op::Add, a, b, loc); }
    Tensor at(const Tensor &x, const Tensor &place) const {
        const Tensor where = row.defined() ? add(place, row) : place;
        return detail::record(Op::Gather, {&x, &where}, {0}, {}, loc);
    }

    /// The first place whose element is not below (right: is above) the value: as many halvings as the
    /// longest search takes.
    Tensor run(bool right) const {
        const Shape &shape = detail::type(values).shape;
        const ir::Device device = detail::type(values).device;
        Tensor begin = detail::record_literal(DType::I64, 0, shape, device, loc);
        if (n == 0)
            return begin;
        Tensor end = detail::broadcast_to(number(n), shape, loc);
        const Tensor last = number(n - 1), one = detail::literal(begin, 1, loc);
        const auto turns = static_cast<int>(std::bit_width(static_cast<uint64_t>(n)));
        for (int i = 0; i < turns; ++i) {
            const Tensor half = detail::binary(Op::Shr, detail::binary(Op::Sub, end, begin, loc), one, loc);
            const Tensor middle = add(begin, half);
            Tensor place = detail::binary(Op::Minimum, middle, last, loc);
            if (sorter.defined())
                place = at(sorter, place);
            const Tensor stops = detail::binary(right ? Op::Gt : Op::Ge, at(sorted, place), values, loc);
            const Tensor open = detail::binary(Op::Lt, begin, end, loc);
            const Tensor above = detail::binary(Op::And, open, detail::unary(Op::Not, stops, loc), loc);
            begin = detail::select(above, add(middle, one), begin, loc);
            end = detail::select(above, end, middle, loc);
        }
        return begin;
    }
};

Tensor found(const Tensor &sorted, const Tensor &values, const Tensor &sorter, bool out_int32, bool right,
             const char *function, Location loc) {
    const std::string name = function;
    const ir::TensorType rows = detail::checked_type(sorted, function, loc);
    const ir::TensorType wanted = detail::checked_type(values, function, loc);
    const int rank = rows.shape.rank();
    if (rank == 0)
        throw ShapeError(name + ": what is searched in is a number; it needs an axis", loc);
    bool fits = rank == 1 || rank == wanted.shape.rank();
    for (int a = 0; fits && a + 1 < rank; ++a)
        fits = rows.shape[a] == wanted.shape[a];
    if (!fits)
        throw ShapeError(name + ": the rows are " + detail::text(rows) + " and the values " +
                             detail::text(wanted) +
                             "; they must equal each other but for the last axis, or "
                             "there must be one row",
                         loc);
    if (rows.dtype != wanted.dtype)
        throw DTypeError(name + ": the rows are " + detail::text(rows) + " and the values " +
                             detail::text(wanted) +
                             "; both must have the same dtype, so convert one with to()",
                         loc);
    if (detail::Access::given(sorter)) {
        const ir::TensorType &order = detail::checked_type(sorter, function, loc);
        if (order.dtype != ir::DType::I64)
            throw DTypeError(name + ": the sorter is " + detail::text(order) + "; it must be i64", loc);
        if (!(order.shape == rows.shape))
            throw ShapeError(name + ": the sorter is " + detail::text(order) +
                                 "; it must have the shape of " + detail::text(rows),
                             loc);
    }
    const int64_t n = rows.shape[rank - 1], count = wanted.numel();
    if (out_int32 && n > INT32_MAX)
        throw DTypeError(name + ": places among " + std::to_string(n) + " elements do not fit i32", loc);
    const auto [in, what, order] = detail::together(loc, sorted.detach(loc), values.detach(loc), sorter);
    const ir::DType dtype = rows.dtype == ir::DType::Bool ? ir::DType::U8 : rows.dtype;
    const auto flat = [&](const Tensor &x) {
        return detail::reshape_to(x, Shape({detail::type(x).numel()}), loc);
    };
    Search search{.sorted = flat(detail::cast(in, dtype, loc)),
                  .values = flat(detail::cast(what, dtype, loc)),
                  .sorter = order.defined() ? flat(order) : Tensor(),
                  .row = {},
                  .n = n,
                  .loc = loc};
    if (rank > 1 && n > 0 && count > 0) {
        const int64_t groups = rows.numel() / n;
        const Tensor starts =
            detail::iota({ir::DType::I64, Shape({groups, 1}), detail::type(in).device}, 0, 0, n, loc);
        search.row = flat(detail::broadcast_to(starts, Shape({groups, count / groups}), loc));
    }
    const Tensor places = detail::reshape_to(search.run(right), wanted.shape, loc);
    return out_int32 ? detail::cast(places, ir::DType::I32, loc) : places;
}

} // namespace

Tensor searchsorted(const Tensor &sorted, const Tensor &values, bool out_int32, bool right,
                    std::optional<std::string_view> side, const Tensor &sorter, Location loc) {
    loc = detail::in<"searchsorted">(loc);
    return found(sorted, values, sorter, out_int32, goes_right(right, side, loc), "searchsorted", loc);
}

Tensor searchsorted(const Tensor &sorted, const Scalar &value, bool out_int32, bool right,
                    std::optional<std::string_view> side, const Tensor &sorter, Location loc) {
    loc = detail::in<"searchsorted">(loc);
    const ir::TensorType type = detail::checked_type(sorted, "searchsorted", loc);
    if (type.shape.rank() > 1)
        throw ShapeError("searchsorted: of a number what is searched in is a row, not " + detail::text(type),
                         loc);
    detail::check_fits(value, type.dtype, "searchsorted", loc);
    return found(sorted, detail::constant(value, type.dtype, type.device, loc), sorter, out_int32,
                 goes_right(right, side, loc), "searchsorted", loc);
}

namespace {

void check_boundaries(const Tensor &boundaries, Location loc) {
    const ir::TensorType &type = detail::checked_type(boundaries, "bucketize", loc);
    if (type.shape.rank() != 1)
        throw ShapeError("bucketize: the boundaries are " + detail::text(type) + "; they must be a row", loc);
}

} // namespace

Tensor bucketize(const Tensor &x, const Tensor &boundaries, bool out_int32, bool right, Location loc) {
    loc = detail::in<"bucketize">(loc);
    detail::checked_type(x, "bucketize", loc);
    check_boundaries(boundaries, loc);
    return found(boundaries, x, {}, out_int32, right, "bucketize", loc);
}

Tensor bucketize(const Scalar &value, const Tensor &boundaries, bool out_int32, bool right, Location loc) {
    loc = detail::in<"bucketize">(loc);
    check_boundaries(boundaries, loc);
    const ir::TensorType type = detail::type(boundaries);
    detail::check_fits(value, type.dtype, "bucketize", loc);
    return found(boundaries, detail::constant(value, type.dtype, type.device, loc), {}, out_int32, right,
                 "bucketize", loc);
}

} // namespace lz
