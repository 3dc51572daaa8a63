#pragma once
/// Makes one kernel of two: the phases of the second come after those of the first.

#include "ir/kernel/kernel.h"

#include <span>

namespace lz::ir {

/// AxisId counts to 255: two kernels that have more axes together cannot be one.
inline constexpr size_t kMostAxes = 250;

/// Stands for "no buffer of the first kernel".
inline constexpr uint16_t kOwnBuffer = UINT16_MAX;

/// Puts the phases of `from` behind those of `into`, with their schedules. Its arguments, scalars, axes,
/// instructions, accesses and loops continue the lists of `into`, and so do its buffers, but for those that
/// `same` gives the number of in `into`: they are that buffer. `same` is empty, which means that all are the
/// kernel's own, or has an entry for each buffer of `from`. The two have at most kMostAxes axes together.
void append(Kernel &into, Kernel from, std::span<const uint16_t> same = {});

} // namespace lz::ir
