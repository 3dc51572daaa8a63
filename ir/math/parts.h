#pragma once
/// Pieces that several functions are made of.

#include "ir/math/expr.h"

namespace lz::ir::math {

/// x = 2^e (1 + f) with f in [-1/3, 1/3] and e a float, for positive finite x. `rare`: it is no normal one.
struct Split {
    Expr e, f, rare;
};
Split split(Expr x);

/// value + error is the exact result.
struct Sum {
    Expr value, error;
};
inline Sum two_sum(Expr a, Expr b) {
    const Expr s = a + b;
    const Expr bb = s - a;
    return {s, (a - (s - bb)) + (b - bb)};
}
/// For |a| >= |b| or a = 0.
inline Sum fast_two_sum(Expr a, Expr b) {
    const Expr s = a + b;
    return {s, (a - s) + b};
}
inline Sum two_product(Expr a, Expr b) {
    const Expr p = a * b;
    return {p, fma(a, b, -p)};
}

} // namespace lz::ir::math
