#pragma once
/// The GPUs of this machine, or why there are none. No header of CUDA is needed to include this.

#include "runtime/api/backend.h"
#include "runtime/api/kernel_source.h"
#include "runtime/api/persistent_store.h"
#include "runtime/cuda/driver/libraries.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lz::runtime::cuda {

struct Gpus {
    std::vector<std::unique_ptr<Backend>> backends; ///< cuda:0, cuda:1, ...
    Library nvrtc; ///< that compiles for them; none where the options want none
    /// What was found, or why there is none: a whole sentence.
    std::string availability;
};

struct GpuOptions {
    bool graphs = true;               ///< runs that come again may be launched as graphs
    bool expandable_segments = true;  ///< segments of the caching allocator may grow where they are
    SourceLoader load_source = {};    ///< called when a kernel of the library is needed first
    PersistentStore *store = nullptr; ///< outlives the GPUs; null: nothing is kept
    bool compiles = true;             ///< false: NVRTC is not looked for, and nothing is compiled
};
Gpus open_gpus(const Search &search, GpuOptions options);
/// What makes products on GPUs that were opened: cuBLASLt, or kernels of Lazuli's and why; whole sentences.
/// Opens cuBLASLt, which can take a second.
std::string describe_products();
/// Why cuBLASLt cannot make products on GPUs that were opened, a sentence; empty: it can. Opens it likewise.
std::string why_no_cublaslt();

/// The kernel that a call of a function of the library launches on a CUDA device, or may: nothing where that
/// is none of the library's own. `ints` as the call's.
std::optional<KernelSource> library_source(std::string_view symbol, std::span<const int64_t> ints);

} // namespace lz::runtime::cuda
