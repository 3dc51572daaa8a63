#pragma once
/// Page-locked memory of the host as a source for a caching allocator.

#include "runtime/api/backend.h"
#include "runtime/host_memory.h"

#include <atomic>

namespace lz::runtime {

/// Pinned memory comes from `backend`, a GPU's, and is good for all of its kind. At most `limit` bytes; 0:
/// half of the host's memory, because locked pages are lost to everybody else.
class PinnedMemory final : public MemorySource {
public:
    explicit PinnedMemory(Backend &backend, size_t limit = 0)
        : backend_(backend), limit_(limit ? limit : physical_memory() / 2) {}

    Device device() const override { return ir::kCpu; }
    std::string name() const override { return "pinned"; }
    void *allocate(size_t bytes) override;
    void free(void *memory, size_t bytes) noexcept override;
    size_t total_memory() const override { return limit_; }
    size_t free_memory() const override;

private:
    Backend &backend_;
    const size_t limit_;
    std::atomic<size_t> given_{0};
};

} // namespace lz::runtime
