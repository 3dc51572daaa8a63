#pragma once
/// Elementwise functions and operators. Operands broadcast; dtypes are promoted as PyTorch does (S62); one
/// operand may be a number, of which another value never compiles again. Beside f16 and bf16 a number, or a
/// 0-dim tensor of another dtype, enters in f32, and the result rounds once (S66); comparisons, the exponent
/// of `pow`, and what picks or stores (`minimum`, `clamp`, `where`, `fill_`) take the number that the
/// tensor's dtype has, so that `full({1}, 0.1, {.dtype = f16}) == 0.1`. A number that the other's integer
/// dtype does not have wraps in sums, products and bits (S66), compares as it is, saturates in `minimum`,
/// `maximum` and `clamp`, and is a DTypeError where it divides, is an exponent, or is stored (`where`,
/// `masked_fill`, `full`, ...).

#include "lazuli/tensor.h"

namespace lz {

#define LZ_UNARY(name, ...) LZ_FUNCTION(Tensor name, x, Location loc = Location::current());
#define LZ_UNARY_COMPOSED(name) LZ_FUNCTION(Tensor name, x, Location loc = Location::current());
#define LZ_BINARY(name, ...) LZ_API Tensor name(Operand a, Operand b, Location loc = Location::current());
#define LZ_COMPARISON(name, ...) LZ_API Tensor name(Operand a, Operand b, Location loc = Location::current());
#include "lazuli/ops/functions.def"

/// a + alpha * b and a - alpha * b. All operands of these and of addcmul, addcdiv, lerp and clamp meet in one
/// dtype before anything is computed, of which alpha and value are no part, and the result rounds once.
/// Throws DTypeError for an alpha that is a float beside integers, or a bool beside anything but bool.
LZ_API Tensor add(Operand a, Operand b, const Scalar &alpha, Location loc = Location::current());
/// As `add` with alpha: a - alpha * b.
LZ_API Tensor sub(Operand a, Operand b, const Scalar &alpha, Location loc = Location::current());
/// x + value * a * b and x + value * a / b. Throws DTypeError for bool, and for integers that would be
/// divided.
LZ_FUNCTION(Tensor addcmul, x, const Tensor &a, const Tensor &b, const Scalar &value = 1,
            Location loc = Location::current());
/// As addcmul: x + value * a / b.
LZ_FUNCTION(Tensor addcdiv, x, const Tensor &a, const Tensor &b, const Scalar &value = 1,
            Location loc = Location::current());

/// Whether it is NaN; false for integers.
LZ_FUNCTION(Tensor isnan, x, Location loc = Location::current());
/// Whether it is an infinity; false for integers.
LZ_FUNCTION(Tensor isinf, x, Location loc = Location::current());
/// Whether it is neither NaN nor an infinity; true for integers.
LZ_FUNCTION(Tensor isfinite, x, Location loc = Location::current());

/// condition ? a : b; `condition` is bool.
LZ_FUNCTION(Tensor where, condition, Operand a, Operand b, Location loc = Location::current());
/// x where mask is false, value where it is true. The result has x's dtype.
LZ_FUNCTION_OF_TWO(Tensor masked_fill, x, mask, Operand value, Location loc = Location::current());
/// min(max(x, lower), upper); a bound that is left out does not bind. NaN stays NaN.
LZ_FUNCTION(Tensor clamp, x, const std::optional<Scalar> &lower,
            const std::optional<Scalar> &upper = std::nullopt, Location loc = Location::current());
LZ_FUNCTION(Tensor clamp, x, const Tensor &lower, const Tensor &upper, Location loc = Location::current());
/// As clamp with a lower bound, a number or a tensor.
LZ_FUNCTION(Tensor clamp_min, x, Operand lower, Location loc = Location::current());
/// As clamp with an upper bound.
LZ_FUNCTION(Tensor clamp_max, x, Operand upper, Location loc = Location::current());
/// log(exp(a) + exp(b)), which does not overflow. They broadcast and are promoted. Throws DTypeError unless
/// the result is of floats.
LZ_FUNCTION_OF_TWO(Tensor logaddexp, a, b, Location loc = Location::current());
/// start + weight * (end - start), exact at both ends. Throws DTypeError unless start and end have one dtype
/// and the weight, if it has axes, that one too.
LZ_FUNCTION(Tensor lerp, start, const Tensor &end, Operand weight, Location loc = Location::current());

/// |a - b| <= atol + rtol * |b|; infinities are close to themselves, NaN to NaN if `equal_nan`.
LZ_FUNCTION_OF_TWO(Tensor isclose, a, b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
                   Location loc = Location::current());
/// Whether all elements are close. Sync point.
LZ_API bool allclose(const Tensor &a, const Tensor &b, double rtol = 1e-5, double atol = 1e-8,
                     bool equal_nan = false, Location loc = Location::current());
/// Whether shapes and all elements are equal; the dtypes have to be. Sync point.
LZ_API bool equal(const Tensor &a, const Tensor &b, Location loc = Location::current());

// Operators take no location: their operands' conversions know it.
LZ_API Tensor operator+(Operand a, Operand b);
LZ_API Tensor operator-(Operand a, Operand b);
LZ_API Tensor operator*(Operand a, Operand b);
/// True division: integers give the default dtype.
LZ_API Tensor operator/(Operand a, Operand b);
/// The remainder with the divisor's sign, as in Python.
LZ_API Tensor operator%(Operand a, Operand b);
LZ_API Tensor operator==(Operand a, Operand b);
LZ_API Tensor operator!=(Operand a, Operand b);
LZ_API Tensor operator<(Operand a, Operand b);
LZ_API Tensor operator<=(Operand a, Operand b);
LZ_API Tensor operator>(Operand a, Operand b);
LZ_API Tensor operator>=(Operand a, Operand b);
LZ_API Tensor operator&(Operand a, Operand b);
LZ_API Tensor operator|(Operand a, Operand b);
LZ_API Tensor operator^(Operand a, Operand b);
LZ_API Tensor operator<<(Operand a, Operand b);
LZ_API Tensor operator>>(Operand a, Operand b);
LZ_API Tensor operator-(Operand x);
/// Logical not of bool, bitwise not of integers.
LZ_API Tensor operator~(Operand x);

// In place (S24): every handle of the tensor sees the change; its dtype and shape stay.
LZ_API Tensor &operator+=(Tensor &x, Operand y);
LZ_API Tensor &operator-=(Tensor &x, Operand y);
LZ_API Tensor &operator*=(Tensor &x, Operand y);
LZ_API Tensor &operator/=(Tensor &x, Operand y);
LZ_API Tensor &operator%=(Tensor &x, Operand y);
LZ_API Tensor &operator&=(Tensor &x, Operand y);
LZ_API Tensor &operator|=(Tensor &x, Operand y);
LZ_API Tensor &operator^=(Tensor &x, Operand y);
LZ_API Tensor &operator<<=(Tensor &x, Operand y);
LZ_API Tensor &operator>>=(Tensor &x, Operand y);

} // namespace lz
