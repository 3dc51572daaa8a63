#pragma once
/// Launches as the driver takes them.

#include "runtime/api/backend.h"
#include "runtime/cuda/module.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lz::runtime::cuda {

/// One call of cuLaunchKernel. It points into the frames that it was made of, which stay until it has been
/// put on a stream; so it stays where it is.
class DriverLaunch {
public:
    /// Of these segments; ends[s]: the items of segments 0..s together and of `before`, those in front of
    /// them. A table in memory is written to `memory`, table_bytes() of them.
    DriverLaunch(const CudaDevice &device, const Entry &entry, std::span<const ir::KernelFrame> frames,
                 const int64_t *ends, int64_t before);
    DriverLaunch(const DriverLaunch &) = delete;
    DriverLaunch &operator=(const DriverLaunch &) = delete;

    bool empty() const { return blocks_ == 0; }
    /// Bytes of a table that has to be in memory; 0: none has.
    size_t table_bytes() const { return table_bytes_; }
    void set_table(std::byte *memory);

    CUresult put(const Driver &driver, CUstream stream);
    CUDA_KERNEL_NODE_PARAMS node();

private:
    const ir::CompiledPhase &phase_;
    std::span<const ir::KernelFrame> frames_;
    const int64_t *ends_;
    int64_t items_ = 0;
    unsigned blocks_ = 0;
    CUfunction function_ = nullptr;
    uint32_t segments_;
    size_t table_bytes_ = 0;
    std::byte *memory_ = nullptr;
    std::vector<int64_t> own_ends_;
    std::vector<std::byte> table_;
    std::vector<void *> parameters_;
};

/// The launch's entry, or that of its UnalignedKernel where these frames need it, which may have to be made:
/// that takes a while, and may throw Failure(Compile).
const Entry &entry_for(const Backend::Launch &launch, std::span<const ir::KernelFrame> frames);

/// Calls f(DriverLaunch &) for each call of the driver that a launch is: as many segments at a time as the
/// entry takes, none without items. `over(uint32_t)`: so many segments are over.
template <class F, class Over = void (*)(uint32_t)>
void for_each_driver_launch(
    const CudaDevice &device, const Backend::Launch &launch, F &&f, Over &&over = [](uint32_t) {}) {
    const uint32_t most = static_cast<const Entry *>(launch.entry)->phase.most_segments();
    const std::span frames(launch.frames, launch.segments);
    for (uint32_t first = 0; first < launch.segments;) {
        const uint32_t count = std::min(launch.segments - first, most);
        const int64_t before = first ? launch.ends[first - 1] : 0;
        if (launch.ends[first + count - 1] > before) {
            const auto some = frames.subspan(first, count);
            DriverLaunch one(device, entry_for(launch, some), some, launch.ends + first, before);
            f(one);
        }
        first += count;
        over(first);
    }
}

} // namespace lz::runtime::cuda
