#pragma once
/// What expand_math puts in place of each Math operation: straight-line arithmetic on f32 or f64, at most 2
/// ULP from the correctly rounded result, right at zeros, infinities, NaNs and subnormals. Only operations
/// that IEEE defines to the bit are used, so every target computes the same. Coefficients come from fit.py.

#include "ir/math/expr.h"

namespace lz::ir::math {

Expr exp(Expr x);
Expr expm1(Expr x);
Expr sinh(Expr x);
Expr cosh(Expr x);
Expr tanh(Expr x);
Expr sigmoid(Expr x);
Expr erf(Expr x);
Expr log(Expr x);
Expr log1p(Expr x);
Expr log2(Expr x);
Expr rsqrt(Expr x);
Expr sin(Expr x);
Expr cos(Expr x);
Expr tan(Expr x);
Expr asin(Expr x);
Expr acos(Expr x);
Expr atan(Expr x);
Expr atan2(Expr y, Expr x);
Expr pow(Expr x, Expr y);
Expr fmod(Expr x, Expr y);    ///< exact
Expr int_pow(Expr x, Expr y); ///< integers, wraps
Expr philox(Expr counter, Expr word, Expr seed);

} // namespace lz::ir::math
