#pragma once

#include "passes/lower/lowered_step.h"

namespace lz::passes {

/// Whether the kernel's indices are computed in 32 bits for this segment (fits_32_bits).
bool has_narrow_indices(const ir::Kernel &kernel, const LoweredSegment &segment);

} // namespace lz::passes
