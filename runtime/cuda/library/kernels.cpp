#include "runtime/cuda/library/kernels.h"

#include "ir/diagnostic.h"
#include "runtime/cuda/module.h"

#include <fmt/format.h>

namespace lz::runtime::cuda {

namespace {

template <void (*run)(const LibraryKernels &, const LibraryArgs &)>
void bound(const void *kernels, const LibraryArgs &args) {
    run(*static_cast<const LibraryKernels *>(kernels), args);
}

constexpr CudaFunction kFunctions[] = {
    {{"cumsum", scan_scratch}, bound<scan_sum>, scan_sum_source},
    {{"cumprod", scan_scratch}, bound<scan_product>, scan_product_source},
    {{"cummax", extremes_scratch}, bound<scan_largest>, scan_largest_source},
    {{"cummin", extremes_scratch}, bound<scan_smallest>, scan_smallest_source},
    {{"scatter", scatter_scratch}, bound<scatter>, scatter_source},
    {{"sort", sort_scratch}, bound<sort>, sort_source},
    {{"topk", sort_scratch}, bound<sort>, sort_source},
};

} // namespace

const CudaFunction *find_cuda_function(std::string_view symbol) {
    const auto *const found = std::ranges::find(kFunctions, symbol, &CudaFunction::symbol);
    return found == std::end(kFunctions) ? nullptr : found;
}

const Module &LibraryKernels::find(const std::string &name, const std::function<KernelSource()> &make) const {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const Module> &module = modules_[name];
    if (!module) {
        if (!load_)
            throw ir::Failure(ir::ErrorKind::Compile,
                              fmt::format("{} has no compiler for the kernels of {}.", device_.name(), name));
        module = load_(make(), backend_);
    }
    return *module;
}

void LibraryKernels::copy(void *to, const void *from, int64_t bytes, void *stream) const {
    device_.check(device_.driver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                                 reinterpret_cast<CUdeviceptr>(from),
                                                 static_cast<size_t>(bytes), static_cast<CUstream>(stream)),
                  "a copy");
}

LibraryFn LibraryKernels::bind(const ir::CudaCall &call) const {
    const std::lock_guard lock(mutex_);
    const BoundCall &bound = calls_.try_emplace(&call, BoundCall{this, &call}).first->second;
    return {[](const void *self, const LibraryArgs &args) {
                const auto &[kernels, what] = *static_cast<const BoundCall *>(self);
                run_call(*kernels, *what, args);
            },
            &bound};
}

void KernelLauncher::launch(const std::string &entry, const Extents &blocks, const Extents &threads,
                            void **parameters) const {
    if (std::ranges::find(blocks, 0U) != blocks.end())
        return;
    const auto &found = *static_cast<const Entry *>(code_.entry(entry));
    const CUfunction function = found.function(device_);
    device_.check(device_.driver().cuLaunchKernel(function, blocks[0], blocks[1], blocks[2], threads[0],
                                                  threads[1], threads[2], found.phase.shared_bytes,
                                                  static_cast<CUstream>(stream_), parameters, nullptr),
                  "a launch of `" + entry + "`");
}

std::byte *DeviceScratch::take_bytes(int64_t bytes) {
    const auto whole = static_cast<size_t>(rounded(bytes));
    LZ_CHECK(whole <= left_, "a function of the library has less scratch than its rule asks for");
    std::byte *const array = next_;
    next_ += whole;
    left_ -= whole;
    return array;
}

} // namespace lz::runtime::cuda
