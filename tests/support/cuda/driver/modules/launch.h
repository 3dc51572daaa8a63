#pragma once
/// Launches: what is asked for is checked as the driver does, and parameters are copied.

#include "tests/support/cuda/driver/modules/module.h"
#include "tests/support/cuda/driver/streams/work.h"

namespace lz::fake_cuda {

/// A launch as the user writes it, of cuLaunchKernel or of a graph's node.
struct LaunchRequest {
    CUfunction function;
    ptx::Dim grid, block;
    unsigned shared;
    void **parameters, **extra;
    ptx::Dim cluster = {}; ///< that the launch asks for; a kernel may have been compiled for another
};
/// The work of it, for a context; refuses what the driver refuses.
KernelWork kernel_work(Lock &lock, const LaunchRequest &request, const Context &context);

} // namespace lz::fake_cuda
