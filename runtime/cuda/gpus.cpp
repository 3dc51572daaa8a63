#include "runtime/cuda/gpus.h"

#include "ir/diagnostic.h"
#include "runtime/cuda/backend.h"
#include "runtime/cuda/library/matmul.h"

#include <fmt/format.h>

#include <forward_list>
#include <mutex>

namespace lz::runtime::cuda {

namespace {

/// The functions of an open driver, as long as the process lives: as the library itself.
const Driver &keep(const Library &library) {
    static std::mutex mutex;
    static auto *const drivers = new std::forward_list<Driver>; // statics' destructors may use GPUs
    const std::lock_guard lock(mutex);
    return drivers->emplace_front(library);
}

} // namespace

Gpus open_gpus(const Search &search, GpuOptions options) {
    Gpus found;
    const Library library = open_driver(search);
    if (library && options.compiles)
        found.nvrtc = open_nvrtc(search, library);
    found.availability = options.compiles ? availability(library, found.nvrtc) : library.missing;
    if (!library || !found.nvrtc)
        return found;
    try {
        const Driver &driver = keep(library);
        prepare_cublaslt(search, library, found.nvrtc);
        std::string none;
        found.backends = make_cuda_gpus(driver,
                                        {.graphs = options.graphs,
                                         .expandable_segments = options.expandable_segments,
                                         .load_source = std::move(options.load_source),
                                         .store = options.store},
                                        none);
        if (found.backends.empty())
            found.availability = none;
    } catch (const ir::Failure &failure) {
        found.backends.clear();
        found.availability = "The GPUs cannot be used: " + failure.message();
    }
    return found;
}

std::string why_no_cublaslt() {
    return cublaslt().missing;
}

std::optional<KernelSource> library_source(std::string_view symbol, std::span<const int64_t> ints) {
    if (symbol == "dot")
        return matmul_source(ints);
    const CudaFunction *const function = find_cuda_function(symbol);
    return function ? function->source(ints) : std::nullopt;
}

std::string describe_products() {
    const Library library = cublaslt();
    if (!library)
        return "Products are made by kernels of Lazuli's, which are slower than cuBLASLt. " + library.missing;
    return fmt::format("Products are made by cuBLASLt {}.{} ({}).", library.major(),
                       library.version % 1000 / 10, library.path);
}

} // namespace lz::runtime::cuda
