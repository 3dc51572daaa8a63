#pragma once
/// The first GPU of this machine, for tests that need one: a real device, or the driver without a GPU where
/// LAZULI_CUDA_DRIVER names it.

#include "codegen/compiler.h"
#include "ir/target.h"
#include "runtime/api/backend.h"

#include <memory>
#include <string>

namespace lz::test {

struct Gpu {
    std::unique_ptr<runtime::Backend> backend;
    std::unique_ptr<codegen::Compiler> compiler;
    ir::CudaLimits limits;
};

/// Opened once; null where there is none, and `why_no_gpu` says why.
Gpu *gpu();
const std::string &why_no_gpu();

#define LZ_NEEDS_GPU()                                                                                       \
    if (!gpu())                                                                                              \
    GTEST_SKIP() << why_no_gpu()

} // namespace lz::test
