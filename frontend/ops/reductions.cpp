// Reductions and scans.
#include "lazuli/ops/reductions.h"

#include "frontend/autograd/composites.h"
#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/views.h"

#include <cmath>

namespace lz {

using detail::Axes;
using detail::Op;

namespace {

/// Sums and products of bool and integers are i64.
ir::DType sum_dtype(const ir::TensorType &type, std::optional<DType> dtype) {
    if (dtype)
        return detail::to_ir(*dtype);
    return ir::is_float(type.dtype) ? type.dtype : ir::DType::I64;
}

Tensor truth(Op op, const Tensor &x, const Sizes &axes, bool keepdim, const char *function, Location loc) {
    const ir::TensorType &type = detail::checked_type(x, function, loc);
    const Axes reduced = detail::normal_axes(axes, function, type, loc);
    const Tensor bits = detail::cast(x, ir::DType::Bool, loc);
    if (detail::count_of(type.shape, reduced) != 0)
        return detail::reduce(op, bits, reduced.span(), keepdim, loc);
    // Of nothing: any is false, all is true. Sums have an identity, extremes do not.
    const Tensor none =
        detail::reduce(Op::ReduceSum, detail::cast(bits, ir::DType::I32, loc), reduced.span(), keepdim, loc);
    const Tensor zero = detail::literal(none, 0, loc);
    return detail::binary(op == Op::ReduceMax ? Op::Ne : Op::Eq, none, zero, loc);
}

/// A sum of bool, which is asked for by dtype, is whether any is true, and a product whether all are.
Tensor sum_like(Op op, const Tensor &x, const Sizes &axes, bool keepdim, std::optional<DType> dtype,
                const char *function, Location loc) {
    if (dtype == DType::Bool)
        return truth(op == Op::ReduceSum ? Op::ReduceMax : Op::ReduceMin, x, axes, keepdim, function, loc);
    const ir::TensorType &type = detail::checked_type(x, function, loc);
    const Axes reduced = detail::normal_axes(axes, function, type, loc);
    return detail::reduce(op, detail::cast(x, sum_dtype(type, dtype), loc), reduced.span(), keepdim, loc);
}

/// The number of reduced elements as a number of x's dtype: it is the user's, for it changes with the sizes.
Tensor count(const Tensor &x, const Axes &axes, int64_t less, Location loc) {
    const int64_t n = std::max<int64_t>(detail::count_of(detail::type(x).shape, axes) - less, 0);
    return detail::constant(x, static_cast<double>(n), loc);
}

Tensor mean_of(const Tensor &x, const Axes &axes, bool keepdim, Location loc) {
    return detail::binary(Op::Div, detail::reduce(Op::ReduceSum, x, axes.span(), keepdim, loc),
                          count(x, axes, 0, loc), loc);
}

void check_float(const ir::TensorType &type, const char *function, Location loc) {
    if (!ir::is_float(type.dtype))
        throw DTypeError(std::string(function) + ": takes floats, not " + detail::text(type) +
                             "; convert it first, for example with to(f32)",
                         loc);
}

/// What the rules of reductions have to know: a number of their own, whether the axes are kept, and the axes.
class Numbers {
public:
    Numbers(std::optional<int64_t> own, bool keepdim, const Axes &axes) {
        if (own)
            words_[count_++] = *own;
        words_[count_++] = keepdim;
        for (const int64_t axis : axes.span())
            words_[count_++] = axis;
    }
    operator std::span<const int64_t>() const { return {words_, count_}; } // NOLINT: converts

private:
    int64_t words_[2 + ir::kMaxRank];
    size_t count_ = 0;
};

Tensor variance(const Tensor &x, const Sizes &axes, int64_t correction, bool keepdim, bool root,
                const char *function, Location loc) {
    const ir::TensorType &type = detail::checked_type(x, function, loc);
    check_float(type, function, loc);
    const Axes reduced = detail::normal_axes(axes, function, type, loc);
    const detail::CompositeRule &rule = root ? detail::kStdRule : detail::kVarRule;
    return detail::composite(rule, {&x}, Numbers(correction, keepdim, reduced), loc, [&] {
        return detail::in_working_dtype(x, function, loc, [&](const Tensor &v) {
            const Tensor off = detail::binary(Op::Sub, v, mean_of(v, reduced, true, loc), loc);
            const Tensor squares = detail::reduce(Op::ReduceSum, detail::binary(Op::Mul, off, off, loc),
                                                  reduced.span(), keepdim, loc);
            const Tensor result = detail::binary(Op::Div, squares, count(v, reduced, correction, loc), loc);
            return root ? detail::unary(Op::Sqrt, result, loc) : result;
        });
    });
}

Tensor extreme(Op op, const Tensor &x, const Sizes &axes, bool keepdim, const char *function, Location loc) {
    const ir::TensorType &type = detail::checked_type(x, function, loc);
    const Axes reduced = detail::normal_axes(axes, function, type, loc);
    for (const int64_t axis : reduced.span())
        if (type.shape[static_cast<int>(axis)] == 0)
            throw ShapeError(std::string(function) + ": axis " + std::to_string(axis) + " of " +
                                 detail::text(type) + " has no elements, of which there is no extreme",
                             loc);
    return detail::reduce(op, x, reduced.span(), keepdim, loc);
}

Tensor with_axis(const Tensor &reduced, const detail::Shape &shape, int axis, bool keepdim, Location loc) {
    if (!keepdim)
        return reduced;
    detail::Shape kept = shape;
    kept[axis] = 1;
    return detail::reshape_to(reduced, kept, loc);
}

Tensor arg_extreme(Op op, const Tensor &x, std::optional<int64_t> axis, bool keepdim, const char *function,
                   Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    if (type.numel() == 0 && !axis)
        throw ShapeError(std::string(function) + ": " + detail::text(type) + " has no elements", loc);
    if (!axis || type.shape.rank() == 0) {
        if (axis && !detail::is_axis_of_number(*axis, type.shape.rank()))
            detail::normal_axis(*axis, 0, function, type, loc);
        const Tensor flat =
            detail::record(op, {&static_cast<const Tensor &>(flatten(x, 0, -1, loc))}, {0}, {}, loc);
        detail::Shape ones;
        for (int a = 0; keepdim && a < type.shape.rank(); ++a)
            ones.push_back(1);
        return detail::reshape_to(flat, ones, loc);
    }
    const int a = detail::normal_axis(*axis, type.shape.rank(), function, type, loc);
    if (type.shape[a] == 0)
        throw ShapeError(std::string(function) + ": axis " + std::to_string(a) + " of " + detail::text(type) +
                             " has no elements",
                         loc);
    return with_axis(detail::record(op, {&x}, {a}, {}, loc), type.shape, a, keepdim, loc);
}

ValuesIndices extreme_along(Op value_op, Op index_op, const Tensor &x, int64_t axis, bool keepdim,
                            const char *function, Location loc) {
    const Tensor place = arg_extreme(index_op, x, axis, keepdim, function, loc);
    const auto value = [&] { return extreme(value_op, x, axis, keepdim, function, loc); };
    const ir::TensorType type = detail::type(x);
    if (type.shape.rank() == 0 || !detail::has_history(x))
        return {value(), place};
    const int a = detail::normal_axis(axis, type.shape.rank(), function, type, loc);
    const Tensor in_rank = with_axis(place, type.shape, a, true, loc);
    return {detail::composite(detail::kExtremeRule, {&x, &in_rank}, {a}, loc, value), place};
}

Tensor scan(Op op, const Tensor &x, int64_t axis, std::optional<DType> dtype, const char *function,
            Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    const Tensor v = detail::cast(x, sum_dtype(type, dtype), loc);
    if (detail::is_axis_of_number(axis, type.shape.rank()))
        return detail::fresh(v, loc);
    return detail::record(op, {&v}, {detail::normal_axis(axis, type.shape.rank(), function, type, loc)}, {},
                          loc);
}

} // namespace

Tensor sum(const Tensor &x, const Sizes &axes, bool keepdim, std::optional<DType> dtype, Location loc) {
    loc = detail::in<"sum">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"sum">(
            loc, [&](const Tensor &v) { return sum(v, axes, keepdim, dtype, loc); }, x);
    return sum_like(Op::ReduceSum, x, axes, keepdim, dtype, "sum", loc);
}
Tensor prod(const Tensor &x, const Sizes &axes, bool keepdim, std::optional<DType> dtype, Location loc) {
    loc = detail::in<"prod">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"prod">(
            loc, [&](const Tensor &v) { return prod(v, axes, keepdim, dtype, loc); }, x);
    return sum_like(Op::ReduceProd, x, axes, keepdim, dtype, "prod", loc);
}

Tensor mean(const Tensor &x, const Sizes &axes, bool keepdim, std::optional<DType> dtype, Location loc) {
    loc = detail::in<"mean">(loc);
    ir::TensorType type = detail::checked_type(x, "mean", loc);
    if (dtype)
        type.dtype = detail::to_ir(*dtype);
    check_float(type, "mean", loc);
    const Axes reduced = detail::normal_axes(axes, "mean", type, loc);
    return detail::in_working_dtype(detail::cast(x, type.dtype, loc), "mean", loc,
                                    [&](const Tensor &v) { return mean_of(v, reduced, keepdim, loc); });
}

Tensor var(const Tensor &x, const Sizes &axes, int64_t correction, bool keepdim, Location loc) {
    loc = detail::in<"var">(loc);
    return variance(x, axes, correction, keepdim, false, "var", loc);
}
Tensor std(const Tensor &x, const Sizes &axes, int64_t correction, bool keepdim, Location loc) {
    loc = detail::in<"std">(loc);
    return variance(x, axes, correction, keepdim, true, "std", loc);
}

// The mean of both is one computation.
std::tuple<Tensor, Tensor> var_mean(const Tensor &x, const Sizes &axes, int64_t correction, bool keepdim,
                                    Location loc) {
    loc = detail::in<"var_mean">(loc);
    Tensor spread = variance(x, axes, correction, keepdim, false, "var_mean", loc);
    return {std::move(spread), mean(x, axes, keepdim, std::nullopt, loc)};
}
std::tuple<Tensor, Tensor> std_mean(const Tensor &x, const Sizes &axes, int64_t correction, bool keepdim,
                                    Location loc) {
    loc = detail::in<"std_mean">(loc);
    Tensor spread = variance(x, axes, correction, keepdim, true, "std_mean", loc);
    return {std::move(spread), mean(x, axes, keepdim, std::nullopt, loc)};
}

Tensor amax(const Tensor &x, const Sizes &axes, bool keepdim, Location loc) {
    loc = detail::in<"amax">(loc);
    return extreme(Op::ReduceMax, x, axes, keepdim, "amax", loc);
}
Tensor amin(const Tensor &x, const Sizes &axes, bool keepdim, Location loc) {
    loc = detail::in<"amin">(loc);
    return extreme(Op::ReduceMin, x, axes, keepdim, "amin", loc);
}
Tensor max(const Tensor &x, Location loc) {
    loc = detail::in<"max">(loc);
    return extreme(Op::ReduceMax, x, {}, false, "max", loc);
}
Tensor min(const Tensor &x, Location loc) {
    loc = detail::in<"min">(loc);
    return extreme(Op::ReduceMin, x, {}, false, "min", loc);
}
ValuesIndices max(const Tensor &x, int64_t axis, bool keepdim, Location loc) {
    loc = detail::in<"max">(loc);
    return extreme_along(Op::ReduceMax, Op::ArgMax, x, axis, keepdim, "max", loc);
}
ValuesIndices min(const Tensor &x, int64_t axis, bool keepdim, Location loc) {
    loc = detail::in<"min">(loc);
    return extreme_along(Op::ReduceMin, Op::ArgMin, x, axis, keepdim, "min", loc);
}
Tensor max(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"max">(loc);
    return maximum({a, loc}, {b, loc}, loc);
}
Tensor min(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"min">(loc);
    return minimum({a, loc}, {b, loc}, loc);
}
Tensor argmax(const Tensor &x, std::optional<int64_t> axis, bool keepdim, Location loc) {
    loc = detail::in<"argmax">(loc);
    return arg_extreme(Op::ArgMax, x, axis, keepdim, "argmax", loc);
}
Tensor argmin(const Tensor &x, std::optional<int64_t> axis, bool keepdim, Location loc) {
    loc = detail::in<"argmin">(loc);
    return arg_extreme(Op::ArgMin, x, axis, keepdim, "argmin", loc);
}
Tensor any(const Tensor &x, const Sizes &axes, bool keepdim, Location loc) {
    loc = detail::in<"any">(loc);
    return truth(Op::ReduceMax, x, axes, keepdim, "any", loc);
}
Tensor all(const Tensor &x, const Sizes &axes, bool keepdim, Location loc) {
    loc = detail::in<"all">(loc);
    return truth(Op::ReduceMin, x, axes, keepdim, "all", loc);
}

Tensor logsumexp(const Tensor &x, const Sizes &axes, bool keepdim, Location loc) {
    loc = detail::in<"logsumexp">(loc);
    const ir::TensorType type = detail::checked_type(x, "logsumexp", loc);
    const Axes reduced = detail::normal_axes(axes, "logsumexp", type, loc);
    return detail::composite(detail::kLogSumExpRule, {&x}, Numbers(std::nullopt, keepdim, reduced), loc, [&] {
        return detail::in_working_dtype(x, "logsumexp", loc, [&](const Tensor &v) {
            if (detail::count_of(type.shape, reduced) == 0)
                return detail::unary(Op::Log, detail::reduce(Op::ReduceSum, v, reduced.span(), keepdim, loc),
                                     loc);
            const Tensor top = detail::reduce(Op::ReduceMax, v, reduced.span(), true, loc);
            // An infinite maximum is left where it is: inf - inf has no value.
            const Tensor shift =
                detail::select(detail::unary(Op::IsInf, top, loc), detail::literal(v, 0, loc), top, loc);
            const Tensor powers = detail::unary(Op::Exp, detail::binary(Op::Sub, v, shift, loc), loc);
            const Tensor total = detail::unary(
                Op::Log, detail::reduce(Op::ReduceSum, powers, reduced.span(), keepdim, loc), loc);
            return detail::binary(Op::Add, total, detail::reshape_to(shift, detail::type(total).shape, loc),
                                  loc);
        });
    });
}

Tensor norm(const Tensor &x, double p, const Sizes &axes, bool keepdim, Location loc) {
    loc = detail::in<"norm">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"norm">(
            loc, [&](const Tensor &v) { return norm(v, p, axes, keepdim, loc); }, x);
    const ir::TensorType type = detail::checked_type(x, "norm", loc);
    check_float(type, "norm", loc);
    const Axes reduced = detail::normal_axes(axes, "norm", type, loc);
    return detail::composite(
        detail::kNormRule, {&x}, Numbers(ir::scalar_word(p), keepdim, reduced), loc, [&] {
            return detail::in_working_dtype(x, "norm", loc, [&](const Tensor &v) {
                const auto sum_of = [&](const Tensor &y) {
                    return detail::reduce(Op::ReduceSum, y, reduced.span(), keepdim, loc);
                };
                if (p == 2)
                    return detail::unary(Op::Sqrt, sum_of(detail::binary(Op::Mul, v, v, loc)), loc);
                const Tensor size = detail::unary(Op::Abs, v, loc);
                if (p == 1)
                    return sum_of(size);
                if (p == 0)
                    return sum_of(detail::cast(detail::binary(Op::Ne, v, detail::literal(v, 0, loc), loc),
                                               detail::type(v).dtype, loc));
                if (std::isinf(p))
                    return extreme(p > 0 ? Op::ReduceMax : Op::ReduceMin, size, axes, keepdim, "norm", loc);
                const Tensor powers = detail::binary(Op::Pow, size, detail::literal(v, p, loc), loc);
                return detail::binary(Op::Pow, sum_of(powers), detail::literal(v, 1 / p, loc), loc);
            });
        });
}

Tensor cumsum(const Tensor &x, int64_t axis, std::optional<DType> dtype, Location loc) {
    loc = detail::in<"cumsum">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"cumsum">(
            loc, [&](const Tensor &v) { return cumsum(v, axis, dtype, loc); }, x);
    return scan(Op::CumSum, x, axis, dtype, "cumsum", loc);
}
Tensor cumprod(const Tensor &x, int64_t axis, std::optional<DType> dtype, Location loc) {
    loc = detail::in<"cumprod">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"cumprod">(
            loc, [&](const Tensor &v) { return cumprod(v, axis, dtype, loc); }, x);
    return scan(Op::CumProd, x, axis, dtype, "cumprod", loc);
}

} // namespace lz
