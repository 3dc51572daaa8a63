#pragma once
/// What makes code, and keeps it, as the environment asks for.

#include "codegen/cache/kernel_cache.h"
#include "frontend/engine/compile/quick_kernels.h"
#include "frontend/engine/options.h"
#include "ir/target.h"

#include <memory>

namespace lz::engine {

/// What makes code for the host's devices.
std::unique_ptr<const codegen::Compiler> make_host_compiler(const Options &options, const ir::CpuIsa &isa);

/// `beside` compiles what need not be there at once. It outlives the cache.
codegen::KernelCacheOptions kernel_cache_options(const Options &options, Beside &beside);

} // namespace lz::engine
