#pragma once
/// Statistics of a caching allocator, with PyTorch's names and meanings.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lz::runtime {

struct Stat {
    int64_t current = 0;
    int64_t peak = 0;
    int64_t allocated = 0; ///< sum of all increases since the sums were reset
    int64_t at_reset = 0;  ///< `current` then

    /// Sum of all decreases since then: what the others say, so that an allocation has less to write.
    int64_t freed() const { return at_reset + allocated - current; }

    void add(int64_t amount) {
        current += amount;
        allocated += amount;
        if (current > peak)
            peak = current;
    }
    void sub(int64_t amount) { current -= amount; }
    void reset_sums() {
        allocated = 0;
        at_reset = current;
    }
};

enum class StatPool : uint8_t { All, SmallPool, LargePool };
/// One a pool.
struct StatSet {
    std::array<Stat, 3> pools;
    Stat &operator[](StatPool pool) { return pools[static_cast<size_t>(pool)]; }
    const Stat &operator[](StatPool pool) const { return pools[static_cast<size_t>(pool)]; }
};

struct AllocatorStats {
    StatSet allocation;      ///< blocks handed out
    StatSet segment;         ///< blocks of the driver's
    StatSet active;          ///< blocks handed out or still used by a stream
    StatSet inactive_split;  ///< free parts of split segments, which cannot go back to the driver
    StatSet allocated_bytes; ///< memory_allocated
    StatSet reserved_bytes;  ///< memory_reserved
    StatSet active_bytes;
    StatSet inactive_split_bytes;
    StatSet requested_bytes;   ///< allocated_bytes before rounding
    Stat oversize_allocations; ///< not smaller than max_split_size
    Stat oversize_segments;
    int64_t num_alloc_retries = 0; ///< the driver had none, the cache was given back and it was asked again
    int64_t num_ooms = 0;
    int64_t num_device_alloc = 0;
    int64_t num_device_free = 0;
    int64_t max_split_size = -1; ///< -1: none

    /// Calls f with each Stat.
    template <class F>
    void for_each(F f) {
        for (StatSet *set : {&allocation, &segment, &active, &inactive_split, &allocated_bytes,
                             &reserved_bytes, &active_bytes, &inactive_split_bytes, &requested_bytes})
            for (Stat &stat : set->pools)
                f(stat);
        f(oversize_allocations);
        f(oversize_segments);
    }

    /// Every number under its name in torch.cuda.memory_stats (`allocated_bytes.all.current`), sorted by
    /// name.
    std::vector<std::pair<std::string, int64_t>> named() const;
};

enum class BlockState : uint8_t {
    Allocated,   ///< handed out
    PendingFree, ///< freed, and a stream is not done with it
    Free,
};

struct BlockInfo {
    uintptr_t address;
    int64_t size;
    int64_t requested; ///< 0 when free
    BlockState state;
};

/// One block of the driver's, cut into blocks that follow each other.
struct SegmentInfo {
    uintptr_t address;
    int64_t size;
    int32_t stream;
    bool small;
    std::vector<BlockInfo> blocks;
};

/// `1.50 GiB`, `512 B`.
std::string human_bytes(int64_t bytes);
/// The table of torch.cuda.memory_summary.
std::string memory_summary(const AllocatorStats &stats, const std::string &device);
/// JSON in the form of torch.cuda.memory_snapshot; `source` is whose memory it is (`cuda:0`, `pinned`).
std::string memory_snapshot(const std::vector<SegmentInfo> &segments, int device_index,
                            const std::string &source);

} // namespace lz::runtime
