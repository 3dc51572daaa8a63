#pragma once
/// The parts of the caching allocator: blocks, the free ones by size, and all that are in use by address.
/// None of them locks.

#include "runtime/api/backend.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace lz::runtime {

inline constexpr size_t kMinBlock = 512; ///< unit of sizes and addresses
inline constexpr StreamId kNotLent = -1;

/// A run of bytes of one segment, or of its addresses that have no memory. Neighbours that are free are
/// always merged, and so are neighbours without memory.
struct Block {
    char *memory = nullptr;
    size_t size = 0;
    size_t requested = 0;
    Block *before = nullptr, *after = nullptr;  ///< neighbours in the segment
    Block *previous = nullptr, *next = nullptr; ///< in the bin of a FreeBlocks, among holes, or leaving
    StreamId stream = 0;
    StreamId lent_to = kNotLent; ///< in use on this stream, which is not its own
    bool small = false;          ///< of the small pool
    bool mapped = true;          ///< has memory; else it is a hole in an expandable segment
    bool expandable = false;     ///< of such a segment
    bool in_use = false;
    bool leaving = false;  ///< on its way back to the driver: in no free list
    bool oversize = false; ///< not smaller than max_split_size when it was handed out
    uint32_t guards = 0;   ///< freed, and so many streams are not done with it
    uint64_t freed_at = 0; ///< count of the allocator's requests

    /// What is free of it cannot go back to the driver for what is used beside it.
    bool split() const { return !expandable && (before || after); }
    bool free() const { return mapped && !in_use && !leaving && guards == 0; }
};

/// Free blocks of one pool of one stream. Sizes up to 2 MiB have a bin each, larger ones 16 bins a power of
/// two, kept in order of size; a bitmap finds the next bin that is not empty. So all but insertion among many
/// large blocks of nearly one size is a few instructions, and the fit is the best one.
class FreeBlocks {
public:
    void insert(Block *block);
    void remove(Block *block);
    /// The smallest block of at least `size` bytes, of equals the one inserted last; nullptr when there is
    /// none. It stays where it is.
    Block *best_fit(size_t size) const;
    /// The largest block; nullptr when there is none.
    Block *largest() const;

    template <class F>
    void for_each(F f) const {
        for (Block *head : bins_)
            for (Block *block = head; block;) {
                Block *next = block->next;
                f(block);
                block = next;
            }
    }

private:
    static constexpr size_t kExact = 4096, kPerPower = 16, kPowers = 44;
    static constexpr size_t kBins = kExact + kPerPower * kPowers;
    static constexpr size_t kWords = (kBins + 63) / 64;
    static constexpr size_t kTops = (kWords + 63) / 64;

    static size_t bin_of(size_t size);
    /// The first bin from `bin` that is not empty, or kBins.
    size_t next_bin(size_t bin) const;

    std::array<Block *, kBins> bins_{};
    std::array<uint64_t, kWords> filled_{};
    std::array<uint64_t, kTops> filled_words_{};
};

/// Blocks by address: open addressing, linear probing, deletion without tombstones.
class BlockTable {
public:
    BlockTable() : slots_(1024) {}
    /// Makes room for one more; the only thing here that may throw.
    void make_room() {
        if (2 * (count_ + 1) > slots_.size()) [[unlikely]]
            grow();
    }
    /// There is room.
    void insert(Block *block) noexcept;
    /// The block at this address, or nullptr.
    Block *find(const void *memory) const;
    /// Likewise, and forgets it.
    Block *take(const void *memory);
    size_t size() const { return count_; }

private:
    size_t home(const void *memory) const {
        auto key = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(memory)) / kMinBlock;
        return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> shift_);
    }
    size_t position(const void *memory) const;
    void grow();

    std::vector<Block *> slots_;
    size_t count_ = 0;
    int shift_ = 54; ///< 64 - log2 of the number of slots
};

/// Where Blocks live; they are reused and never given back before the end.
class BlockArena {
public:
    /// Sees to it that kMost can be made; the only thing here that may throw.
    void make_room() {
        while (spare_ < kMost) [[unlikely]]
            grow();
    }
    /// A block whose fields say nothing yet: who takes it sets all of them. There is room.
    Block *make() noexcept {
        Block *const block = free_;
        free_ = block->next;
        --spare_;
        return block;
    }
    void recycle(Block *block) noexcept {
        block->next = free_;
        free_ = block;
        ++spare_;
    }

private:
    /// A new segment is a hole, the memory put there, and what a request leaves of that.
    static constexpr size_t kMost = 3;
    void grow();

    std::deque<Block> blocks_;
    Block *free_ = nullptr; ///< linked by `next`
    size_t spare_ = 0;      ///< in that list
};

} // namespace lz::runtime
