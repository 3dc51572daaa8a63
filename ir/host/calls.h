#pragma once
/// What the op `call` does: functions of the host, and of CUDA devices, by the symbol that the node names.
/// The interpreter calls them, and so do the library calls that `call` becomes on the CPU and on virtual
/// GPUs. One registry a process; every function may be called from any thread.

#include "ir/diagnostic.h"
#include "ir/types/dtype.h"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lz::ir {

/// Before the symbol of a `call`, in Program steps: the library's own symbols have none.
inline constexpr std::string_view kCallPrefix = "call:";

/// An operand or result as a function sees it: dense row-major memory of the host. Strides are in elements.
/// `data` is not to be used where there are no elements.
struct CallTensor {
    void *data;
    DType dtype;
    std::span<const int64_t> shape, strides;
};

/// Writes all of each result, and of the operands only those that the node says are written. The same
/// operands give the same results: it may be called again for what was computed before. May be called from
/// several threads at once; must not use the engine. What it throws is a Failure(State) of the node.
using CallFn = std::function<void(std::span<const CallTensor> operands, std::span<const CallTensor> results)>;

struct RegisteredCall {
    std::string name;
    CallFn function;
};

/// There from now on to the end of the process. Throws Failure(State) for an empty name, a function that is
/// none, and a name that is taken.
void register_call(std::string name, CallFn function);
/// Null where nothing has this name; else stays.
const RegisteredCall *find_call(std::string_view name);
/// Says that nothing has this name where it was looked for, and which names there are.
Failure unknown_call(std::string_view name);

/// How a kernel of a CudaCall is launched.
struct CudaGrid {
    std::array<uint32_t, 3> blocks{1, 1, 1}; ///< none along an axis: nothing is launched
    std::array<uint32_t, 3> threads{1, 1, 1};
    std::vector<int64_t> arguments; ///< behind the addresses
};
/// What a call does on CUDA devices: a function that puts its work on a stream of the driver's, or a kernel.
/// Tensors' data are addresses of the device.
struct CudaCall {
    std::string name;
    using Function = std::function<void(std::span<const CallTensor> operands,
                                        std::span<const CallTensor> results, int device, void *stream)>;
    Function function; ///< empty: the kernel is meant
    /// CUDA C++, and its `extern "C" __global__` function, which is given the addresses of operands and
    /// results and the grid's arguments.
    std::string source, entry;
    uint32_t shared_bytes = 0; ///< of dynamic shared memory
    std::function<CudaGrid(std::span<const CallTensor> operands, std::span<const CallTensor> results)> grid;
};
/// There from now on to the end of the process. `beside`: a function of the host has the name, and keeps it
/// for other devices; else nothing has. Throws Failure(State) where that is not so, for an empty name, a name
/// that CUDA devices have, and where there is neither function nor kernel.
void register_cuda_call(CudaCall call, bool beside);
/// Null where CUDA devices have nothing of this name; else stays.
const CudaCall *find_cuda_call(std::string_view name);

/// Calls it; gives the sentence that says what it threw, or nothing. What cannot get memory throws
/// std::bad_alloc.
std::string run_call(const RegisteredCall &call, std::span<const CallTensor> operands,
                     std::span<const CallTensor> results);

/// The same for a function of a CUDA device, or, where it has a kernel, for what says the grid.
std::string run_cuda_call(const CudaCall &call, std::span<const CallTensor> operands,
                          std::span<const CallTensor> results, int device, void *stream, CudaGrid &grid);

/// Such a sentence by number, for a Fault, which has room for a number only. Of many the oldest are
/// forgotten, and another sentence stands for them.
int64_t keep_call_error(std::string text);
std::string call_error(int64_t number);

} // namespace lz::ir
