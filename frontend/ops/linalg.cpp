// Products on the one general contraction.
#include "lazuli/ops/linalg.h"

#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "frontend/ops/contract.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/views.h"

namespace lz {

using detail::Op;
using detail::Shape;

namespace detail {

Tensor contract(const Tensor &a, const Tensor &b, std::span<const int64_t> a_batch,
                std::span<const int64_t> b_batch, std::span<const int64_t> a_sum,
                std::span<const int64_t> b_sum, Location loc) {
    return record(Op::Dot, {&a, &b}, Words().ints(a_batch).ints(b_batch).ints(a_sum).ints(b_sum), loc);
}

} // namespace detail

namespace {

[[noreturn]] void fail_shapes(const char *function, const ir::TensorType &a, const ir::TensorType &b,
                              const std::string &why, Location loc) {
    throw ShapeError(std::string(function) + ": shapes " + ir::to_string(a.shape) + " and " +
                         ir::to_string(b.shape) + " do not fit: " + why,
                     loc);
}

/// Both operands are there, of one dtype that can be multiplied.
void check_dtypes(const char *function, const Tensor &a, const Tensor &b, Location loc) {
    const ir::TensorType &x = detail::checked_type(a, function, loc),
                         &y = detail::checked_type(b, function, loc);
    if (x.dtype != y.dtype)
        throw DTypeError(std::string(function) + ": the operands are " + detail::text(x) + " and " +
                             detail::text(y) + "; both must have the same dtype, so convert one with to()",
                         loc);
    if (x.dtype == ir::DType::Bool)
        throw DTypeError(std::string(function) + ": takes integers or floats, not bool", loc);
}

void check_ranks(const char *function, const Tensor &a, int rank_a, const Tensor &b, int rank_b,
                 Location loc) {
    check_dtypes(function, a, b, loc);
    const ir::TensorType &x = detail::type(a), &y = detail::type(b);
    if (x.shape.rank() != rank_a || y.shape.rank() != rank_b)
        fail_shapes(function, x, y,
                    "it takes " + std::to_string(rank_a) + " and " + std::to_string(rank_b) + " axes", loc);
}

/// Operands of rank 2 and more with equal batch extents.
Tensor batched(const Tensor &a, const Tensor &b, Location loc) {
    const int rank = detail::type(a).shape.rank();
    int64_t batch[ir::kMaxRank];
    for (int i = 0; i < rank - 2; ++i)
        batch[i] = i;
    const std::span<const int64_t> axes(batch, static_cast<size_t>(rank - 2));
    const int64_t a_sum[] = {rank - 1}, b_sum[] = {rank - 2};
    return detail::contract(a, b, axes, axes, a_sum, b_sum, loc);
}

/// x with the batch extents of `batch` before its last two.
Tensor with_batch(const Tensor &x, const Shape &batch, Location loc) {
    const Shape &shape = detail::type(x).shape;
    Shape full = batch;
    full.push_back(shape[shape.rank() - 2]);
    full.push_back(shape[shape.rank() - 1]);
    return detail::broadcast_to(x, full, loc);
}

Tensor product(const char *function, const Tensor &a, const Tensor &b, Location loc) {
    check_dtypes(function, a, b, loc);
    const ir::TensorType &x = detail::type(a), &y = detail::type(b);
    const int rank_a = x.shape.rank(), rank_b = y.shape.rank();
    if (rank_a == 0 || rank_b == 0)
        fail_shapes(function, x, y, "a product takes at least one axis on both sides (use * for numbers)",
                    loc);
    const int a_last = rank_a - 1, b_first = rank_b == 1 ? 0 : rank_b - 2;
    if (x.shape[a_last] != y.shape[b_first])
        fail_shapes(function, x, y,
                    "axis " + std::to_string(a_last) + " of the left has " + std::to_string(x.shape[a_last]) +
                        " elements and axis " + std::to_string(b_first) + " of the right " +
                        std::to_string(y.shape[b_first]),
                    loc);
    const int64_t a_sum[] = {a_last}, b_sum[] = {b_first};
    // A vector or a matrix on the right, a vector on the left: all other axes are free.
    if (rank_b <= 2 || rank_a == 1)
        return detail::contract(a, b, {}, {}, a_sum, b_sum, loc);

    const Shape a_batch(x.shape.extents().first(static_cast<size_t>(rank_a - 2)));
    const Shape b_batch(y.shape.extents().first(static_cast<size_t>(rank_b - 2)));
    Shape batch;
    int axis = 0;
    if (!ir::broadcast_shapes(a_batch, b_batch, batch, axis))
        fail_shapes(function, x, y,
                    "the batch extents " + ir::to_string(a_batch) + " and " + ir::to_string(b_batch) +
                        " do not broadcast",
                    loc);
    return batched(with_batch(a, batch, loc), with_batch(b, batch, loc), loc);
}

} // namespace

Tensor matmul(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"matmul">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"matmul">(
            loc, [&](const Tensor &x, const Tensor &y) { return matmul(x, y, loc); }, a, b);
    return product("matmul", a, b, loc);
}
Tensor mm(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"mm">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"mm">(
            loc, [&](const Tensor &x, const Tensor &y) { return mm(x, y, loc); }, a, b);
    check_ranks("mm", a, 2, b, 2, loc);
    return product("mm", a, b, loc);
}
Tensor mv(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"mv">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"mv">(
            loc, [&](const Tensor &x, const Tensor &y) { return mv(x, y, loc); }, a, b);
    check_ranks("mv", a, 2, b, 1, loc);
    return product("mv", a, b, loc);
}
Tensor dot(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"dot">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"dot">(
            loc, [&](const Tensor &x, const Tensor &y) { return dot(x, y, loc); }, a, b);
    check_ranks("dot", a, 1, b, 1, loc);
    return product("dot", a, b, loc);
}
Tensor outer(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"outer">(loc);
    if (detail::checked_type(a, "outer", loc).shape.rank() != 1 ||
        detail::checked_type(b, "outer", loc).shape.rank() != 1)
        fail_shapes("outer", detail::type(a), detail::type(b), "it takes two vectors", loc);
    return mul({unsqueeze(a, 1, loc), loc}, {b, loc}, loc);
}
Tensor bmm(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"bmm">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"bmm">(
            loc, [&](const Tensor &x, const Tensor &y) { return bmm(x, y, loc); }, a, b);
    check_ranks("bmm", a, 3, b, 3, loc);
    const ir::TensorType &x = detail::type(a), &y = detail::type(b);
    if (x.shape[0] != y.shape[0])
        fail_shapes("bmm", x, y,
                    "the batches have " + std::to_string(x.shape[0]) + " and " + std::to_string(y.shape[0]) +
                        " matrices",
                    loc);
    return product("bmm", a, b, loc);
}

Tensor linear(const Tensor &x, const Tensor &weight, const Tensor &bias, Location loc) {
    loc = detail::in<"linear">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"linear">(
            loc, [&](const Tensor &v, const Tensor &w, const Tensor &b) { return linear(v, w, b, loc); }, x,
            weight, bias);
    check_dtypes("linear", x, weight, loc);
    const ir::TensorType &input = detail::type(x), &w = detail::type(weight);
    const int rank = input.shape.rank();
    if (w.shape.rank() < 1 || w.shape.rank() > 2 || rank == 0)
        fail_shapes("linear", input, w, "the weight must be [out, in] or [in] and the input have an axis",
                    loc);
    const int64_t x_sum[] = {rank - 1}, w_sum[] = {w.shape.rank() - 1};
    if (input.shape[rank - 1] != w.shape[w.shape.rank() - 1])
        fail_shapes("linear", input, w,
                    "the input has " + std::to_string(input.shape[rank - 1]) +
                        " features and the weight takes " + std::to_string(w.shape[w.shape.rank() - 1]),
                    loc);
    Tensor y = detail::contract(x, weight, {}, {}, x_sum, w_sum, loc);
    if (!detail::Access::given(bias))
        return y;
    check_dtypes("linear", x, bias, loc);
    return add({y, loc}, {bias, loc}, loc);
}

Tensor addmm(const Tensor &x, const Tensor &a, const Tensor &b, const Scalar &beta, const Scalar &alpha,
             Location loc) {
    loc = detail::in<"addmm">(loc);
    detail::checked_type(x, "addmm", loc);
    const Tensor product = mm(a, b, loc);
    const auto scaled = [&](const Tensor &v, const Scalar &number) {
        return detail::double_of(number) == 1 ? v : mul(v, Operand(number, loc), loc);
    };
    const Shape &shape = detail::type(product).shape;
    Shape joined;
    int axis = 0;
    if (!ir::broadcast_shapes(shape, detail::type(x).shape, joined, axis) || !(joined == shape))
        throw ShapeError("addmm: shape " + ir::to_string(detail::type(x).shape) +
                             " does not broadcast to that of the product, " + ir::to_string(shape),
                         loc);
    if (detail::double_of(beta) == 0)
        return scaled(product, alpha);
    return add(scaled(x, beta), scaled(product, alpha), loc);
}

} // namespace lz
