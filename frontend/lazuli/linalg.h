#pragma once
/// Products. Operands have one dtype, integers or floats; half types accumulate in f32.

#include "lazuli/tensor.h"

#include <string_view>

namespace lz {

/// Vectors and matrices as in PyTorch; axes before the last two broadcast.
LZ_API Tensor matmul(const Tensor &a, const Tensor &b, Location loc = Location::current());
/// Two matrices.
LZ_API Tensor mm(const Tensor &a, const Tensor &b, Location loc = Location::current());
/// Matrix and vector.
LZ_API Tensor mv(const Tensor &a, const Tensor &b, Location loc = Location::current());
/// Two vectors.
LZ_API Tensor dot(const Tensor &a, const Tensor &b, Location loc = Location::current());
LZ_API Tensor outer(const Tensor &a, const Tensor &b, Location loc = Location::current());
/// Two batches of matrices.
LZ_API Tensor bmm(const Tensor &a, const Tensor &b, Location loc = Location::current());
/// x W^T + b, with W of [out, in].
LZ_API Tensor linear(const Tensor &x, const Tensor &weight, const Tensor &bias = {},
                     Location loc = Location::current());
/// Einstein's summation: `einsum("bij,bjk->bik", {a, b})`; without `->` the result has the labels that stand
/// once, in the order of the alphabet. `...` stands for axes that broadcast, a label twice in one operand for
/// a diagonal.
LZ_API Tensor einsum(std::string_view equation, std::span<const Tensor> operands,
                     Location loc = Location::current());
LZ_API Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands,
                     Location loc = Location::current());

} // namespace lz
