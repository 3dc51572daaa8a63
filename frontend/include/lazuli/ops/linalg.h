#pragma once
/// Products. Operands have one dtype, integers or floats; half types accumulate in f32.

#include "lazuli/tensor.h"

#include <string_view>

namespace lz {

/// Vectors and matrices as in PyTorch; axes before the last two broadcast.
LZ_FUNCTION(Tensor matmul, a, const Tensor &b, Location loc = Location::current());
/// Two matrices.
LZ_FUNCTION(Tensor mm, a, const Tensor &b, Location loc = Location::current());
/// Matrix and vector.
LZ_FUNCTION(Tensor mv, a, const Tensor &b, Location loc = Location::current());
/// Two vectors.
LZ_FUNCTION(Tensor dot, a, const Tensor &b, Location loc = Location::current());
/// All products of elements of two vectors: [n] and [m] give [n, m].
LZ_FUNCTION(Tensor outer, a, const Tensor &b, Location loc = Location::current());
/// Two batches of matrices.
LZ_FUNCTION(Tensor bmm, a, const Tensor &b, Location loc = Location::current());
/// x W^T + b, with W of [out, in].
LZ_FUNCTION(Tensor linear, x, const Tensor &weight, const Tensor &bias = {},
            Location loc = Location::current());
/// beta * x + alpha * (a b) of two matrices; x broadcasts to their product. With a beta of 0 NaN of x does
/// not count.
LZ_FUNCTION(Tensor addmm, x, const Tensor &a, const Tensor &b, const Scalar &beta = 1,
            const Scalar &alpha = 1, Location loc = Location::current());
/// Einstein's summation: `einsum("bij,bjk->bik", {a, b})`; without `->` the result has the labels that stand
/// once, in the order of the alphabet. `...` stands for axes that broadcast, a label twice in one operand for
/// a diagonal.
LZ_API Tensor einsum(std::string_view equation, std::span<const Tensor> operands,
                     Location loc = Location::current());
LZ_API Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands,
                     Location loc = Location::current());
/// A null pointer is no equation.
inline Tensor einsum(const char *equation, std::span<const Tensor> operands,
                     Location loc = Location::current()) {
    return einsum(equation ? std::string_view(equation) : std::string_view("(null)"), operands, loc);
}
inline Tensor einsum(const char *equation, std::initializer_list<Tensor> operands,
                     Location loc = Location::current()) {
    return einsum(equation, std::span(operands.begin(), operands.size()), loc);
}

} // namespace lz
