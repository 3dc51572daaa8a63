#pragma once
/// LibTorch's eager forms of the rows that are measured, over random f32 tensors of its own. Each function
/// makes the tensors and gives the round to be timed. Without gradients, on as many threads as it is told.

#include "bench/support/join.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lz::bench::torch {

using Round = std::function<void()>;

void set_threads(int threads);

// Over `n` elements.
Round multiply_add(int64_t n);
Round tanh_chain(int64_t n);
Round gelu(int64_t n);
// Over n x n elements.
Round sum_all(int64_t n);
Round sum_axis0(int64_t n);
Round sum_axis1(int64_t n);
Round softmax(int64_t n);
Round log_softmax(int64_t n);
Round layer_norm(int64_t n);
Round transpose_add(int64_t n);

// Library calls. `width` 0: numbers and not rows.
Round index_add(int64_t places, int64_t count, int64_t width);
Round scatter_add_columns(int64_t places, int64_t columns);
Round topk(int64_t n, int64_t k);
Round sort_rows(int64_t n);
/// Over axis 1.
Round cumsum(int64_t outer, int64_t extent, int64_t inner);

/// Over axis 0 or 1 of n x n elements.
Round cummax(int64_t n, int64_t axis);
Round median(int64_t n, int64_t axis);
/// Of n elements in a line.
Round sort_line(int64_t n);
Round randperm(int64_t n);
Round masked_select(int64_t n);
/// `count` samples of n weights, with replacement.
Round multinomial(int64_t n, int64_t count);
/// Both axes of n x n elements.
Round flip(int64_t n);
/// Of [n, channels, side, side]; with a backward pass, of which the gradient is given.
Round group_norm(int64_t n, int64_t channels, int64_t side, int64_t groups, bool backward);

/// Of `count` labels, and the comparison that it is made of.
Round one_hot(int64_t count, int64_t classes);
Round compare_with_classes(int64_t count, int64_t classes);
/// Of n x n elements.
Round argmax(int64_t n, int64_t axis);
Round amax(int64_t n, int64_t axis);

/// "sum", "amax", "argmax", "softmax", "log_softmax" or "var" of each of `count` rows of `extent` elements.
Round of_rows(const std::string &function, int64_t count, int64_t extent);
/// Images [count, channels, side, side] in the order of their pixels, [count, side, side, channels], or back.
Round channels_last(int64_t count, int64_t channels, int64_t side, bool back);
/// The last two axes of such images padded by one element on each side.
Round pad(int64_t count, int64_t channels, int64_t side);
Round power(int64_t n, double exponent);

/// A step of AdamW over parameters of these shapes, with its defaults.
Round adamw(const std::vector<std::vector<int64_t>> &shapes);

/// Of parts that are made in the round.
Round join(const Join &join);

/// 1000 operations on 8 elements.
Round small_operations();
enum class Number { F32, F64, BF16, F16 };
/// An m x k by k x n product.
Round matmul(int64_t m, int64_t k, int64_t n, Number number = Number::F32);
/// The same with the right operand transposed in memory, as the weight of a linear layer is.
Round linear(int64_t m, int64_t k, int64_t n);
/// That with a bias, and gelu behind it.
Round linear_gelu(int64_t m, int64_t k, int64_t n);
/// So many m x k by k x n products.
Round batched(int64_t batch, int64_t m, int64_t k, int64_t n, Number number);
/// Of heads x length x width, written out.
Round attention(int64_t heads, int64_t length, int64_t width);
/// GPT-2-small with random weights (torch_gpt2.cpp), for batch x length tokens.
Round gpt2(int64_t batch, int64_t length);
/// One token of it, the last of a cache of `room`.
Round gpt2_token(int64_t room);

} // namespace lz::bench::torch
