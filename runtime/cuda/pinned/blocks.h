#pragma once
/// Pinned memory that work on streams has for a while, and that is used again.

#include "runtime/cuda/device.h"
#include "runtime/cuda/stream.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace lz::runtime::cuda {

/// For tables of segments, and operands of functions that run on the host. From any thread.
class PinnedBlocks {
public:
    /// Of what nobody uses, no more than `most_unused` bytes are kept for the next one.
    PinnedBlocks(const CudaDevice &device, size_t most_unused) : device_(device), most_unused_(most_unused) {}
    /// What is on the streams is done.
    ~PinnedBlocks();
    PinnedBlocks(const PinnedBlocks &) = delete;
    PinnedBlocks &operator=(const PinnedBlocks &) = delete;

    /// A block for work that is put on one stream.
    class Lease {
    public:
        /// The device's context is current. Throws Failure(OutOfMemory).
        Lease(PinnedBlocks &blocks, size_t bytes, CudaStream &stream);
        ~Lease() { give_back(); }
        Lease(const Lease &) = delete;
        Lease &operator=(const Lease &) = delete;
        std::byte *memory() const { return memory_; }
        /// All work that uses the block has been put: it is free when the stream has come here. Without this
        /// the stream has to come to what is put when the lease dies.
        void give_back() noexcept;

    private:
        PinnedBlocks &blocks_;
        CudaStream &stream_;
        std::byte *memory_;
    };

    /// Bytes of all blocks, used or not.
    size_t bytes() const;

private:
    struct PinnedBlock {
        std::byte *memory;
        size_t bytes;
        CudaStream *stream;
        uint64_t tick; ///< of the stream: from when on it is free
    };
    static constexpr uint64_t kLeased = UINT64_MAX;
    static bool is_free(const PinnedBlock &block) {
        return block.tick != kLeased && block.stream->reached(block.tick);
    }
    std::byte *take(size_t bytes, CudaStream &stream);
    void give_back(const std::byte *memory, uint64_t tick) noexcept;
    std::vector<std::byte *> trim();

    const CudaDevice &device_;
    const size_t most_unused_;
    mutable std::mutex mutex_;
    std::vector<PinnedBlock> blocks_; ///< from the smallest to the largest
    size_t bytes_ = 0, leased_ = 0;
};

} // namespace lz::runtime::cuda
