#pragma once
/// The functions behind the library's symbols (runtime/api/library.h), one file each, and the bytes of
/// scratch that they need.

#include "ir/target.h"
#include "runtime/api/library.h"
#include "runtime/api/parallel.h"

namespace lz::runtime {

using Ints = std::span<const int64_t>;

/// Threads that share a call for this device: for a CUDA device the functions run on the host.
inline int threads_for(const ir::DeviceInfo &device) {
    return device.runs_cuda() ? num_threads() : device.cpu().threads;
}

void concat(const LibraryArgs &args);
int64_t concat_scratch(Ints ints, const ir::DeviceInfo &device);

void cumsum(const LibraryArgs &args);
void cumprod(const LibraryArgs &args);
void cummax(const LibraryArgs &args);
void cummin(const LibraryArgs &args);

void sort(const LibraryArgs &args);
int64_t sort_scratch(Ints ints, const ir::DeviceInfo &device);
void topk(const LibraryArgs &args);
int64_t topk_scratch(Ints ints, const ir::DeviceInfo &device);

void scatter(const LibraryArgs &args);
int64_t scatter_scratch(Ints ints, const ir::DeviceInfo &device);

/// What is registered for `call` under this name, or nothing.
LibraryFn find_registered_call(std::string_view name);
int64_t registered_call_scratch(Ints ints, const ir::DeviceInfo &device);

} // namespace lz::runtime
