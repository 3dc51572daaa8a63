#pragma once
/// A line search for the strong Wolfe conditions.

#include "lazuli/tensor.h"

#include <functional>

namespace lz::optim {

/// A function and its gradient at one step along a line.
struct LinePoint {
    double step = 0, value = 0;
    double slope = 0; ///< the gradient along the line
    Tensor gradient;
};

/// What a search finds.
struct LineSearch {
    LinePoint point;
    int64_t evaluations = 0;
};

/// From `start` (step 0) along a direction whose largest element is `direction_norm`, first at `step`:
/// a point of sufficient decrease (1e-4) and curvature (0.9), or the best one after `most` evaluations.
/// PyTorch's `_strong_wolfe`, of which it decides as that does.
LineSearch strong_wolfe(const std::function<LinePoint(double step)> &evaluate, const LinePoint &start,
                        double step, double direction_norm, double tolerance_change, int64_t most);

} // namespace lz::optim
