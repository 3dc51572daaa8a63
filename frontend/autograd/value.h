#pragma once
/// The language of gradients: tensors and numbers with the operators of a formula, which records primitives
/// with the line of the forward. Operands of one dtype; shapes broadcast as everywhere.

#include "frontend/ops/compose.h"
#include "lazuli/tensor.h"

namespace lz::detail {

/// A tensor of a formula. Never undefined.
class Value {
public:
    Value(Tensor tensor, Location loc) : own_(std::move(tensor)), loc_(loc) {}
    /// Of a tensor that outlives the value, and all copies of it: most values are what a step saved, or a
    /// gradient, which are there until the rule is through, and need no handle of their own.
    static Value of(const Tensor &tensor, Location loc) { return Value(&tensor, loc); }

    const Tensor &tensor() const { return other_ ? *other_ : own_; }
    /// The tensor, and no more of the value.
    Tensor take() && { return other_ ? *other_ : std::move(own_); }
    Location loc() const { return loc_; }
    const ir::TensorType &type() const { return detail::type(tensor()); }
    const Shape &shape() const { return type().shape; }

    /// A number of ours beside this value, which `simplify` sees.
    Value number(double value) const { return {literal(tensor(), value, loc_), loc_}; }
    /// A number that depends on the user's: never part of a program's structure.
    Value constant(double value) const { return {detail::constant(tensor(), value, loc_), loc_}; }
    Value apply(Op op) const { return {unary(op, tensor(), loc_), loc_}; }
    Value apply(Op op, const Value &y) const { return {binary(op, tensor(), y.tensor(), loc_), loc_}; }

private:
    Value(const Tensor *other, Location loc) : other_(other), loc_(loc) {}

    const Tensor *other_ = nullptr; ///< whose handle it uses, or null: its own
    Tensor own_;
    Location loc_;
};

#define LZ_VALUE_BINARY(name, op)                                                                            \
    inline Value name(const Value &x, const Value &y) {                                                      \
        return x.apply(Op::op, y);                                                                           \
    }                                                                                                        \
    inline Value name(const Value &x, double y) {                                                            \
        return x.apply(Op::op, x.number(y));                                                                 \
    }                                                                                                        \
    inline Value name(double x, const Value &y) {                                                            \
        return y.number(x).apply(Op::op, y);                                                                 \
    }
LZ_VALUE_BINARY(operator+, Add)
LZ_VALUE_BINARY(operator-, Sub)
LZ_VALUE_BINARY(operator*, Mul)
LZ_VALUE_BINARY(operator/, Div)
LZ_VALUE_BINARY(operator<, Lt)
LZ_VALUE_BINARY(operator<=, Le)
LZ_VALUE_BINARY(operator>, Gt)
LZ_VALUE_BINARY(operator>=, Ge)
LZ_VALUE_BINARY(operator==, Eq)
LZ_VALUE_BINARY(floor_div, FloorDiv)
LZ_VALUE_BINARY(pow, Pow)
#undef LZ_VALUE_BINARY
inline Value operator&&(const Value &x, const Value &y) {
    return x.apply(Op::And, y);
}
inline Value operator||(const Value &x, const Value &y) {
    return x.apply(Op::Or, y);
}
inline Value operator-(const Value &x) {
    return x.apply(Op::Neg);
}
#define LZ_VALUE_UNARY(name, op)                                                                             \
    inline Value name(const Value &x) {                                                                      \
        return x.apply(Op::op);                                                                              \
    }
LZ_VALUE_UNARY(exp, Exp)
LZ_VALUE_UNARY(log, Log)
LZ_VALUE_UNARY(rsqrt, Rsqrt)
LZ_VALUE_UNARY(sin, Sin)
LZ_VALUE_UNARY(cos, Cos)
LZ_VALUE_UNARY(sinh, Sinh)
LZ_VALUE_UNARY(cosh, Cosh)
LZ_VALUE_UNARY(tanh, Tanh)
LZ_VALUE_UNARY(erf, Erf)
LZ_VALUE_UNARY(sigmoid, Sigmoid)
LZ_VALUE_UNARY(trunc, Trunc)
LZ_VALUE_UNARY(sign, Sign)
LZ_VALUE_UNARY(abs, Abs)
LZ_VALUE_UNARY(is_infinite, IsInf)
#undef LZ_VALUE_UNARY

inline Value where(const Value &condition, const Value &x, const Value &y) {
    return {select(condition.tensor(), x.tensor(), y.tensor(), x.loc()), x.loc()};
}
inline Value where(const Value &condition, const Value &x, double y) {
    return where(condition, x, x.number(y));
}
inline Value where(const Value &condition, double x, const Value &y) {
    return where(condition, y.number(x), y);
}
/// Cast; x itself where it has the dtype already.
inline Value cast(const Value &x, ir::DType dtype) {
    return x.type().dtype == dtype ? x : Value(cast(x.tensor(), dtype, x.loc()), x.loc());
}
inline Value sum(const Value &x, std::span<const int64_t> axes, bool keepdim) {
    return {reduce(Op::ReduceSum, x.tensor(), axes, keepdim, x.loc()), x.loc()};
}
inline Value reshape(const Value &x, const Shape &shape) {
    return {reshape_to(x.tensor(), shape, x.loc()), x.loc()};
}
inline Value broadcast(const Value &x, const Shape &shape) {
    return {broadcast_to(x.tensor(), shape, x.loc()), x.loc()};
}
/// What has lost these axes to a reduction, with extents of 1 in their places.
Value with_axes(const Value &reduced, const Shape &whole, std::span<const int64_t> axes);

/// In the place of a value that a row did not ask to keep: nothing can be done with it.
struct NotKept {};

} // namespace lz::detail
