#include "runtime/caching_allocator.h"

#include "ir/diagnostic.h"
#include "runtime/allocator_impl.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::runtime {

namespace {

// The sizes of PyTorch's c10/cuda/CUDACachingAllocator.cpp.
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSmallSize = kMiB;        ///< requests up to this are of the small pool
constexpr size_t kSmallSegment = 2 * kMiB; ///< its segments
constexpr size_t kLargeSegment = 20 * kMiB;
constexpr size_t kOwnSegment = 10 * kMiB; ///< requests from this on get a segment of their own size
constexpr size_t kSegmentUnit = 2 * kMiB;

size_t segment_size(size_t size) {
    if (size <= kSmallSize)
        return kSmallSegment;
    if (size < kOwnSegment)
        return kLargeSegment;
    return (size + kSegmentUnit - 1) / kSegmentUnit * kSegmentUnit;
}

} // namespace

FreeBlocks &CachingAllocator::Impl::free_blocks(StreamId stream, bool small) {
    auto index = static_cast<size_t>(stream);
    if (index >= pools_.size())
        pools_.resize(index + 1);
    std::unique_ptr<FreeBlocks> &pool = pools_[index][small];
    if (!pool)
        pool = std::make_unique<FreeBlocks>();
    return *pool;
}

void *CachingAllocator::Impl::allocate(size_t requested, StreamId stream) {
    if (requested > SIZE_MAX / 2)
        throw ir::Failure(
            ir::ErrorKind::OutOfMemory,
            fmt::format("{}: {} bytes are more than any device has.", source_.name(), requested));
    size_t size = options_.round(requested);
    bool small = size <= kSmallSize;
    std::unique_lock lock(mutex_);
    ++requests_;
    if (num_pending_ != 0)
        poll_guards();
    Block *block = options_.caching ? find_free(size, stream, small) : nullptr;
    if (!block)
        block = new_segment(lock, size, requested, stream, small);
    hand_out(block, size, requested);
    return block->memory;
}

Block *CachingAllocator::Impl::find_free(size_t size, StreamId stream, bool small) {
    FreeBlocks &pool = free_blocks(stream, small);
    Block *block = pool.best_fit(size);
    if (!block)
        return nullptr;
    size_t limit = options_.max_split_size;
    if (size < limit && block->size >= limit)
        return nullptr;
    if (size >= limit && block->size >= size + options_.max_non_split_rounding)
        return nullptr;
    pool.remove(block);
    if (block->split())
        change_inactive(small, -1, -signed_bytes(block->size));
    return block;
}

/// A block that holds `size`, in no free list: a whole segment, or one that came back while it waited.
Block *CachingAllocator::Impl::new_segment(std::unique_lock<std::mutex> &lock, size_t size, size_t requested,
                                           StreamId stream, bool small) {
    size_t bytes = options_.caching ? segment_size(size) : size;
    if (options_.garbage_collection_threshold > 0)
        collect_garbage();
    if (Block *block = ask_driver(bytes, stream, small))
        return block;
    if (give_back_oversize(bytes))
        if (Block *block = ask_driver(bytes, stream, small))
            return block;
    ++stats_.num_alloc_retries;
    // The host is ahead of its devices: it waits until they are done with enough, and no longer.
    while (wait_for_oldest_guard(lock))
        if (Block *block =
                options_.caching ? find_free(size, stream, small) : ask_driver(bytes, stream, small))
            return block;
    give_back_cache();
    if (Block *block = ask_driver(bytes, stream, small))
        return block;
    // A segment for others besides this request is more than it needs: the last try is for it alone.
    if (bytes > size)
        if (Block *block = ask_driver(size, stream, small))
            return block;
    out_of_memory(size, requested, stream);
}

Block *CachingAllocator::Impl::ask_driver(size_t bytes, StreamId stream, bool small) {
    if (bytes > allowed_ || reserved_ > allowed_ - bytes)
        return nullptr;
    char *memory = nullptr;
    try {
        memory = static_cast<char *>(source_.allocate(bytes));
    } catch (const ir::Failure &failure) {
        if (failure.kind() != ir::ErrorKind::OutOfMemory)
            throw;
        return nullptr;
    }
    Block *block = blocks_.make();
    block->memory = memory;
    block->size = bytes;
    block->stream = stream;
    block->small = small;
    segments_.emplace(memory, block);
    reserved_ += bytes;
    ++stats_.num_device_alloc;
    add(stats_.segment, small, 1);
    add(stats_.reserved_bytes, small, signed_bytes(bytes));
    if (bytes >= options_.max_split_size)
        stats_.oversize_segments.add(1);
    return block;
}

