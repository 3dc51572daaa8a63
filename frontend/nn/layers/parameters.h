#pragma once
/// What layers share: checks of their options, new values, and how values are printed.

#include "frontend/nn/module/constructing.h"
#include "lazuli/lazuli.h"

#include <cmath>
#include <string>

namespace lz::nn::detail {

/// Throws ShapeError for a negative extent.
inline void check_extent(int64_t value, const char *layer, const char *what, Location loc) {
    if (value < 0)
        throw ShapeError(std::string(layer) + ": " + what + " is " + std::to_string(value) +
                             "; an extent is 0 or more",
                         loc);
}

/// New values in place, uniform within `bound` of 0. Nothing is kept for backward.
inline void fill_uniform(Tensor &tensor, double bound) {
    if (!tensor.defined())
        return;
    const NoGradGuard no_grad;
    tensor.uniform_(-bound, bound, Constructing::line());
}
inline void fill(Tensor &tensor, double value) {
    if (!tensor.defined())
        return;
    const NoGradGuard no_grad;
    tensor.fill_(value, Constructing::line());
}

/// 1 / sqrt(n), and 0 for 0.
inline double one_by_root(int64_t n) {
    return n > 0 ? 1 / std::sqrt(static_cast<double>(n)) : 0;
}

/// As Python prints them.
std::string text(bool value);
std::string text(double value);
std::string text(const Sizes &sizes); ///< (2, 3)
inline std::string text(int64_t value) {
    return std::to_string(value);
}

} // namespace lz::nn::detail
