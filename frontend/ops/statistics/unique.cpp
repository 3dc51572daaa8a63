// Distinct values: elements are put in order, and a group begins where one differs from the one before.
#include "frontend/ops/compose.h"
#include "lazuli/ops/creation.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/statistics.h"
#include "lazuli/ops/views.h"

namespace lz {

using detail::Op;
using detail::Shape;

namespace {

/// 0, 1, 2, ...
Tensor positions(int64_t count, ir::Device device, Location loc) {
    return detail::iota({ir::DType::I64, Shape({count}), device}, 0, 0, 1, loc);
}
Tensor zeros_of(const Shape &shape, ir::Device device, Location loc) {
    return detail::record_literal(DType::I64, 0, shape, device, loc);
}

/// bool, along axis 0: whether each position differs from the one before; the first one does. All of a row
/// counts.
Tensor begins(const Tensor &rows, Location loc) {
    const ir::TensorType type = detail::type(rows);
    const int64_t n = type.shape[0];
    const Tensor after = detail::cut(rows, 0, 1, n - 1, 1, loc),
                 before = detail::cut(rows, 0, 0, n - 1, 1, loc);
    const Tensor differs = detail::binary(Op::Ne, after, before, loc);
    Shape first = type.shape;
    first[0] = 1;
    const Tensor parts[] = {detail::record_literal(DType::Bool, 1, first, type.device, loc), differs};
    return cat(parts, 0, loc);
}

/// For each position of axis 0 which group it is in.
Tensor groups(const Tensor &begins, Location loc) {
    const Tensor so_far = cumsum(begins, 0, std::nullopt, loc);
    return detail::binary(Op::Sub, so_far, detail::literal(so_far, 1, loc), loc);
}

/// Along axis 0 of [n, m]: for each element how many smaller values its column has. Equal elements have equal
/// ranks.
Tensor ranks(const Tensor &columns, Location loc) {
    const ValuesIndices sorted = sort(columns, 0, false, loc);
    const Tensor group = groups(begins(sorted.values, loc), loc);
    const ir::TensorType type = detail::type(group);
    return scatter(zeros_of(type.shape, type.device, loc), 0, sorted.indices, Operand(group, loc), loc);
}

/// The ranks of whole rows of [n, m]. Two columns of ranks are one of pairs, whose ranks are as many fewer
/// columns: log2(m) sorts.
Tensor row_ranks(const Tensor &rows, Location loc) {
    Tensor rank = ranks(rows, loc);
    const int64_t n = detail::type(rank).shape[0];
    while (detail::type(rank).shape[1] > 1) {
        if (detail::type(rank).shape[1] % 2 != 0)
            rank = pad(rank, {0, 1}, 0, loc);
        const int64_t pairs = detail::type(rank).shape[1] / 2;
        const Tensor count = detail::constant(Scalar(n), ir::DType::I64, detail::type(rank).device, loc);
        const Tensor high = detail::binary(Op::Mul, detail::cut(rank, 1, 0, pairs, 2, loc), count, loc);
        rank = ranks(detail::binary(Op::Add, high, detail::cut(rank, 1, 1, pairs, 2, loc), loc), loc);
    }
    return detail::reshape_to(rank, Shape({n}), loc);
}

/// The groups of positions in an order: where each begins, of each position which one it is in, and how many
/// are in each.
struct Groups {
    Tensor starts, inverse, counts;
};

/// `begins` is that of the positions `order` (empty: of all, as they stand).
Groups grouped(const Tensor &begins, const Tensor &order, bool with_inverse, bool with_counts, Location loc) {
    const ir::TensorType type = detail::type(begins);
    const int64_t n = type.shape[0];
    const Tensor group = groups(begins, loc);
    const int64_t count = detail::cut(group, 0, n - 1, 1, 1, loc).item<int64_t>(loc) + 1;
    // One position of each group writes its place; the others write one past them all.
    const Tensor behind = detail::constant(Scalar(count), ir::DType::I64, type.device, loc);
    const Tensor places = zeros_of(Shape({count + 1}), type.device, loc);
    const Tensor at = detail::select(begins, group, behind, loc);
    const Tensor all = scatter(places, 0, at, Operand(positions(n, type.device, loc), loc), loc);
    Groups out;
    out.starts = detail::cut(all, 0, 0, count, 1, loc);
    if (with_inverse)
        out.inverse = order.defined() ? scatter(zeros_of(Shape({n}), type.device, loc), 0, order,
                                                Operand(group, loc), loc)
                                      : group;
    if (with_counts) {
        const Tensor last = detail::broadcast_to(
            detail::constant(Scalar(n), ir::DType::I64, type.device, loc), Shape({1}), loc);
        const Tensor ends[] = {detail::cut(out.starts, 0, 1, count - 1, 1, loc), last};
        out.counts = detail::binary(Op::Sub, cat(ends, 0, loc), out.starts, loc);
    }
    return out;
}

using Three = std::tuple<Tensor, Tensor, Tensor>;

Three of_elements(const Tensor &x, bool consecutive, bool with_inverse, bool with_counts, Location loc) {
    const ir::TensorType type = detail::type(x);
    const int64_t n = type.numel();
    const Tensor none = zeros_of(Shape({0}), type.device, loc);
    const Tensor row = detail::reshape_to(x, Shape({n}), loc);
    if (n == 0)
        return {row, with_inverse ? zeros_of(type.shape, type.device, loc) : none, none};
    Tensor values = row, order;
    if (!consecutive)
        std::tie(values, order) = sort(row, 0, false, loc);
    const Groups found = grouped(begins(values, loc), order, with_inverse, with_counts, loc);
    return {index_select(values, 0, found.starts, loc),
            with_inverse ? detail::reshape_to(found.inverse, type.shape, loc) : none,
            with_counts ? found.counts : none};
}

Three of_slices(const Tensor &x, int axis, bool consecutive, bool with_inverse, bool with_counts,
                const char *function, Location loc) {
    const ir::TensorType type = detail::type(x);
    const int64_t n = type.shape[axis];
    const Tensor none = zeros_of(Shape({0}), type.device, loc);
    if (n == 0)
        return {x, none, none};
    const int64_t m = type.numel() / n;
    if (m == 0)
        throw ShapeError(std::string(function) + ": the slices of axis " + std::to_string(axis) + " of " +
                             detail::text(type) + " have no elements",
                         loc);
    const Tensor rows = detail::reshape_to(movedim(x, axis, 0, loc), Shape({n, m}), loc);
    Tensor order, first;
    if (consecutive) {
        first = any(begins(rows, loc), 1, false, loc);
    } else {
        const ValuesIndices sorted = sort(row_ranks(rows, loc), 0, false, loc);
        order = sorted.indices;
        first = begins(sorted.values, loc);
    }
    const Groups found = grouped(first, order, with_inverse, with_counts, loc);
    const Tensor chosen = order.defined() ? index_select(order, 0, found.starts, loc) : found.starts;
    return {index_select(x, axis, chosen, loc), with_inverse ? found.inverse : none,
            with_counts ? found.counts : none};
}

Three distinct(const Tensor &given, std::optional<int64_t> axis, bool consecutive, bool with_inverse,
               bool with_counts, const char *function, Location loc) {
    const ir::TensorType type = detail::checked_type(given, function, loc);
    const Tensor x = given.detach(loc);
    if (!axis || detail::is_axis_of_number(*axis, type.shape.rank()))
        return of_elements(x, consecutive, with_inverse, with_counts, loc);
    const int a = detail::normal_axis(*axis, type.shape.rank(), function, type, loc);
    return of_slices(x, a, consecutive, with_inverse, with_counts, function, loc);
}

} // namespace

std::tuple<Tensor, Tensor, Tensor> unique(const Tensor &x, bool /*sorted*/, bool return_inverse,
                                          bool return_counts, std::optional<int64_t> axis, Location loc) {
    loc = detail::in<"unique">(loc);
    return distinct(x, axis, false, return_inverse, return_counts, "unique", loc);
}

std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor &x, bool return_inverse,
                                                      bool return_counts, std::optional<int64_t> axis,
                                                      Location loc) {
    loc = detail::in<"unique_consecutive">(loc);
    return distinct(x, axis, true, return_inverse, return_counts, "unique_consecutive", loc);
}

} // namespace lz
