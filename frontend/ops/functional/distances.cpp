// Distances of all rows of one matrix to all rows of another.
#include "frontend/autograd/composites.h"
#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "frontend/ops/contract.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/linalg.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/views.h"

#include <numeric>

namespace lz {

using detail::Op;
using detail::Shape;

namespace {

/// As PyTorch: from how many rows on products of matrices are used where nobody says otherwise.
constexpr int64_t kFewRows = 25;

/// |a|^2 + |b|^2 - 2 a b, of equal batch axes.
Tensor by_products(const Tensor &a, const Tensor &b, Location loc) {
    const ir::DType dtype = detail::type(a).dtype, work = detail::working_dtype(dtype);
    const Tensor x = detail::cast(a, work, loc), y = detail::cast(b, work, loc);
    const int64_t last = detail::type(x).shape.rank() - 1;
    std::vector<int64_t> batch(static_cast<size_t>(last - 1));
    std::iota(batch.begin(), batch.end(), 0);
    const Tensor products = detail::contract(x, y, batch, batch, {&last, 1}, {&last, 1}, loc);
    const auto squares = [&](const Tensor &v) {
        return detail::reduce(Op::ReduceSum, detail::binary(Op::Mul, v, v, loc), {&last, 1}, true, loc);
    };
    const Tensor sums = detail::binary(Op::Add, squares(x), transpose(squares(y), -1, -2, loc), loc);
    const Tensor twice = detail::binary(Op::Mul, products, detail::literal(products, 2, loc), loc);
    const Tensor square = detail::binary(Op::Maximum, detail::binary(Op::Sub, sums, twice, loc),
                                         detail::literal(sums, 0, loc), loc);
    return detail::cast(detail::unary(Op::Sqrt, square, loc), dtype, loc);
}

} // namespace

Tensor cdist(const Tensor &given_a, const Tensor &given_b, double p, std::optional<int64_t> compute_mode,
             Location loc) {
    loc = detail::in<"cdist">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"cdist">(
            loc, [&](const Tensor &x, const Tensor &y) { return cdist(x, y, p, compute_mode, loc); }, given_a,
            given_b);
    const ir::TensorType x = detail::checked_type(given_a, "cdist", loc),
                         y = detail::checked_type(given_b, "cdist", loc);
    const std::string both = detail::text(x) + " and " + detail::text(y);
    if (!ir::is_float(x.dtype) || x.dtype != y.dtype)
        throw DTypeError("cdist: the points are " + both + "; both must be of floats of one dtype", loc);
    if (!(p >= 0))
        throw IndexError("cdist: there is no norm with p = " + std::to_string(p) + "; p is 0 or more", loc);
    const int64_t mode = compute_mode.value_or(0);
    if (mode < 0 || mode > 2)
        throw IndexError("cdist: the mode is " + std::to_string(mode) + "; it is 0, 1 or 2", loc);
    const int rank_x = x.shape.rank(), rank_y = y.shape.rank();
    if (rank_x < 2 || rank_y < 2 || x.shape[rank_x - 1] != y.shape[rank_y - 1])
        throw ShapeError("cdist: the points are " + both +
                             "; both must be matrices, or batches of them, with equally many columns",
                         loc);
    const auto batch_of = [](const ir::TensorType &type) {
        return Shape(type.shape.extents().first(static_cast<size_t>(type.shape.rank() - 2)));
    };
    Shape batch;
    int axis = 0;
    if (!ir::broadcast_shapes(batch_of(x), batch_of(y), batch, axis))
        throw ShapeError("cdist: the batch extents of " + both + " do not broadcast", loc);
    if (batch.rank() + 3 > ir::kMaxRank)
        throw ShapeError("cdist: the points are " + both + "; at most " + std::to_string(ir::kMaxRank - 1) +
                             " axes are possible",
                         loc);
    const auto operands = detail::together(loc, given_a, given_b);
    const auto spread = [&](const Tensor &v) {
        const Shape &shape = detail::type(v).shape;
        Shape full = batch;
        full.push_back(shape[shape.rank() - 2]);
        full.push_back(shape[shape.rank() - 1]);
        return detail::broadcast_to(v, full, loc);
    };
    const Tensor a = spread(operands[0]), b = spread(operands[1]);
    const int64_t rows_a = x.shape[rank_x - 2], rows_b = y.shape[rank_y - 2], columns = x.shape[rank_x - 1];
    if (columns == 0) { // no coordinate in which they differ
        Shape shape = batch;
        shape.push_back(rows_a);
        shape.push_back(rows_b);
        return detail::record_literal(detail::from_ir(x.dtype), 0, shape, detail::type(a).device, loc);
    }
    if (p == 2 && (mode == 1 || (mode == 0 && (rows_a > kFewRows || rows_b > kFewRows))))
        return detail::composite(detail::kEuclideanRule, {&a, &b}, {}, loc,
                                 [&] { return by_products(a, b, loc); });
    return norm(sub(unsqueeze(a, -2, loc), unsqueeze(b, -3, loc), loc), p, -1, false, loc);
}

} // namespace lz
