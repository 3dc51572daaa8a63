#pragma once
/// What the code of a kernel needs of a device, from what NVRTC's assembler says and from the PTX. It needs
/// no device.

#include "codegen/cuda/nvrtc.h"
#include "ir/kernel/kernel.h"
#include "ir/target.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lz::codegen {

/// Of one entry of a kernel.
struct CudaResources {
    std::string entry;        ///< `phase0`, `phase0_unaligned`
    int registers = 0;        ///< of a thread
    int spilled_bytes = 0;    ///< that a thread stores and loads again
    int shared_bytes = 0;     ///< of a block, what a launch asks for with it
    int threads = 0;          ///< of a block
    int instructions = 0;     ///< of the PTX, each counted once
    int loaded_bytes = 0;     ///< of global memory that a thread has under way at most
    int resident_threads = 0; ///< of an SM
    int64_t bytes_in_flight() const { return int64_t{loaded_bytes} * resident_threads; } ///< of an SM
};

/// Whose code is asked about.
enum class Addresses : uint8_t {
    Aligned, ///< the kernel's
    All,     ///< that of ir::any_address(kernel), too, where launches may need it
};

/// Of all entries of a kernel as make_source takes it, compiled to machine code of `sm` (90 for sm_90), on
/// SMs of these limits. Throws Failure(Compile). `warnings` takes those of NVRTC about the source, a line
/// each.
std::vector<CudaResources> cuda_resources(const Nvrtc &nvrtc, int sm, const ir::Kernel &kernel,
                                          const ir::CudaLimits &limits, std::string *warnings = nullptr,
                                          Addresses addresses = Addresses::All);

/// Threads that an SM runs at once, of blocks of so many with these registers each and this shared memory:
/// registers come by 8 for each thread, shared memory with 1 KiB for the system, and blocks are 32 at most
/// (CUDA C++ Programming Guide, table of technical specifications).
int resident_threads(int threads, int registers, int64_t shared_bytes, const ir::CudaLimits &limits);

/// What NVRTC's assembler says of entries (--ptxas-options=-v), by name.
struct Assembled {
    int registers = 0, shared_bytes = 0, spilled_bytes = 0;
};
std::map<std::string, Assembled, std::less<>> read_assembler_log(std::string_view log);

/// Instructions of an entry in the text of PTX, and the most bytes that its loads of global memory have under
/// way when none waits before its result is used.
struct PtxCounts {
    int instructions = 0, loaded_bytes = 0;
};
PtxCounts count_ptx(std::string_view ptx, std::string_view entry);

} // namespace lz::codegen
