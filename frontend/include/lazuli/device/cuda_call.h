#pragma once
/// What operations of the user's own (lazuli/call.h) do on CUDA devices: a function that is given addresses
/// of the device and the stream, or a kernel as text. No header of CUDA is needed to include this.
///
///     lz::register_cuda_call(
///         "my.double", [](std::span<const lz::CallType> in) { return std::vector{in[0]}; },
///         lz::CudaKernel{
///             .source = R"(
///                 extern "C" __global__ void twice(const float *x, float *y, long long n) {
///                     long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
///                     if (i < n)
///                         y[i] = 2 * x[i];
///                 })",
///             .entry = "twice",
///             .launch = [](std::span<const lz::CallInput> in, std::span<const lz::CallOutput>) {
///                 const auto blocks = static_cast<unsigned>((in[0].numel + 255) / 256);
///                 return lz::CudaLaunch{.blocks = {blocks}, .threads = {256}, .arguments = {in[0].numel}};
///             }});
///     lz::Tensor y = lz::call("my.double", {x.cuda()})[0];

#include "lazuli/call.h"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lz {

/// Where a function puts its work.
struct CudaCallStream {
    void *stream; ///< a CUstream, which is a cudaStream_t
    int device;   ///< `cuda:0` is 0
};

/// Puts the work of an operation on the stream. Operands and results are as for a CallFunction, but their
/// data are addresses of the device, which the host must not read. The device's primary context is current,
/// so the driver and CUDA's runtime can be called as they are; it must neither wait for the stream nor use
/// Lazuli's tensors. What it throws is the StateError of this operation at the next sync (S26). It is called
/// once for each time that the operation is launched.
using CudaCallFunction = std::function<void(
    std::span<const CallInput> operands, std::span<const CallOutput> results, const CudaCallStream &stream)>;

/// How a kernel is launched for certain operands and results.
struct CudaLaunch {
    std::array<unsigned, 3> blocks{1, 1, 1};  ///< of the grid; 0 stands for 1 behind the first axis
    std::array<unsigned, 3> threads{1, 1, 1}; ///< of a block; likewise
    std::vector<int64_t> arguments;           ///< integers behind the addresses
};

/// A kernel as text. NVRTC compiles it when a GPU needs it first, without contraction of products and sums
/// (`--fmad=false`), and it is kept in the kernel cache.
struct CudaKernel {
    std::string source; ///< CUDA C++, best without headers: NVRTC has no path to them
    std::string entry;  ///< its `extern "C" __global__` function
    /// The kernel's parameters are the addresses of all operands, of all results, and CudaLaunch::arguments
    /// (`long long`, or a shorter integer). A grid without blocks launches nothing. Called as a
    /// CudaCallFunction is.
    std::function<CudaLaunch(std::span<const CallInput> operands, std::span<const CallOutput> results)>
        launch;
    unsigned shared_bytes = 0; ///< of dynamic shared memory
};

/// From now on `lz::call(name, ...)` does this on CUDA devices, and nothing on others: there it is a
/// StateError at the next sync. Throws StateError for an empty name, a name that is taken, and what lacks a
/// function, a source or an entry. A source that does not compile, or whose kernel has other parameters than
/// it is launched with, is a CompileError of the operation at the next sync, with the compiler's words.
LZ_API void register_cuda_call(std::string name, CallTypes types, CudaCallFunction function,
                               Location loc = Location::current());
/// The same for a kernel.
LZ_API void register_cuda_call(std::string name, CallTypes types, CudaKernel kernel,
                               Location loc = Location::current());
/// The same beside what register_call has put under the name, which stays for the CPU and for virtual GPUs.
/// Programs that were compiled before stay as they are. Throws StateError too where the name is not
/// registered.
LZ_API void register_cuda_call(std::string name, CudaCallFunction function,
                               Location loc = Location::current());
/// The same for a kernel.
LZ_API void register_cuda_call(std::string name, CudaKernel kernel, Location loc = Location::current());

} // namespace lz
