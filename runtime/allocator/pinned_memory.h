#pragma once
/// Page-locked memory of the host, for the caching allocator of all GPUs of a process.

#include "runtime/api/backend.h"

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace lz::runtime {

/// As the first GPU gives it that is not lost; all of them can use it.
class PinnedMemory final : public MemorySource {
public:
    /// The GPUs, at least one, and the CPU outlive this.
    PinnedMemory(std::span<const std::unique_ptr<Backend>> gpus, Backend &cpu) : gpus_(gpus), cpu_(cpu) {}
    Device device() const override { return ir::kCpu; }
    std::string name() const override { return "pinned"; }
    void *allocate(size_t bytes) override;
    void free(void *memory, size_t bytes) noexcept override { take_giver(memory).free_pinned(memory, bytes); }
    bool free_waits() const override { return gpus_[0]->free_waits(); }
    size_t total_memory() const override { return cpu_.total_memory(); }
    size_t free_memory() const override { return cpu_.free_memory(); }

private:
    void note(void *memory, size_t bytes, Backend &giver);
    Backend &take_giver(void *memory) noexcept;

    const std::span<const std::unique_ptr<Backend>> gpus_;
    Backend &cpu_;
    std::mutex mutex_;
    std::map<void *, Backend *> from_others_; ///< what the first GPU did not give
};

} // namespace lz::runtime
