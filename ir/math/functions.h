#pragma once
/// What expand_math puts in place of each Math operation: straight-line arithmetic on f32 or f64, at most 2
/// ULP from the correctly rounded result, right at zeros, infinities, NaNs and subnormals (of halves.def:
/// less than 1 ULP of their half, once rounded to it). Only operations that IEEE defines to the bit are used,
/// so every target computes the same. Coefficients come from fit.py.

#include "ir/math/expr.h"

namespace lz::ir::math {

#define LZ_MATH1(E, f, ...) Expr f(Expr x);
#define LZ_MATH2(E, f, ...) Expr f(Expr x, Expr y);
#include "ir/math/math.def"
#define LZ_MATH_HALF(E, f, function, half) Expr f(Expr x);
#include "ir/math/halves.def"
Expr pow(Expr x, Expr y);
Expr fmod(Expr x, Expr y);    ///< exact
Expr int_pow(Expr x, Expr y); ///< integers, wraps
Expr philox(Expr counter, Expr word, Expr seed);

/// For Accuracy::Fast.
namespace fast {
/// The relative error is that of y log2 |x| in the format: at most (4 + 2 |y log2 x|) 2^-24 for f32, 2^-53
/// for f64. Results below the smallest normal number are 0.
Expr pow(Expr x, Expr y);
} // namespace fast

} // namespace lz::ir::math
