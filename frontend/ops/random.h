#pragma once
/// Random numbers at a known place of a generator's stream, so that they can be drawn again.

#include "lazuli/ops/random.h"

namespace lz::detail {

/// x with each element set to 0 with probability p, and the others divided by 1 - p. `at`: where the numbers
/// that decide begin, one word an element. f32 or f64.
Tensor dropped(const Tensor &x, double p, const Generator::State &at, Location loc);

} // namespace lz::detail
