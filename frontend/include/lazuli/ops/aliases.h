#pragma once
/// LibTorch's other names of functions.

#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/views.h"

#include <optional>
#include <utility>

namespace lz {

/// As sub.
inline Tensor subtract(Operand a, Operand b, Location loc = Location::current()) {
    return sub(std::move(a), std::move(b), loc);
}
/// As mul.
inline Tensor multiply(Operand a, Operand b, Location loc = Location::current()) {
    return mul(std::move(a), std::move(b), loc);
}
/// As div.
inline Tensor divide(Operand a, Operand b, Location loc = Location::current()) {
    return div(std::move(a), std::move(b), loc);
}
/// As div.
inline Tensor true_divide(Operand a, Operand b, Location loc = Location::current()) {
    return div(std::move(a), std::move(b), loc);
}
/// As ne.
inline Tensor not_equal(Operand a, Operand b, Location loc = Location::current()) {
    return ne(std::move(a), std::move(b), loc);
}
/// As lt.
inline Tensor less(Operand a, Operand b, Location loc = Location::current()) {
    return lt(std::move(a), std::move(b), loc);
}
/// As le.
inline Tensor less_equal(Operand a, Operand b, Location loc = Location::current()) {
    return le(std::move(a), std::move(b), loc);
}
/// As gt.
inline Tensor greater(Operand a, Operand b, Location loc = Location::current()) {
    return gt(std::move(a), std::move(b), loc);
}
/// As ge.
inline Tensor greater_equal(Operand a, Operand b, Location loc = Location::current()) {
    return ge(std::move(a), std::move(b), loc);
}
/// As neg.
inline Tensor negative(const Tensor &x, Location loc = Location::current()) {
    return neg(x, loc);
}
/// As abs.
inline Tensor absolute(const Tensor &x, Location loc = Location::current()) {
    return abs(x, loc);
}
/// As clamp.
inline Tensor clip(const Tensor &x, const std::optional<Scalar> &lower,
                   const std::optional<Scalar> &upper = std::nullopt, Location loc = Location::current()) {
    return clamp(x, lower, upper, loc);
}
/// As transpose.
inline Tensor swapaxes(const Tensor &x, int64_t axis0, int64_t axis1, Location loc = Location::current()) {
    return transpose(x, axis0, axis1, loc);
}
/// As transpose.
inline Tensor swapdims(const Tensor &x, int64_t axis0, int64_t axis1, Location loc = Location::current()) {
    return transpose(x, axis0, axis1, loc);
}
/// As movedim.
inline Tensor moveaxis(const Tensor &x, const Sizes &from, const Sizes &to,
                       Location loc = Location::current()) {
    return movedim(x, from, to, loc);
}
/// All elements as one row.
inline Tensor ravel(const Tensor &x, Location loc = Location::current()) {
    return reshape(x, {-1}, loc);
}
/// As the method: whether the dtype is f16, bf16, f32 or f64.
inline bool is_floating_point(const Tensor &x, Location loc = Location::current()) {
    return x.is_floating_point(loc);
}
/// As the method: the number of elements.
inline int64_t numel(const Tensor &x, Location loc = Location::current()) {
    return x.numel(loc);
}

} // namespace lz