/// The largest free block that stream's allocations cannot have, because another stream's segment holds it.
size_t CachingAllocator::Impl::largest_of_others(StreamId stream) const {
    size_t most = 0;
    for (size_t s = 0; s < pools_.size(); ++s)
        if (const FreeBlocks *large = pools_[s][0].get(); large && static_cast<StreamId>(s) != stream)
            if (const Block *block = large->largest())
                most = std::max(most, block->size);
    return most;
}

void CachingAllocator::Impl::out_of_memory(size_t size, size_t requested, StreamId stream) {
    ++stats_.num_ooms;
    int64_t allocated = stats_.allocated_bytes[StatPool::All].current;
    int64_t cached = signed_bytes(reserved_) - allocated;
    std::string message =
        fmt::format("{} is out of memory: {} were asked for; it has {} in total, {} of them free; this "
                    "process has {} in live "
                    "tensors and {} reserved.",
                    source_.name(), human_bytes(signed_bytes(requested)), human_bytes(signed_bytes(total_)),
                    human_bytes(signed_bytes(source_.free_memory())), human_bytes(allocated),
                    human_bytes(signed_bytes(reserved_)));
    if (fraction_set_)
        message += fmt::format(" It may reserve {} (set_per_process_memory_fraction).",
                               human_bytes(signed_bytes(allowed_)));
    if (const size_t other = largest_of_others(stream); other >= size)
        message +=
            fmt::format(" {} in one piece are cached for another stream, and serve this one only when all "
                        "of their segment is free.",
                        human_bytes(signed_bytes(other)));
    else if (cached >= signed_bytes(size))
        message += fmt::format(
            " {} are reserved but in pieces: max_split_size_mb in LAZULI_ALLOC_CONF works against "
            "that.",
            human_bytes(cached));
    message += " Try to drop tensors that are no longer needed, or a smaller batch.";
    throw ir::Failure(ir::ErrorKind::OutOfMemory, message);
}

/// Cuts what is too much off a block that is in no free list, and hands the rest out.
void CachingAllocator::Impl::hand_out(Block *block, size_t size, size_t requested) {
    bool small = block->small;
    size_t rest = block->size - size;
    bool cut = small ? rest >= kMinBlock : rest > kSmallSize && size < options_.max_split_size;
    if (cut && options_.caching) {
        Block *remaining = blocks_.make();
        remaining->memory = block->memory + size;
        remaining->size = rest;
        remaining->stream = block->stream;
        remaining->small = small;
        remaining->freed_at = block->freed_at;
        remaining->before = block;
        remaining->after = block->after;
        if (block->after)
            block->after->before = remaining;
        block->after = remaining;
        block->size = size;
        free_blocks(block->stream, small).insert(remaining);
        change_inactive(small, 1, signed_bytes(rest));
    }
    block->in_use = true;
    block->requested = requested;
    in_use_.insert(block);
    int64_t bytes = signed_bytes(block->size);
    add(stats_.allocation, small, 1);
    add(stats_.active, small, 1);
    add(stats_.allocated_bytes, small, bytes);
    add(stats_.active_bytes, small, bytes);
    add(stats_.requested_bytes, small, signed_bytes(requested));
    block->oversize = block->size >= options_.max_split_size;
    if (block->oversize)
        stats_.oversize_allocations.add(1);
}

void CachingAllocator::Impl::change_inactive(bool small, int64_t blocks, int64_t bytes) {
    auto change = [&](StatSet &set, int64_t amount) {
        amount > 0 ? add(set, small, amount) : sub(set, small, -amount);
    };
    change(stats_.inactive_split, blocks);
    change(stats_.inactive_split_bytes, bytes);
}

void CachingAllocator::Impl::free(void *memory, std::span<const Guard> guards) noexcept {
    std::lock_guard lock(mutex_);
    Block *block = in_use_.take(memory);
    if (!block) // not ours: a bug above, and nothing here can be done about it
        return;
    block->in_use = false;
    sub(stats_.allocation, block->small, 1);
    sub(stats_.allocated_bytes, block->small, signed_bytes(block->size));
    sub(stats_.requested_bytes, block->small, signed_bytes(block->requested));
    if (block->oversize)
        stats_.oversize_allocations.sub(1);
    bool held = false;
    for (const Guard &guard : guards)
        held |= hold_back(block, guard);
    if (!held) [[likely]]
        take_back(block);
}

