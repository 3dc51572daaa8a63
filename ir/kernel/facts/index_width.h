#pragma once
/// Which i64 values of a kernel are indices: computed of axes, arguments and constants alone. Where all of
/// them fit into 32 bits, and all addresses, a schedule for CUDA says so (CudaSchedule::index32), and they
/// are computed in 32 bits.

#include "ir/kernel/kernel.h"

#include <span>
#include <vector>

namespace lz::ir {

/// By instruction: whether it is such an index.
std::vector<bool> index_values(const Kernel &kernel);

/// Whether for these arguments all indices, arguments and numbers of elements are at most 2^30, so that in 32
/// bits there is room beyond them. `known[a]`: args[a] is the argument's value; else it is anything.
/// `elements[b]`: of buffer b; that addresses are in range is not checked.
bool fits_32_bits(const Kernel &kernel, std::span<const int64_t> args, const std::vector<bool> &known,
                  std::span<const int64_t> elements);

} // namespace lz::ir
