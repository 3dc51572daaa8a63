#pragma once
/// The language of optimizers' formulas: tensors with the user's line, and their operators.

#include "lazuli/ops.h"

namespace lz::optim {

/// A tensor of a formula. Numbers enter through Update::number. Of empty ones come empty ones: a formula that
/// is gone through for its numbers alone.
class Value {
public:
    Value(Tensor tensor, Location loc) : tensor_(std::move(tensor)), loc_(loc) {}

    const Tensor &tensor() const { return tensor_; }
    bool is_empty() const { return !tensor_.defined(); }
    Location loc() const { return loc_; }
    Operand operand() const { return {tensor_, loc_}; }

private:
    Tensor tensor_;
    Location loc_;
};

inline Value operator+(const Value &a, const Value &b) {
    return a.is_empty() ? a : Value(lz::add(a.operand(), b.operand(), a.loc()), a.loc());
}
inline Value operator-(const Value &a, const Value &b) {
    return a.is_empty() ? a : Value(lz::sub(a.operand(), b.operand(), a.loc()), a.loc());
}
inline Value operator*(const Value &a, const Value &b) {
    return a.is_empty() ? a : Value(lz::mul(a.operand(), b.operand(), a.loc()), a.loc());
}
inline Value operator/(const Value &a, const Value &b) {
    return a.is_empty() ? a : Value(lz::div(a.operand(), b.operand(), a.loc()), a.loc());
}
inline Value operator-(const Value &a) {
    return a.is_empty() ? a : Value(lz::neg(a.tensor(), a.loc()), a.loc());
}
inline Value sqrt(const Value &a) {
    return a.is_empty() ? a : Value(lz::sqrt(a.tensor(), a.loc()), a.loc());
}
inline Value sign(const Value &a) {
    return a.is_empty() ? a : Value(lz::sign(a.tensor(), a.loc()), a.loc());
}
inline Value maximum(const Value &a, const Value &b) {
    return a.is_empty() ? a : Value(lz::maximum(a.operand(), b.operand(), a.loc()), a.loc());
}

} // namespace lz::optim
