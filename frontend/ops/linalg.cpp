// Products on the one general contraction.
#include "lazuli/ops/linalg.h"

#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "frontend/ops/contract.h"
#include "frontend/record/convert.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/views.h"

#include <algorithm>

namespace lz {

using detail::Op;
using detail::Shape;

namespace detail {

Tensor contract(const Tensor &a, const Tensor &b, std::span<const int64_t> a_batch,
                std::span<const int64_t> b_batch, std::span<const int64_t> a_sum,
                std::span<const int64_t> b_sum, Location loc, std::optional<ir::DType> dtype) {
    const auto word = static_cast<int64_t>(dtype.value_or(type(a).dtype));
    return record(Op::Dot, {&a, &b}, Words().ints(a_batch).ints(b_batch).ints(a_sum).ints(b_sum).word(word),
                  loc);
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

/// Two batches of equally many matrices.
void check_batches(const Tensor &a, const Tensor &b, Location loc) {
    check_ranks("bmm", a, 3, b, 3, loc);
    const ir::TensorType &x = detail::type(a), &y = detail::type(b);
    if (x.shape[0] != y.shape[0])
        fail_shapes("bmm", x, y,
                    "the batches have " + std::to_string(x.shape[0]) + " and " + std::to_string(y.shape[0]) +
                        " matrices",
                    loc);
}

/// Operands of rank 2 and more with equal batch extents.
Tensor batched(const Tensor &a, const Tensor &b, std::optional<ir::DType> dtype, Location loc) {
    const int rank = detail::type(a).shape.rank();
    int64_t batch[ir::kMaxRank];
    for (int i = 0; i < rank - 2; ++i)
        batch[i] = i;
    const std::span<const int64_t> axes(batch, static_cast<size_t>(rank - 2));
    const int64_t a_sum[] = {rank - 1}, b_sum[] = {rank - 2};
    return detail::contract(a, b, axes, axes, a_sum, b_sum, loc, dtype);
}

/// x with the batch extents of `batch` before its last two.
Tensor with_batch(const Tensor &x, const Shape &batch, Location loc) {
    const Shape &shape = detail::type(x).shape;
    Shape full = batch;
    full.push_back(shape[shape.rank() - 2]);
    full.push_back(shape[shape.rank() - 1]);
    return detail::broadcast_to(x, full, loc);
}

Tensor product(const char *function, const Tensor &a, const Tensor &b, Location loc,
               std::optional<ir::DType> dtype = {}) {
    check_dtypes(function, a, b, loc);
    const ir::TensorType &x = detail::type(a), &y = detail::type(b);
    if (dtype && !ir::can_hold_products(*dtype, x.dtype))
        throw DTypeError(
            std::string(function) + ": out_dtype is " + std::string(ir::name(*dtype)) +
                " and the operands are " + detail::text(x) + " and " + detail::text(y) +
                "; products are summed in the operands' dtype, integers in a wider one as well, and "
                "f16 and bf16 in f32",
            loc);
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
        return detail::contract(a, b, {}, {}, a_sum, b_sum, loc, dtype);

    const Shape a_batch(x.shape.extents().first(static_cast<size_t>(rank_a - 2)));
    const Shape b_batch(y.shape.extents().first(static_cast<size_t>(rank_b - 2)));
    Shape batch;
    int axis = 0;
    if (!ir::broadcast_shapes(a_batch, b_batch, batch, axis))
        fail_shapes(function, x, y,
                    "the batch extents " + ir::to_string(a_batch) + " and " + ir::to_string(b_batch) +
                        " do not broadcast",
                    loc);
    return batched(with_batch(a, batch, loc), with_batch(b, batch, loc), dtype, loc);
}

} // namespace

Tensor matmul(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"matmul">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"matmul">(
            loc, [&](const Tensor &x, const Tensor &y) { return matmul(x, y, loc); }, a, b);
    return product("matmul", a, b, loc);
}
Tensor matmul(const Tensor &a, const Tensor &b, DType out_dtype, Location loc) {
    loc = detail::in<"matmul">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"matmul">(
            loc, [&](const Tensor &x, const Tensor &y) { return matmul(x, y, out_dtype, loc); }, a, b);
    return product("matmul", a, b, loc, detail::to_ir(out_dtype));
}
Tensor mm(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"mm">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"mm">(
            loc, [&](const Tensor &x, const Tensor &y) { return mm(x, y, loc); }, a, b);
    check_ranks("mm", a, 2, b, 2, loc);
    return product("mm", a, b, loc);
}
Tensor mm(const Tensor &a, const Tensor &b, DType out_dtype, Location loc) {
    loc = detail::in<"mm">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"mm">(
            loc, [&](const Tensor &x, const Tensor &y) { return mm(x, y, out_dtype, loc); }, a, b);
    check_ranks("mm", a, 2, b, 2, loc);
    return product("mm", a, b, loc, detail::to_ir(out_dtype));
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
    check_batches(a, b, loc);
    return product("bmm", a, b, loc);
}
Tensor bmm(const Tensor &a, const Tensor &b, DType out_dtype, Location loc) {
    loc = detail::in<"bmm">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"bmm">(
            loc, [&](const Tensor &x, const Tensor &y) { return bmm(x, y, out_dtype, loc); }, a, b);
    check_batches(a, b, loc);
    return product("bmm", a, b, loc, detail::to_ir(out_dtype));
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

namespace {

/// beta * x + alpha * product, for an x that broadcasts to it. With a beta of 0 NaN of x does not count.
Tensor added(const char *function, const Tensor &x, const Tensor &product, const Scalar &beta,
             const Scalar &alpha, Location loc) {
    const ir::TensorType &type = detail::type(product);
    const auto scaled = [&](const Tensor &v, const Scalar &number, const char *name) {
        if (number.is_float() && !ir::is_float(type.dtype))
            throw DTypeError(std::string(function) + ": " + name + " is " +
                                 std::to_string(number.to_double()) + " and the product " +
                                 detail::text(type) + "; of integers it must be an integer",
                             loc);
        return detail::double_of(number) == 1 ? v : mul(v, Operand(number, loc), loc);
    };
    Shape joined;
    int axis = 0;
    if (!ir::broadcast_shapes(type.shape, detail::type(x).shape, joined, axis) || !(joined == type.shape))
        throw ShapeError(std::string(function) + ": shape " + ir::to_string(detail::type(x).shape) +
                             " does not broadcast to that of the product, " + ir::to_string(type.shape),
                         loc);
    if (detail::double_of(beta) == 0)
        return scaled(product, alpha, "alpha");
    return add(scaled(x, beta, "beta"), scaled(product, alpha, "alpha"), loc);
}

Tensor sum_of_batch(const Tensor &products, Location loc) {
    return sum(products, 0, false, detail::from_ir(detail::type(products).dtype), loc);
}

} // namespace

// x goes with the matrices under autocast.
#define LZ_ADDED(name, product_of)                                                                           \
    Tensor name(const Tensor &x, const Tensor &a, const Tensor &b, const Scalar &beta, const Scalar &alpha,  \
                Location loc) {                                                                              \
        loc = detail::in<#name>(loc);                                                                        \
        if (detail::autocasting()) [[unlikely]]                                                              \
            return detail::autocast<#name>(                                                                  \
                loc,                                                                                         \
                [&](const Tensor &v, const Tensor &c, const Tensor &d) {                                     \
                    return name(v, c, d, beta, alpha, loc);                                                  \
                },                                                                                           \
                x, a, b);                                                                                    \
        detail::checked_type(x, #name, loc);                                                                 \
        return added(#name, x, product_of, beta, alpha, loc);                                                \
    }                                                                                                        \
    Tensor &Tensor::name##_(const Tensor &a, const Tensor &b, const Scalar &beta, const Scalar &alpha,       \
                            Location loc) & {                                                                \
        loc = detail::in<#name "_">(loc);                                                                    \
        return detail::assign(*this, lz::name(*this, a, b, beta, alpha, loc), #name "_", loc);               \
    }
LZ_ADDED(addmm, mm(a, b, loc))
LZ_ADDED(addmv, mv(a, b, loc))
LZ_ADDED(addr, outer(a, b, loc))
LZ_ADDED(baddbmm, bmm(a, b, loc))
LZ_ADDED(addbmm, sum_of_batch(bmm(a, b, loc), loc))
#undef LZ_ADDED

Tensor kron(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"kron">(loc);
    const Shape x = detail::checked_type(a, "kron", loc).shape,
                y = detail::checked_type(b, "kron", loc).shape;
    const int rank = std::max(x.rank(), y.rank());
    const auto extent = [&](const Shape &shape, int axis) {
        const int missing = rank - shape.rank();
        return axis < missing ? 1 : shape[axis - missing];
    };
    std::vector<int64_t> result;
    for (int i = 0; i < rank; ++i) {
        int64_t both = 0;
        if (__builtin_mul_overflow(extent(x, i), extent(y, i), &both))
            fail_shapes("kron", detail::type(a), detail::type(b), "there is no memory for their product",
                        loc);
        result.push_back(both);
    }
    detail::checked_shape(result, detail::type(a).dtype, "kron", loc);
    if (2 * rank <= ir::kMaxRank) { // an axis of both beside each other
        std::vector<int64_t> outer, inner;
        for (int i = 0; i < rank; ++i) {
            outer.insert(outer.end(), {extent(x, i), 1});
            inner.insert(inner.end(), {1, extent(y, i)});
        }
        return reshape(mul(reshape(a, outer, loc), reshape(b, inner, loc), loc), result, loc);
    }
    std::vector<int64_t> of_x, of_y;
    for (int i = 0; i < rank; ++i) {
        of_x.push_back(extent(x, i));
        of_y.push_back(extent(y, i));
    }
    Tensor wide = reshape(a, of_x, loc);
    for (int i = 0; i < rank; ++i)
        wide = repeat_interleave(wide, of_y[static_cast<size_t>(i)], i, loc);
    return mul(wide, repeat(reshape(b, of_y, loc), of_x, loc), loc);
}

Tensor tensordot(const Tensor &given_a, const Tensor &given_b, const Sizes &axes_a, const Sizes &axes_b,
                 Location loc) {
    loc = detail::in<"tensordot">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"tensordot">(
            loc, [&](const Tensor &x, const Tensor &y) { return tensordot(x, y, axes_a, axes_b, loc); },
            given_a, given_b);
    check_dtypes("tensordot", given_a, given_b, loc);
    const ir::TensorType x = detail::type(given_a), y = detail::type(given_b);
    if (axes_a.size() != axes_b.size())
        fail_shapes("tensordot", x, y,
                    std::to_string(axes_a.size()) + " axes of the left and " + std::to_string(axes_b.size()) +
                        " of the right are named",
                    loc);
    std::vector<std::pair<int64_t, int64_t>> pairs;
    Tensor a = given_a, b = given_b;
    for (size_t k = 0; k < axes_a.size(); ++k) {
        const int i = detail::normal_axis(axes_a[k], x.shape.rank(), "tensordot", x, loc);
        const int j = detail::normal_axis(axes_b[k], y.shape.rank(), "tensordot", y, loc);
        for (const auto &[before_i, before_j] : pairs)
            if (before_i == i || before_j == j)
                throw IndexError("tensordot: an axis stands twice in " + detail::text(axes_a.span()) +
                                     " or " + detail::text(axes_b.span()),
                                 loc);
        const int64_t of_a = x.shape[i], of_b = y.shape[j];
        if (of_a != of_b && of_a != 1 && of_b != 1)
            fail_shapes("tensordot", x, y,
                        "axis " + std::to_string(i) + " of the left has " + std::to_string(of_a) +
                            " elements and axis " + std::to_string(j) + " of the right " +
                            std::to_string(of_b),
                        loc);
        // One element meets all of the other's: their sum.
        const auto summed = [&](const Tensor &v, int64_t axis) {
            return sum(v, axis, true, detail::from_ir(x.dtype), loc);
        };
        if (of_a != of_b)
            (of_a == 1 ? b : a) = of_a == 1 ? summed(b, j) : summed(a, i);
        pairs.emplace_back(i, j);
    }
    std::ranges::sort(pairs);
    std::vector<int64_t> a_sum, b_sum;
    for (const auto &[i, j] : pairs) {
        a_sum.push_back(i);
        b_sum.push_back(j);
    }
    if (x.shape.rank() + y.shape.rank() - 2 * static_cast<int>(pairs.size()) > ir::kMaxRank)
        fail_shapes("tensordot", x, y,
                    "the result would have more than " + std::to_string(ir::kMaxRank) + " axes", loc);
    return detail::contract(a, b, {}, {}, a_sum, b_sum, loc);
}

Tensor tensordot(const Tensor &a, const Tensor &b, int64_t axes, Location loc) {
    loc = detail::in<"tensordot">(loc);
    const ir::TensorType x = detail::checked_type(a, "tensordot", loc),
                         y = detail::checked_type(b, "tensordot", loc);
    if (axes < 0 || axes > x.shape.rank() || axes > y.shape.rank())
        fail_shapes("tensordot", x, y, "they do not both have " + std::to_string(axes) + " axes", loc);
    std::vector<int64_t> of_a, of_b;
    for (int64_t k = 0; k < axes; ++k) {
        of_a.push_back(x.shape.rank() - axes + k);
        of_b.push_back(k);
    }
    return tensordot(a, b, of_a, of_b, loc);
}

} // namespace lz
