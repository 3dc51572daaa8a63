#pragma once
/// LibTorch's eager forms of the rows of bench_elementwise and bench_random.

#include "bench/peers/torch/torch.h"

namespace lz::bench::torch {

// Over `n` elements.
enum class Unary { Exp, Log, Sin, Cos };
Round unary(Unary function, int64_t n);
Round pow(int64_t n);
Round where_chain(int64_t n);
Round twenty_operations(int64_t n);
Round softmax_rows_of_100(int64_t n);
Round rand(int64_t n);
Round randn(int64_t n);
/// Of n x n elements, by one along both axes.
Round roll(int64_t n);

} // namespace lz::bench::torch
