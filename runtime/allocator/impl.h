#pragma once
/// The inside of CachingAllocator. Five files: handing out and taking back (caching_allocator.cpp), segments
/// that grow where they are (expandable.cpp), what is done when the driver has no more (full.cpp), giving
/// back to the driver (release.cpp), and looking at it (inspect.cpp). Everything private expects the lock.

#include "ir/diagnostic.h"
#include "runtime/allocator/caching_allocator.h"
#include "runtime/allocator/memory_block.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace lz::runtime {

inline constexpr size_t kSmallSize = size_t{1}
                                     << 20; ///< requests of up to this many bytes use the small pool
/// The least that max_split_size_mb may be, in bytes.
inline constexpr size_t kSmallestMaxSplit = size_t{20} << 20;

inline int64_t signed_bytes(size_t bytes) {
    return static_cast<int64_t>(bytes);
}

class CachingAllocator::Impl {
public:
    Impl(MemorySource &source, AllocatorOptions options)
        : source_(source), options_(std::move(options)), backend_(dynamic_cast<Backend *>(&source)) {
        if (options_.max_split_size != SIZE_MAX)
            stats_.max_split_size = signed_bytes(options_.max_split_size);
        total_ = source_.total_memory();
        allow(total_);
        // Blocks that are not to be split are segments of their own.
        if (options_.caching && options_.max_split_size == SIZE_MAX)
            expandable_ = source_.expandable();
    }

    ~Impl() {
        for (const auto &[memory, first] : segments_)
            if (first->expandable)
                expandable_->release(memory);
            else
                source_.free(memory, size_of_segment(first));
    }

    void *allocate(size_t requested, StreamId stream);
    void free(void *memory, std::span<const Guard> guards) noexcept;
    void empty_cache();
    void set_fraction(double fraction);
    std::string check_invariants();
    std::vector<SegmentInfo> segments();
    /// Expects the lock, as everything private does.
    void poll_guards() noexcept;
    void put_back_aside() noexcept;
    AllocatorStats stats();

    MemorySource &source_;
    AllocatorOptions options_;
    mutable std::mutex mutex_;
    AllocatorStats stats_;
    BlockTable in_use_; ///< handed out

private:
    FreeBlocks &free_blocks(StreamId stream, bool small);
    /// The pool of a block: found or made when it was handed out.
    FreeBlocks &pool_of(const Block *block) {
        return *pools_[static_cast<size_t>(block->stream)][block->small];
    }
    void make_room();
    Block *find_free(size_t size, StreamId stream, bool small);
    Block *new_segment(std::unique_lock<std::mutex> &lock, size_t size, size_t requested, StreamId stream,
                       bool small);
    Block *ask_driver(size_t bytes, size_t size, StreamId stream, bool small);
    Block *ask_driver_for_less(size_t bytes, size_t size, StreamId stream, bool small);
    /// Calls `ask` if the limit allows so many more reserved bytes. Whether `ask` got them.
    template <class F>
    bool try_driver(size_t bytes, F ask) {
        if (bytes <= allowed_ && reserved_ <= allowed_ - bytes)
            try {
                ask();
                return true;
            } catch (const ir::Failure &failure) {
                if (failure.kind() != ir::ErrorKind::OutOfMemory)
                    throw;
            }
        refused_ = std::min(refused_, bytes);
        return false;
    }

    Block *find_hole(size_t size, StreamId stream, bool small);
    Block *reserve_hole(StreamId stream, bool small);
    size_t missing(const Block *hole, size_t size) const;
    Block *expand(Block *hole, size_t bytes, size_t size);
    size_t take_out_pieces(Block *block);
    void become_hole(Block *block) noexcept;
    void count_reserved(bool small, int64_t bytes, int64_t runs);
    void insert_hole(Block *hole) noexcept;
    void remove_hole(Block *hole) noexcept;
    void release_if_empty(Block *hole) noexcept;

