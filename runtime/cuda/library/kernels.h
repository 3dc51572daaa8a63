#pragma once
/// Functions of the library that are kernels on GPUs: their code, and how they are launched.

#include "ir/host/calls.h"
#include "runtime/api/backend.h"
#include "runtime/api/kernel_source.h"
#include "runtime/cuda/device.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lz::runtime::cuda {

/// Code of the library's kernels on one device, compiled when a call needs it first. May be used from many
/// threads at once.
class LibraryKernels {
public:
    static constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1; ///< of a grid along x

    /// `load` may be empty: then nothing that needs a kernel can be called. `most_blocks`: of a launch.
    LibraryKernels(const CudaDevice &device, Backend &backend, SourceLoader load,
                   int64_t most_blocks = kMostBlocks)
        : device_(device), backend_(backend), load_(std::move(load)), most_blocks_(most_blocks) {}

    const CudaDevice &device() const { return device_; }
    int64_t most_blocks() const { return most_blocks_; }
    /// `make` says what the source is where that is not known under this name. Throws Failure(Compile).
    const Module &find(const std::string &name, const std::function<KernelSource()> &make) const;
    /// Within the device's memory, in the stream's order.
    void copy(void *to, const void *from, int64_t bytes, void *stream) const;
    /// What puts a call of the user's on a stream.
    LibraryFn bind(const ir::CudaCall &call) const;

private:
    const CudaDevice &device_;
    Backend &backend_;
    const SourceLoader load_;
    const int64_t most_blocks_;
    mutable std::mutex mutex_;
    mutable std::map<std::string, std::shared_ptr<const Module>, std::less<>> modules_;
    struct BoundCall {
        const LibraryKernels *kernels;
        const ir::CudaCall *call;
    };
    mutable std::map<const ir::CudaCall *, BoundCall> calls_;
};

/// Launches kernels of one source, one after the other on a stream. The device's context is current.
class KernelLauncher {
public:
    KernelLauncher(const LibraryKernels &kernels, const Module &code, void *stream)
        : device_(kernels.device()), most_blocks_(kernels.most_blocks()), code_(code), stream_(stream) {}

    /// `blocks` blocks, or as many as a launch may have: kernels go on with the others in turns. Nothing
    /// where there are none. Arguments are what the kernel's parameters are, to the byte. Throws
    /// Failure(Cuda).
    template <class... Arguments>
    void operator()(const char *entry, int64_t blocks, unsigned threads, Arguments... arguments) const {
        void *parameters[] = {&arguments...};
        launch(entry, {static_cast<uint32_t>(std::min(blocks, most_blocks_)), 1, 1}, {threads, 1, 1},
               parameters);
    }
    using Extents = std::array<uint32_t, 3>;
    void launch(const std::string &entry, const Extents &blocks, const Extents &threads,
                void **parameters) const;

private:
    const CudaDevice &device_;
    const int64_t most_blocks_;
    const Module &code_;
    void *const stream_;
};

/// Arrays in the scratch of a call on a GPU, one after another, 64-byte aligned.
class DeviceScratch {
public:
    explicit DeviceScratch(const LibraryArgs &args)
        : next_(args.scratch.data()), left_(args.scratch.size()) {}
    template <class T>
    T *take(int64_t count) {
        return reinterpret_cast<T *>(take_bytes(count * static_cast<int64_t>(sizeof(T))));
    }
    std::byte *take_bytes(int64_t bytes);
    /// What an array of so many bytes takes.
    static int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

private:
    std::byte *next_;
    size_t left_;
};

/// A function of the library: what passes know of it, and what puts it on args.driver_stream.
struct CudaFunction : ir::LibraryRule {
    using Bound = void (*)(const void *kernels, const LibraryArgs &args);
    Bound run;
    /// What it launches for a call with these integers; nothing where that is no kernel.
    std::optional<KernelSource> (*source)(std::span<const int64_t> ints);
    LibraryFn bind(const LibraryKernels &kernels) const { return {run, &kernels}; }
};
/// Null where the library has no kernels for it.
const CudaFunction *find_cuda_function(std::string_view symbol);

// One file each. They give the bits of the functions of the CPU (runtime/api/library.h), whose arguments they
// take, and do not depend on which thread or block is when.
void run_call(const LibraryKernels &kernels, const ir::CudaCall &call, const LibraryArgs &args);
int64_t scan_scratch(std::span<const int64_t> ints, const ir::DeviceInfo &device);
int64_t extremes_scratch(std::span<const int64_t> ints, const ir::DeviceInfo &device);
std::optional<KernelSource> scan_sum_source(std::span<const int64_t> ints);
std::optional<KernelSource> scan_product_source(std::span<const int64_t> ints);
std::optional<KernelSource> scan_largest_source(std::span<const int64_t> ints);
std::optional<KernelSource> scan_smallest_source(std::span<const int64_t> ints);
void scan_sum(const LibraryKernels &kernels, const LibraryArgs &args);
void scan_product(const LibraryKernels &kernels, const LibraryArgs &args);
void scan_largest(const LibraryKernels &kernels, const LibraryArgs &args);
void scan_smallest(const LibraryKernels &kernels, const LibraryArgs &args);
int64_t scatter_scratch(std::span<const int64_t> ints, const ir::DeviceInfo &device);
std::optional<KernelSource> scatter_source(std::span<const int64_t> ints);
void scatter(const LibraryKernels &kernels, const LibraryArgs &args);
int64_t sort_scratch(std::span<const int64_t> ints, const ir::DeviceInfo &device);
std::optional<KernelSource> sort_source(std::span<const int64_t> ints);
void sort(const LibraryKernels &kernels, const LibraryArgs &args);

} // namespace lz::runtime::cuda
