#pragma once
/// CUDA C++ of a kernel: one __global__ function for each phase, and how it is launched.
///
/// The text includes nothing, so that NVRTC has only it to read. A work item is a function of its own; an
/// entry walks the items of its block:
///
///     __device__ void phase0_item(const float *in0, float *out1, int extent0, int item) { ... }
///
///     extern "C" __global__ void __launch_bounds__(256) phase0(const float *in0, ..., int items) {
///         for (int item = blockIdx.x; item < items; item += gridDim.x)
///             phase0_item(in0, out1, extent0, item);
///     }
///
/// Where packets of 16 bytes are accessed, launches in which these are not aligned have another kernel, whose
/// schedules say so (ir::any_address): its entries are called `phase0_unaligned`.
///
/// Every operation rounds as the Kernel IR says, so the text has to be compiled without contraction
/// (--fmad=false, but for LAZULI_FAST_MATH) and with IEEE division and square roots, NVRTC's defaults.

#include "ir/kernel/compiled_kernel.h"
#include "ir/kernel/kernel.h"

#include <span>
#include <string>
#include <vector>

namespace lz::codegen::cuda {

struct Source {
    std::string text;
    std::vector<ir::CompiledPhase> phases; ///< as Kernel::phases
};

/// The source of a verified kernel without Math instructions whose phases all have a CudaSchedule. Throws
/// Failure(Compile) for what no schedule can make a kernel of.
Source make_source(const ir::Kernel &kernel);

/// The same of several kernels in one text: symbols are `kernel2_phase0`, phases are those of all.
Source make_source(std::span<const ir::Kernel *const> kernels);

} // namespace lz::codegen::cuda
