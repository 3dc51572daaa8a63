#pragma once
/// The code generator for CUDA devices: CUDA C++ (source.h), compiled by NVRTC.

#include "codegen/compiler.h"
#include "codegen/cuda/nvrtc.h"

#include <cstdint>
#include <memory>

namespace lz::codegen {

/// What is made of a kernel.
enum class CudaCode : uint8_t {
    Fitting, ///< a cubin where NVRTC knows the architecture, else PTX of the newest one that it knows
    Ptx,     ///< PTX, which a driver finishes
};

/// For devices of an architecture, `sm` as 90 for sm_90. CompileOptions::want_text asks for the CUDA C++,
/// want_assembly for the PTX. The compiler may be used from many threads at once. Throws Failure(Compile)
/// where NVRTC knows no architecture as old as this.
std::unique_ptr<Compiler> make_cuda_compiler(const Nvrtc &nvrtc, int sm, CompileOptions options = {},
                                             CudaCode code = CudaCode::Fitting);

/// The newest architecture that NVRTC knows and that devices of `sm` run. Throws as make_cuda_compiler.
int cuda_architecture(const Nvrtc &nvrtc, int sm);

} // namespace lz::codegen
