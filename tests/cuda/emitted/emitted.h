#pragma once
/// Runs a kernel as CUDA: scheduled, emitted, compiled by NVRTC; in the interpreter of PTX
/// (run_ptx.cpp), or on a device (tests/gpu). The interpreter of Kernel IR is the oracle.

#include "ir/program/program.h"
#include "ir/target.h"
#include "tests/support/kernel_run.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace lz::test {

/// The kernel with the schedule of such a device, and what that added: phases, arguments, buffers.
Launch scheduled(const Launch &l, const ir::CudaLimits &limits = {});
/// The same of segments, whose kernels are equal, of one step.
std::vector<Launch> scheduled(std::span<const Launch> segments, const ir::CudaLimits &limits = {});

/// The same with the kernel that is run where addresses are not aligned.
Launch unaligned(Launch l);

struct CudaRun {
    int shift = 0;            ///< elements by which each buffer lies beside an aligned address
    uint32_t most_blocks = 5; ///< of a grid, so that blocks take several items; a device has its own
    uint64_t seed = 1;        ///< of data and of the order of blocks and warps
    bool corners = true;
    std::map<std::string, uint64_t> *instructions = nullptr; ///< gets how many threads executed, by name
    uint64_t *bank_conflicts = nullptr; ///< gets ptx::Counts::bank_conflicts of the interpreter of PTX
    /// For the interpreter of PTX: run instead of what NVRTC made of the kernel, whose launches it is for.
    const char *ptx = nullptr;
};
/// Why nothing can be run here; empty when it can.
const std::string &why_not_run();
/// Of a scheduled kernel. Compiled code is kept: equal kernels are compiled once.
Outcome run_cuda(const Launch &l, const CudaRun &run = {});

/// The same of segments, whose kernels are equal, in one launch.
std::vector<Outcome> run_cuda(std::span<const Launch> segments, const CudaRun &run = {});

/// What NVRTC makes of a scheduled kernel.
std::string ptx_of(const Launch &l);

/// CUDA C++ of a scheduled kernel, for messages.
std::string cuda_text(const Launch &l);

/// Where the buffers of two runs of a scheduled kernel differ; empty where they do not.
std::string cuda_difference(const Launch &l, const Outcome &interpreted, const Outcome &cuda);

/// Expects a scheduled kernel to give the interpreter's bits, on aligned and other addresses.
void expect_bits(const Launch &l, const std::string &what, const CudaRun &run = {});

/// The same of each launch on a CUDA device of a Program, step by step on random data, its checks included.
/// `words`: Graph::runtime_words. Not run are products of floats whose order is the device's own.
void expect_program(const ir::Program &program, std::span<const int64_t> words, const std::string &what,
                    const CudaRun &run);

} // namespace lz::test
