#pragma once
/// Products. Operands have one dtype, integers or floats; half types accumulate in f32.

#include "lazuli/tensor.h"

#include <string_view>

namespace lz {

/// Vectors and matrices as in PyTorch; axes before the last two broadcast.
LZ_FUNCTION_OF_TWO(Tensor matmul, a, b, Location loc = Location::current());
/// The same, summed in `out_dtype` and given in it: of integers in a wider one (i8 in i32, as quantized
/// weights need it), of f16 and bf16 in f32, without rounding to the operands' dtype. Throws DTypeError for
/// another that is not the operands' own. Of integers `matmul(a.to(i32), b.to(i32))` is the same work.
LZ_FUNCTION_OF_TWO(Tensor matmul, a, b, DType out_dtype, Location loc = Location::current());
/// Two matrices.
LZ_FUNCTION_OF_TWO(Tensor mm, a, b, Location loc = Location::current());
/// The same, summed in `out_dtype`: see matmul.
LZ_FUNCTION_OF_TWO(Tensor mm, a, b, DType out_dtype, Location loc = Location::current());
/// Matrix and vector.
LZ_FUNCTION_OF_TWO(Tensor mv, a, b, Location loc = Location::current());
/// Two vectors.
LZ_FUNCTION_OF_TWO(Tensor dot, a, b, Location loc = Location::current());
/// All products of elements of two vectors: [n] and [m] give [n, m].
LZ_FUNCTION_OF_TWO(Tensor outer, a, b, Location loc = Location::current());
/// Two batches of matrices.
LZ_FUNCTION_OF_TWO(Tensor bmm, a, b, Location loc = Location::current());
/// The same, summed in `out_dtype`: see matmul.
LZ_FUNCTION_OF_TWO(Tensor bmm, a, b, DType out_dtype, Location loc = Location::current());
/// x W^T + b, with W of [out, in].
LZ_FUNCTION_OF_TWO(Tensor linear, x, weight, const Tensor &bias = {}, Location loc = Location::current());
/// beta * x + alpha * (a b) of two matrices; x broadcasts to their product. With a beta of 0 NaN of x does
/// not count. Throws ShapeError for an x that does not, DTypeError for a beta or alpha that is no integer
/// beside integers.
LZ_FUNCTION(Tensor addmm, x, const Tensor &a, const Tensor &b, const Scalar &beta = 1,
            const Scalar &alpha = 1, Location loc = Location::current());
/// The same of a matrix and a vector.
LZ_FUNCTION(Tensor addmv, x, const Tensor &a, const Tensor &b, const Scalar &beta = 1,
            const Scalar &alpha = 1, Location loc = Location::current());
/// The same of the outer product of two vectors.
LZ_FUNCTION(Tensor addr, x, const Tensor &a, const Tensor &b, const Scalar &beta = 1, const Scalar &alpha = 1,
            Location loc = Location::current());
/// The same of two batches of matrices.
LZ_FUNCTION(Tensor baddbmm, x, const Tensor &a, const Tensor &b, const Scalar &beta = 1,
            const Scalar &alpha = 1, Location loc = Location::current());
/// The same of the sum of the products of two batches of matrices.
LZ_FUNCTION(Tensor addbmm, x, const Tensor &a, const Tensor &b, const Scalar &beta = 1,
            const Scalar &alpha = 1, Location loc = Location::current());
/// All products of elements of a and b: an element of a is a block in the shape of b. The shorter of both
/// gets axes of extent 1 in front.
LZ_FUNCTION_OF_TWO(Tensor kron, a, b, Location loc = Location::current());
/// Sums of products over pairs of axes, of which the k-th are axes_a[k] and axes_b[k]; the free axes of a are
/// followed by those of b. Where one of a pair has one element it meets all of the other. Throws IndexError,
/// ShapeError, DTypeError for two dtypes.
LZ_FUNCTION_OF_TWO(Tensor tensordot, a, b, const Sizes &axes_a, const Sizes &axes_b,
                   Location loc = Location::current());
/// Over the last axes of a and the first ones of b.
LZ_FUNCTION_OF_TWO(Tensor tensordot, a, b, int64_t axes = 2, Location loc = Location::current());
/// The p-norms of all differences of rows: [..., n, k] and [..., m, k] give [..., n, m], in the dtype of
/// both; axes before the last two broadcast. p is 0 (how many numbers differ) to infinity. `compute_mode`
/// says of the norm with p = 2 whether it is computed by products of matrices, which is faster and less
/// exact: 0, where there are more than 25 rows; 1, always; 2, never. The slope of a distance of 0 is 0.
/// Throws DTypeError unless both are of floats of one dtype, ShapeError, IndexError for a p below 0 and
/// another mode.
LZ_FUNCTION_OF_TWO(Tensor cdist, a, b, double p = 2, std::optional<int64_t> compute_mode = std::nullopt,
                   Location loc = Location::current());
/// Einstein's summation: `einsum("bij,bjk->bik", {a, b})`; without `->` the result has the labels that stand
/// once, in the order of the alphabet. `...` stands for axes that broadcast, a label twice in one operand for
/// a diagonal.
LZ_API Tensor einsum(std::string_view equation, std::span<const Tensor> operands,
                     Location loc = Location::current());
LZ_API Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands,
                     Location loc = Location::current());
/// A null pointer is no equation.
LZ_API Tensor einsum(const char *equation, std::span<const Tensor> operands,
                     Location loc = Location::current());
LZ_API Tensor einsum(const char *equation, std::initializer_list<Tensor> operands,
                     Location loc = Location::current());

} // namespace lz