    Block *find_elsewhere(size_t size, StreamId stream, bool small);
    bool is_busy(StreamId stream) const noexcept;
    void order_after_owner(std::unique_lock<std::mutex> &lock, Block *block);
    bool take_home(Block *block) noexcept;
    [[noreturn]] void out_of_memory(size_t size, size_t requested);
    size_t largest_free() const;
    void allow(size_t bytes);
    size_t segment_size(size_t size) const;
    void hand_out(Block *block, size_t size, size_t requested);
    void count_out(Block *block, size_t requested);
    void set_aside(Block *block);
    void count_back(Block *block);
    void take_back(Block *block);
    void make_free(Block *block) noexcept;
    Block *cut_off(Block *block, size_t size) noexcept;
    void merge(Block *left, Block *right);
    void change_inactive(bool small, int64_t blocks, int64_t bytes);

    bool may_give_back() const;
    void collect_garbage(std::unique_lock<std::mutex> &lock);
    bool give_back_oversize(std::unique_lock<std::mutex> &lock, size_t size);
    void give_back_cache(std::unique_lock<std::mutex> &lock);
    void take_out(Block *block) noexcept;
    void send_back(std::unique_lock<std::mutex> &lock) noexcept;
    void forget(Block *segment) noexcept;
    bool hold_back(Block *block, const Guard &guard) noexcept;
    void let_go(Block *block) noexcept;
    bool wait_for_oldest_guard(std::unique_lock<std::mutex> &lock);
    void wait_for_guards(std::unique_lock<std::mutex> &lock);
    void wait_for(const Guard &guard, std::unique_lock<std::mutex> &lock) noexcept;

    static size_t size_of_segment(const Block *first) {
        size_t bytes = 0;
        for (const Block *b = first; b; b = b->after)
            bytes += b->size;
        return bytes;
    }

    void add(StatSet &set, bool small, int64_t amount) {
        set[StatPool::All].add(amount);
        set[small ? StatPool::SmallPool : StatPool::LargePool].add(amount);
    }
    void sub(StatSet &set, bool small, int64_t amount) {
        set[StatPool::All].sub(amount);
        set[small ? StatPool::SmallPool : StatPool::LargePool].sub(amount);
    }

    Backend *const backend_; ///< the source as a Backend; null where it has no streams (pinned memory)
    ExpandableMemory *expandable_ = nullptr; ///< null: segments are the driver's allocations
    Block *holes_ = nullptr;                 ///< of all segments that grow, linked by `next` and `previous`
    size_t total_ = 0, allowed_ = 0, reserved_ = 0;
    size_t small_segment_ = 0, large_segment_ = 0; ///< sizes of segments that several blocks share
    size_t refused_ = SIZE_MAX; ///< the smallest size refused since memory was last given back to the driver
    bool fraction_set_ = false;
    uint64_t requests_ = 0;
    BlockArena blocks_;
    /// Freed, and neither merged with its neighbours nor in a list. Whoever looks at what is free, and
    /// whoever takes the lock again, puts it back first.
    Block *aside_ = nullptr;
    std::vector<std::array<std::unique_ptr<FreeBlocks>, 2>> pools_; ///< by stream; large, small
    std::map<char *, Block *> segments_;                            ///< first block of each, by address
    struct Deferred {
        uint64_t tick;
        Block *block;
    };
    /// Freed blocks that wait for a stream, first freed first.
    struct Pending {
        Backend *backend;
        StreamId stream;
        std::vector<Deferred> blocks; ///< those from `first` on; keeps its room, unlike a deque
        size_t first = 0;

        bool empty() const { return first == blocks.size(); }
        const Deferred &front() const { return blocks[first]; }
        void pop() {
            if (++first * 2 >= blocks.size()) {
                blocks.erase(blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(first));
                first = 0;
            }
        }
    };
    std::vector<Pending> pending_;
    size_t num_pending_ = 0; ///< blocks in all of `pending_` and in `strays_`
    /// A freed block that waits for a stream and could not be put into `pending_`: the host had no memory to
    /// make that list longer.
    struct Stray {
        Guard guard;
        Block *block;
    };
    std::array<Stray, 64> strays_;
    size_t num_strays_ = 0;
    Block *to_leave_ = nullptr;    ///< to be given back to the driver, linked by `next`
    size_t num_leaving_ = 0;       ///< blocks that are being given back now, without the lock
    std::condition_variable left_; ///< told when num_leaving_ becomes smaller
};

} // namespace lz::runtime
