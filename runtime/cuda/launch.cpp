#include "runtime/cuda/launch.h"

#include "runtime/api/unaligned_kernel.h"

#include <algorithm>
#include <cstring>

namespace lz::runtime::cuda {

namespace {
/// Grids have this many blocks along x at the most; kernels take what is left in turns.
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
} // namespace

const Entry &entry_for(const Backend::Launch &launch, std::span<const ir::KernelFrame> frames) {
    const Entry &entry = *static_cast<const Entry *>(launch.entry);
    if (ir::is_aligned(entry.phase, frames)) [[likely]]
        return entry;
    LZ_CHECK(launch.unaligned, "a launch whose addresses are not aligned is of a kernel for aligned ones");
    return *static_cast<const Entry *>(launch.unaligned->entry(launch.phase));
}

DriverLaunch::DriverLaunch(const CudaDevice &device, const Entry &entry,
                           std::span<const ir::KernelFrame> frames, const int64_t *ends, int64_t before)
    : phase_(entry.phase), frames_(frames), ends_(ends), items_(ends[frames.size() - 1] - before),
      segments_(static_cast<uint32_t>(frames.size())) {
    if (items_ == 0)
        return;
    blocks_ = static_cast<unsigned>(phase_.blocks(items_, kMostBlocks));
    function_ = entry.function(device);
    if (phase_.record_bytes == 0) {
        parameters_.resize(phase_.parameters.size());
        ir::point_parameters(phase_, frames_[0], items_, parameters_);
        return;
    }
    if (before > 0) {
        for (size_t s = 0; s < frames_.size(); ++s)
            own_ends_.push_back(ends[s] - before);
        ends_ = own_ends_.data();
    }
    if (phase_.table_bytes == 0) {
        table_bytes_ = segments_ * size_t{phase_.record_bytes};
        parameters_ = {&memory_, &segments_};
        return;
    }
    table_.resize(phase_.table_bytes);
    ir::pack_table(phase_, frames_, ends_, table_.data());
    parameters_ = {table_.data(), &segments_};
}

void DriverLaunch::set_table(std::byte *memory) {
    memory_ = memory;
    ir::pack_table(phase_, frames_, ends_, memory);
}

CUresult DriverLaunch::put(const Driver &driver, CUstream stream) {
    return driver.cuLaunchKernel(function_, blocks_, 1, 1, phase_.threads, 1, 1, phase_.shared_bytes, stream,
                                 parameters_.data(), nullptr);
}

CUDA_KERNEL_NODE_PARAMS DriverLaunch::node() {
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = function_;
    params.gridDimX = blocks_;
    params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = phase_.threads;
    params.blockDimY = params.blockDimZ = 1;
    params.sharedMemBytes = phase_.shared_bytes;
    params.kernelParams = parameters_.data();
    return params;
}

} // namespace lz::runtime::cuda
