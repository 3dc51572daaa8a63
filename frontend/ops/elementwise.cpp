// Functions of one operand, selection, and comparisons of whole tensors.
#include "lazuli/ops/elementwise.h"

#include "frontend/autograd/composites.h"
#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "lazuli/ops/reductions.h"

namespace lz {

using detail::Op;

namespace {

enum class Rule : uint8_t { Float, Rounding, Numeric, Bits };

inline Tensor record_unary(Rule rule, detail::CastPolicy policy, Op op, const Tensor &x, const char *function,
                           uint16_t number, Location loc) {
    if (policy != detail::CastPolicy::None && detail::autocasting()) [[unlikely]]
        return record_unary(rule, detail::CastPolicy::None, op,
                            detail::autocast_operand(policy, x, detail::in(number, loc)), function, number,
                            loc);
    if (rule == Rule::Bits)
        loc = detail::in(number, loc); // the operation is called `not`
    const ir::DType dtype = detail::checked_type(x, function, loc).dtype;
    if (!ir::is_float(dtype)) {
        if (rule == Rule::Float)
            return detail::unary(op, detail::cast(x, detail::default_dtype(), loc), loc);
        if ((rule == Rule::Rounding && dtype != ir::DType::Bool) ||
            (op == Op::Sign && dtype == ir::DType::Bool))
            return detail::fresh(x, loc);
    }
    return detail::unary(op, x, loc);
}

} // namespace

Tensor relu(const Tensor &x, Location loc) {
    loc = detail::in<"relu">(loc);
    detail::checked_type(x, "relu", loc);
    return detail::composite(detail::kReluRule, {&x}, {}, loc,
                             [&] { return detail::binary(Op::Maximum, x, detail::literal(x, 0, loc), loc); });
}
Tensor silu(const Tensor &x, Location loc) {
    loc = detail::in<"silu">(loc);
    return detail::composite(detail::kSiluRule, {&x}, {}, loc, [&] {
        return detail::in_working_dtype(x, "silu", loc, [&](const Tensor &v) {
            return detail::binary(Op::Mul, v, detail::unary(Op::Sigmoid, v, loc), loc);
        });
    });
}
Tensor square(const Tensor &x, Location loc) {
    loc = detail::in<"square">(loc);
    if (detail::checked_type(x, "square", loc).dtype == ir::DType::Bool) // as PyTorch: x to the power of 2
        return square(detail::cast(x, ir::DType::I64, loc), loc);
    return detail::composite(detail::kSquareRule, {&x}, {}, loc,
                             [&] { return mul({x, loc}, {x, loc}, loc); });
}
Tensor reciprocal(const Tensor &x, Location loc) {
    loc = detail::in<"reciprocal">(loc);
    if (detail::autocasting()) [[unlikely]]
        return detail::autocast<"reciprocal">(loc, [&](const Tensor &v) { return reciprocal(v, loc); }, x);
    return detail::in_working_dtype(x, "reciprocal", loc, [&](const Tensor &v) {
        return detail::binary(Op::Div, detail::literal(v, 1, loc), v, loc);
    });
}
Tensor exp2(const Tensor &x, Location loc) {
    loc = detail::in<"exp2">(loc);
    return detail::in_working_dtype(x, "exp2", loc, [&](const Tensor &v) {
        return detail::binary(Op::Pow, detail::literal(v, 2, loc), v, loc);
    });
}
Tensor logical_not(const Tensor &x, Location loc) {
    loc = detail::in<"logical_not">(loc);
    detail::checked_type(x, "logical_not", loc);
    return detail::unary(Op::Not, detail::cast(x, ir::DType::Bool, loc), loc);
}

#define LZ_UNARY_COMPOSED(name)                                                                              \
    Tensor name(Tensor &&x, Location loc) {                                                                  \
        return detail::consumed(name(std::as_const(x), loc), x);                                             \
    }                                                                                                        \
    Tensor Tensor::name(Location loc) const & {                                                              \
        return lz::name(*this, loc);                                                                         \
    }                                                                                                        \
    Tensor Tensor::name(Location loc) && {                                                                   \
        return lz::name(std::move(*this), loc);                                                              \
    }                                                                                                        \
    Tensor &Tensor::name##_(Location loc) & {                                                                \
        return detail::assign(*this, lz::name(*this, loc), #name "_", loc);                                  \
    }
#define LZ_UNARY(name, op, rule)                                                                             \
    Tensor name(const Tensor &x, Location loc) {                                                             \
        return record_unary(Rule::rule, detail::cast_policy(#name), Op::op, x, #name,                        \
                            detail::kFunction<#name>, loc);                                                  \
    }                                                                                                        \
    LZ_UNARY_COMPOSED(name)
#include "lazuli/ops/functions.def"

Tensor operator-(Operand x) {
    return detail::consumed(neg(x.tensor(), x.loc()), x);
}
Tensor operator~(Operand x) {
    return detail::consumed(bitwise_not(x.tensor(), x.loc()), x);
}

namespace {

Tensor float_test(Op op, bool integers_are, const Tensor &x, const char *function, Location loc) {
    const ir::TensorType &t = detail::checked_type(x, function, loc);
    if (!ir::is_float(t.dtype))
        return detail::record_literal(DType::Bool, integers_are, t.shape, t.device, loc);
    return detail::unary(op, x, loc);
}

} // namespace

Tensor isnan(const Tensor &x, Location loc) {
    loc = detail::in<"isnan">(loc);
    return float_test(Op::IsNan, false, x, "isnan", loc);
}
Tensor isinf(const Tensor &x, Location loc) {
    loc = detail::in<"isinf">(loc);
    return float_test(Op::IsInf, false, x, "isinf", loc);
}
Tensor isfinite(const Tensor &x, Location loc) {
    loc = detail::in<"isfinite">(loc);
    return float_test(Op::IsFinite, true, x, "isfinite", loc);
}

Tensor where(const Tensor &condition, Operand a, Operand b, Location loc) {
    loc = detail::in<"where">(loc);
    if (detail::checked_type(condition, "where", loc).dtype != ir::DType::Bool)
        throw DTypeError("where: the condition has dtype " + std::string(name(condition.dtype())) +
                             "; it must be bool",
                         loc);
    const ir::DType dtype = detail::result_type({&a, &b}, "where", loc);
    const Tensor &like = a.is_tensor() ? a.tensor() : b.is_tensor() ? b.tensor() : condition;
    return detail::consumed(detail::select(condition, detail::stored(a, dtype, like, "where", loc),
                                           detail::stored(b, dtype, like, "where", loc), loc),
                            a, b);
}

Tensor masked_fill(const Tensor &x, const Tensor &mask, Operand value, Location loc) {
    loc = detail::in<"masked_fill">(loc);
    const ir::TensorType &t = detail::checked_type(x, "masked_fill", loc);
    if (detail::checked_type(mask, "masked_fill", loc).dtype != ir::DType::Bool)
        throw DTypeError(
            "masked_fill: the mask has dtype " + std::string(name(mask.dtype())) + "; it must be bool", loc);
    if (value.is_tensor() && detail::checked_type(value.tensor(), "masked_fill", loc).shape.rank() != 0)
        throw ShapeError("masked_fill: the value has shape " + detail::text(value.tensor().sizes()) +
                             "; it must be one number",
                         loc);
    const auto [y, chosen, number] = detail::together(loc, x, mask, detail::tensor_or_none(value));
    const Tensor fill = detail::stored(detail::replaced(value, number), t.dtype, y, "masked_fill", loc);
    return detail::consumed(detail::select(chosen, fill, y, loc), value);
}

Tensor clamp(const Tensor &x, const std::optional<Scalar> &lower, const std::optional<Scalar> &upper,
             Location loc) {
    loc = detail::in<"clamp">(loc);
    detail::checked_type(x, "clamp", loc);
    if (!lower && !upper)
        throw StateError("clamp: neither a lower nor an upper bound is given", loc);
    const auto bound = [&](const std::optional<Scalar> &number) {
        return number && detail::has_history(x)
                   ? detail::constant(*number, detail::type(x).dtype, detail::type(x).device, loc)
                   : Tensor();
    };
    const Tensor low = bound(lower), high = bound(upper);
    return detail::composite(detail::kClampRule, {&x, &low, &high}, {1}, loc, [&] {
        Tensor y = x;
        if (lower)
            y = maximum({y, loc}, {*lower, loc}, loc);
        if (upper)
            y = minimum({y, loc}, {*upper, loc}, loc);
        return y;
    });
}
Tensor clamp(const Tensor &x, const Tensor &lower, const Tensor &upper, Location loc) {
    loc = detail::in<"clamp">(loc);
    detail::checked_type(x, "clamp", loc);
    if (!detail::Access::given(lower) && !detail::Access::given(upper))
        throw StateError("clamp: neither a lower nor an upper bound is given", loc);
    // A copy of what a mask selects has been read.
    const auto together = detail::together(loc, x, lower, upper);
    const Tensor &y = together[0], &low = together[1], &high = together[2];
    const Operand a(y, loc), b(low.defined() ? low : y, loc), c(high.defined() ? high : y, loc);
    const ir::DType dtype = detail::result_type({&a, &b, &c}, "clamp", loc);
    return detail::composite(detail::kClampRule, {&y, &low, &high}, {0}, loc, [&] {
        Tensor out = detail::cast(y, dtype, loc);
        if (low.defined())
            out = detail::binary(Op::Maximum, out, detail::cast(low, dtype, loc), loc);
        if (high.defined())
            out = detail::binary(Op::Minimum, out, detail::cast(high, dtype, loc), loc);
        return out;
    });
}

Tensor lerp(const Tensor &start, const Tensor &end, Operand weight, Location loc) {
    loc = detail::in<"lerp">(loc);
    const ir::TensorType &t = detail::checked_type(start, "lerp", loc);
    if (detail::checked_type(end, "lerp", loc).dtype != t.dtype)
        throw DTypeError("lerp: start is " + detail::text(t) + " and end " + detail::text(detail::type(end)) +
                             "; both must have one dtype",
                         loc);
    // As PyTorch: a weight with axes has that dtype, and one without may give the result a wider one.
    ir::DType dtype = t.dtype;
    if (weight.is_tensor()) {
        const ir::TensorType &w = detail::checked_type(weight.tensor(), "lerp", loc);
        if (w.dtype != t.dtype && w.shape.rank() != 0)
            throw DTypeError("lerp: the weight is " + detail::text(w) + "; it must be " +
                                 std::string(ir::name(t.dtype)) + " as start and end, or one number",
                             loc);
        const Operand a(start, loc), b(end, loc);
        dtype = detail::result_type({&a, &b, &weight}, "lerp", loc);
    }
    if (!ir::is_float(dtype))
        throw DTypeError("lerp: start and end are " + detail::text(t) + "; convert them to a floating dtype",
                         loc);
    // Counted from the nearer end, so that both ends are met exactly.
    const auto [from, to, part] = detail::together(loc, start, end, detail::tensor_or_none(weight));
    const Tensor a = detail::entered({from, loc}, dtype, from, loc),
                 b = detail::entered({to, loc}, dtype, from, loc);
    const Tensor w = detail::entered(detail::replaced(weight, part), dtype, from, loc);
    const Tensor step = detail::binary(Op::Sub, b, a, loc);
    const Tensor from_start = detail::binary(Op::Add, a, detail::binary(Op::Mul, w, step, loc), loc);
    const Tensor rest = detail::binary(Op::Sub, detail::literal(a, 1, loc), w, loc);
    const Tensor from_end = detail::binary(Op::Sub, b, detail::binary(Op::Mul, step, rest, loc), loc);
    const Tensor near_start =
        detail::binary(Op::Lt, detail::unary(Op::Abs, w, loc), detail::literal(a, 0.5, loc), loc);
    return detail::consumed(detail::cast(detail::select(near_start, from_start, from_end, loc), dtype, loc),
                            weight);
}

Tensor isclose(const Tensor &a, const Tensor &b, double rtol, double atol, bool equal_nan, Location loc) {
    loc = detail::in<"isclose">(loc);
    Tensor same = eq({a, loc}, {b, loc}, loc);
    if (detail::type(a).dtype != detail::type(b).dtype)
        throw DTypeError("isclose: the operands have dtypes " + std::string(name(a.dtype())) + " and " +
                             std::string(name(b.dtype())) + "; cast one of them first",
                         loc);
    const ir::DType dtype = detail::type(a).dtype;
    if (dtype == ir::DType::Bool)
        return same;
    // Integers are compared in f64.
    const ir::DType work = ir::is_float(dtype) ? detail::working_dtype(dtype) : ir::DType::F64;
    const Tensor x = detail::cast(a, work, loc), y = detail::cast(b, work, loc);
    const Tensor allowed = add({mul({abs(y, loc), loc}, {rtol, loc}, loc), loc}, {atol, loc}, loc);
    const Tensor distance = abs(sub({x, loc}, {y, loc}, loc), loc);
    // An infinite bound must not let an infinite distance through.
    Tensor close = logical_or(
        {same, loc},
        {logical_and({isfinite(distance, loc), loc}, {le({distance, loc}, {allowed, loc}, loc), loc}, loc),
         loc},
        loc);
    if (equal_nan)
        close = logical_or({close, loc}, {logical_and({isnan(x, loc), loc}, {isnan(y, loc), loc}, loc), loc},
                           loc);
    return close;
}

bool allclose(const Tensor &a, const Tensor &b, double rtol, double atol, bool equal_nan, Location loc) {
    loc = detail::in<"allclose">(loc);
    return all(isclose(a, b, rtol, atol, equal_nan, loc), {}, false, loc).item<bool>(loc);
}

bool equal(const Tensor &a, const Tensor &b, Location loc) {
    loc = detail::in<"equal">(loc);
    if (!(detail::checked_type(a, "equal", loc).shape == detail::checked_type(b, "equal", loc).shape))
        return false;
    if (a.dtype() != b.dtype())
        throw DTypeError("equal: the operands have dtypes " + std::string(name(a.dtype())) + " and " +
                             std::string(name(b.dtype())) + "; cast one of them first",
                         loc);
    return all(eq({a, loc}, {b, loc}, loc), {}, false, loc).item<bool>(loc);
}

bool Tensor::allclose(const Tensor &other, double rtol, double atol, bool equal_nan, Location loc) const {
    return lz::allclose(*this, other, rtol, atol, equal_nan, loc);
}
bool Tensor::equal(const Tensor &other, Location loc) const {
    return lz::equal(*this, other, loc);
}
Tensor &Tensor::lerp_(const Tensor &end, Operand weight, Location loc) & {
    loc = detail::in<"lerp_">(loc);
    return detail::assign(*this, lz::lerp(*this, end, weight, loc), "lerp_", loc);
}
Tensor &Tensor::clamp_(const std::optional<Scalar> &lower, const std::optional<Scalar> &upper,
                       Location loc) & {
    return detail::assign(*this, lz::clamp(*this, lower, upper, loc), "clamp_", loc);
}
Tensor &Tensor::clamp_(const Tensor &lower, const Tensor &upper, Location loc) & {
    return detail::assign(*this, lz::clamp(*this, lower, upper, loc), "clamp_", loc);
}
Tensor &Tensor::masked_fill_(const Tensor &mask, Operand value, Location loc) & {
    loc = detail::in<"masked_fill_">(loc);
    return detail::assign(*this, lz::masked_fill(*this, mask, value, loc), "masked_fill_", loc);
}

} // namespace lz
