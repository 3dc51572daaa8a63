#pragma once
/// LibTorch's eager forms of the programs of bench_programs, over numbers that they are given.

#include "bench/peers/torch/torch.h"

#include <string>

namespace lz::bench::torch {

/// Dense f32 numbers, which are copied.
struct Input {
    std::vector<int64_t> shape;
    const float *values;
};
using Inputs = std::vector<Input>;

struct Program {
    Round round;
    std::function<std::vector<float>()> result; ///< its numbers, to compare with ours
};

/// By the name of the row: kmeans, mlp_step, jacobi, heat_rolls, heat_slices, n_body, changing_sizes,
/// conv_unfold or black_scholes. What each computes stands in bench/rows/programs.cpp, in the same order.
Program program(const std::string &name, const Inputs &inputs);

} // namespace lz::bench::torch