/// A block that nobody uses becomes free, and one with its free neighbours.
void CachingAllocator::Impl::take_back(Block *block) {
    bool small = block->small;
    sub(stats_.active, small, 1);
    sub(stats_.active_bytes, small, signed_bytes(block->size));
    block->requested = 0;
    block->freed_at = requests_;
    if (!options_.caching) {
        give_back(block);
        return;
    }
    int64_t blocks = 0, bytes = 0; // net change of free parts of split segments
    FreeBlocks &pool = free_blocks(block->stream, small);
    auto absorb = [&](Block *neighbour) {
        pool.remove(neighbour);
        --blocks;
        bytes -= signed_bytes(neighbour->size);
    };
    if (Block *right = block->after; right && right->free()) {
        absorb(right);
        merge(block, right);
    }
    if (Block *left = block->before; left && left->free()) {
        absorb(left);
        left->freed_at = block->freed_at;
        merge(left, block);
        block = left;
    }
    if (block->split()) {
        ++blocks;
        bytes += signed_bytes(block->size);
    }
    pool.insert(block);
    if (blocks || bytes)
        change_inactive(small, blocks, bytes);
}

/// `left` grows over its neighbour, which is no more. The first block of a segment stays the same one.
void CachingAllocator::Impl::merge(Block *left, Block *right) {
    left->size += right->size;
    left->after = right->after;
    if (right->after)
        right->after->before = left;
    blocks_.recycle(right);
}

void CachingAllocator::Impl::set_fraction(double fraction) {
    if (!(fraction > 0 && fraction <= 1))
        throw ir::Failure(ir::ErrorKind::State,
                          fmt::format("A memory fraction is above 0 and at most 1; {} was given.", fraction));
    std::lock_guard lock(mutex_);
    allowed_ = static_cast<size_t>(fraction * static_cast<double>(total_));
    fraction_set_ = fraction < 1;
}

// --- the public face

CachingAllocator::CachingAllocator(MemorySource &source, AllocatorOptions options)
    : impl_(std::make_unique<Impl>(source, std::move(options))) {}
CachingAllocator::~CachingAllocator() = default;

void *CachingAllocator::allocate(size_t bytes, StreamId stream) {
    return bytes == 0 ? nullptr : impl_->allocate(bytes, stream);
}
void CachingAllocator::free(void *memory, std::span<const Guard> guards) noexcept {
    if (memory)
        impl_->free(memory, guards);
}

size_t CachingAllocator::usable_size(const void *memory) const {
    std::lock_guard lock(impl_->mutex_);
    const Block *block = impl_->in_use_.find(memory);
    return block ? block->size : 0;
}

void CachingAllocator::empty_cache() {
    impl_->empty_cache();
}
void CachingAllocator::set_memory_fraction(double fraction) {
    impl_->set_fraction(fraction);
}
Device CachingAllocator::device() const {
    return impl_->source_.device();
}

AllocatorStats CachingAllocator::stats() const {
    std::lock_guard lock(impl_->mutex_);
    impl_->poll_guards(); // what streams are done with is not held any more
    return impl_->stats_;
}

void CachingAllocator::reset_peak_stats() {
    std::lock_guard lock(impl_->mutex_);
    impl_->stats_.for_each([](Stat &stat) { stat.peak = stat.current; });
}

void CachingAllocator::reset_accumulated_stats() {
    std::lock_guard lock(impl_->mutex_);
    impl_->stats_.for_each([](Stat &stat) { stat.allocated = stat.freed = 0; });
    impl_->stats_.num_alloc_retries = impl_->stats_.num_ooms = 0;
    impl_->stats_.num_device_alloc = impl_->stats_.num_device_free = 0;
}

std::string CachingAllocator::memory_summary() const {
    return runtime::memory_summary(stats(), impl_->source_.name());
}
std::vector<SegmentInfo> CachingAllocator::segments() const {
    return impl_->segments();
}
std::string CachingAllocator::memory_snapshot() const {
    return runtime::memory_snapshot(segments(), device().index, impl_->source_.name());
}
std::string CachingAllocator::check_invariants() const {
    return impl_->check_invariants();
}

} // namespace lz::runtime
