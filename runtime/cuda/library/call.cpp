// What the user registered for CUDA devices, as library calls.
#include "runtime/library/call.h"

#include "ir/diagnostic.h"
#include "runtime/cuda/library/kernels.h"

#include <fmt/format.h>

#include <vector>

namespace lz::runtime::cuda {

namespace {

/// The driver copies as many bytes for a parameter as the kernel says, from as many places as it says: what
/// does not fit what is given has to be seen before.
std::string check_of_parameters(const ir::CudaCall &call, size_t addresses, size_t arguments) {
    return fmt::format(R"(
template <class Kernel> struct LazuliParameters;
template <class... P> struct LazuliParameters<void (*)(P...)> {{
    static const int count = sizeof...(P);
    static const bool are_words = (... && (sizeof(P) <= 8));
}};
static_assert(LazuliParameters<decltype(&{0})>::count == {1},
              "`{0}` is launched with {1} parameters: {2} addresses and {3} integers");
static_assert(LazuliParameters<decltype(&{0})>::are_words, "parameters of `{0}` are addresses and integers");
)",
                       call.entry, addresses + arguments, addresses, arguments);
}

void launch(const LibraryKernels &kernels, const ir::CudaCall &call, ir::CudaGrid &grid,
            std::span<const ir::CallTensor> tensors, void *stream) {
    const std::string name =
        fmt::format("call {} of {} and {}", call.name, tensors.size(), grid.arguments.size());
    const Module &code = kernels.find(name, [&] {
        return KernelSource{"`" + call.name + "`",
                            call.source + check_of_parameters(call, tensors.size(), grid.arguments.size()),
                            {call.entry},
                            false,
                            call.shared_bytes};
    });
    std::vector<void *> addresses, parameters;
    for (const ir::CallTensor &tensor : tensors)
        addresses.push_back(tensor.data);
    for (void *&address : addresses)
        parameters.push_back(&address);
    for (int64_t &argument : grid.arguments)
        parameters.push_back(&argument);
    KernelLauncher(kernels, code, stream).launch(call.entry, grid.blocks, grid.threads, parameters.data());
}

} // namespace

void run_call(const LibraryKernels &kernels, const ir::CudaCall &call, const LibraryArgs &args) {
    const auto operands = static_cast<size_t>(args.ints[0]);
    std::vector<CallDims> dims(count_call_tensors(args.ints));
    std::vector<ir::CallTensor> tensors(dims.size());
    read_call_tensors(args, dims.data(), tensors.data());
    const std::span<const ir::CallTensor> all(tensors);
    ir::CudaGrid grid;
    if (const std::string error = ir::run_cuda_call(call, all.first(operands), all.subspan(operands),
                                                    kernels.device().index(), args.driver_stream, grid);
        !error.empty())
        throw ir::Failure(ir::ErrorKind::State, error);
    if (!call.function)
        launch(kernels, call, grid, all, args.driver_stream);
}

} // namespace lz::runtime::cuda
