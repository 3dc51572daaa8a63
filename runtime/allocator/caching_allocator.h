#pragma once
/// The caching allocator of a device: memory comes from the Backend in segments, is handed out in blocks, and
/// stays here when it is freed. Rules, options and statistics are those of PyTorch's CUDACachingAllocator, so
/// that what is known of one holds for the other.
///
/// Sizes are rounded up to 512 bytes. A request takes the smallest free block that holds it (of equal ones
/// the one freed last, whose bytes may still be in a cache), split when enough is left; a freed block merges
/// with its free neighbours, once another one is freed or a request asks for another size. Requests up to 1
/// MiB live in segments of 2 MiB, below 10 MiB in segments of 20 MiB, larger ones in segments of their own
/// size rounded up to 2 MiB; where less than 320 MiB may be reserved the segments are smaller. Blocks belong
/// to the stream they were asked for on and go back to it. When the driver has no more, a free block of
/// another stream is lent: the stream that asked waits for the other, and the block's own stream has it again
/// when that is done with it.

#include "runtime/allocator/options.h"
#include "runtime/allocator/stats.h"
#include "runtime/api/backend.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lz::runtime {

/// A moment that has to pass before freed memory is used again.
struct Guard {
    Backend *backend;
    StreamId stream;
    uint64_t tick;
};

class CachingAllocator {
public:
    /// The source outlives the allocator. `options.caching == false` hands every request to the driver.
    explicit CachingAllocator(MemorySource &source, AllocatorOptions options = {});
    /// Gives everything back to the driver, blocks in use too.
    ~CachingAllocator();
    CachingAllocator(const CachingAllocator &) = delete;
    CachingAllocator &operator=(const CachingAllocator &) = delete;

    // All functions may be called from any thread.

    /// At least `bytes` bytes, aligned to 512, not initialised; nullptr for 0 bytes. What was put on `stream`
    /// before may still use them. When the driver has no more, free memory of other streams is taken, then
    /// the cache is given back and the driver asked again; then throws Failure(OutOfMemory), which says what
    /// was asked, what there is and what to try. Nothing is lost by that, nor by std::bad_alloc.
    void *allocate(size_t bytes, StreamId stream = 0);
    /// Takes back what `allocate` gave; nullptr is fine. Never waits for the device (S54). Work on the stream
    /// that it was allocated on may still use it; work on other streams (of any device) too, up to `guards`:
    /// the block is given out again when all of them have been reached.
    void free(void *memory, std::span<const Guard> guards = {}) noexcept;
    /// Bytes that may be used at `memory`: what was asked, rounded up.
    size_t usable_size(const void *memory) const;

    /// Gives every segment without a block in use back to the driver (S51). Does nothing on a thread that a
    /// stream may wait for, where the driver itself would wait for the stream.
    void empty_cache();
    /// Caps what is reserved to this part of the device's memory; 0 < fraction <= 1, else throws
    /// Failure(State).
    void set_memory_fraction(double fraction);

    Device device() const;
    AllocatorStats stats() const;
    void reset_peak_stats();
    void reset_accumulated_stats();
    /// The table of torch.cuda.memory_summary.
    std::string memory_summary() const;
    /// Segments with their blocks, by address.
    std::vector<SegmentInfo> segments() const;
    /// The same as JSON, in the form of torch.cuda.memory_snapshot.
    std::string memory_snapshot() const;

    /// Tests: whether free lists, neighbours and statistics agree; the first thing that does not, or "".
    std::string check_invariants() const;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace lz::runtime
