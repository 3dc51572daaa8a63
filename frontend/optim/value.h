#pragma once
/// The language of optimizers' formulas: tensors with the user's line, and their operators.

#include "lazuli/ops.h"

namespace lz::optim {

/// A tensor of a formula. Numbers enter through Update::number.
class Value {
public:
    Value(Tensor tensor, Location loc) : tensor_(std::move(tensor)), loc_(loc) {}

    const Tensor &tensor() const { return tensor_; }
    Location loc() const { return loc_; }
    Operand operand() const { return {tensor_, loc_}; }

private:
    Tensor tensor_;
    Location loc_;
};

inline Value operator+(const Value &a, const Value &b) {
    return {lz::add(a.operand(), b.operand(), a.loc()), a.loc()};
}
inline Value operator-(const Value &a, const Value &b) {
    return {lz::sub(a.operand(), b.operand(), a.loc()), a.loc()};
}
inline Value operator*(const Value &a, const Value &b) {
    return {lz::mul(a.operand(), b.operand(), a.loc()), a.loc()};
}
inline Value operator/(const Value &a, const Value &b) {
    return {lz::div(a.operand(), b.operand(), a.loc()), a.loc()};
}
inline Value operator-(const Value &a) {
    return {lz::neg(a.tensor(), a.loc()), a.loc()};
}
inline Value sqrt(const Value &a) {
    return {lz::sqrt(a.tensor(), a.loc()), a.loc()};
}
inline Value sign(const Value &a) {
    return {lz::sign(a.tensor(), a.loc()), a.loc()};
}
inline Value maximum(const Value &a, const Value &b) {
    return {lz::maximum(a.operand(), b.operand(), a.loc()), a.loc()};
}

} // namespace lz::optim
