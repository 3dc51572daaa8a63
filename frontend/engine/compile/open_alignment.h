#pragma once
/// Kernels of CUDA devices whose launches may be aligned in one run and not in another.

#include "ir/program/program.h"
#include "runtime/executor/executor.h"

#include <span>

namespace lz::engine {

/// Makes the code for other addresses (LoadedKernel::unaligned) of those of the loaded kernels whose
/// alignment depends on numbers that differ from run to run, where a slice begins: another such number does
/// not compile anything (S27). For the rest only addresses tell, and the first launch that needs it makes it.
/// Throws KernelFailure for the first that cannot be made.
void make_open_alignments(const ir::Program &program, std::span<const runtime::ProgramKernel> kernels);

} // namespace lz::engine
