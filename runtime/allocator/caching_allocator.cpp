#include "runtime/allocator/caching_allocator.h"

#include "ir/diagnostic.h"
#include "runtime/allocator/impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lz::runtime {

namespace {

// The sizes of PyTorch's c10/cuda/CUDACachingAllocator.cpp.
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSmallSegment = 2 * kMiB; ///< segments of the small pool
constexpr size_t kLargeSegment = 20 * kMiB;
constexpr size_t kOwnSegment = 10 * kMiB; ///< requests from this on get a segment of their own size
constexpr size_t kSegmentUnit = 2 * kMiB;

// Each stream has segments of its own. Where there is little memory they are parts of it: the streams that
// the engine uses by itself (ir/stream.h) together may not take up the device by their first requests.
constexpr size_t kSmallParts = 128, kLargeParts = 16;
constexpr size_t kLeastSegment = kMiB / 16;

} // namespace

/// Sets how many bytes may be reserved from here on.
void CachingAllocator::Impl::allow(size_t bytes) {
    allowed_ = bytes;
    const auto part = [&](size_t parts, size_t most) {
        return std::clamp(bytes / parts / kLeastSegment * kLeastSegment, kLeastSegment, most);
    };
    small_segment_ = part(kSmallParts, kSmallSegment);
    large_segment_ = part(kLargeParts, kLargeSegment);
}

size_t CachingAllocator::Impl::segment_size(size_t size) const {
    if (size <= kSmallSize)
        return std::max(size, small_segment_);
    if (size < kOwnSegment)
        return std::max(size, large_segment_);
    return (size + kSegmentUnit - 1) / kSegmentUnit * kSegmentUnit;
}

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
    if (to_leave_) [[unlikely]]
        send_back(lock);
    in_use_.make_room();
    Block *block = aside_;
    if (block && block->size == size && block->stream == stream && block->small == small) {
        aside_ = nullptr;
        count_out(block, requested);
        return block->memory;
    }
    put_back_aside();
    blocks_.make_room();
    block = options_.caching ? find_free(size, stream, small) : nullptr;
    if (!block)
        block = new_segment(lock, size, requested, stream, small);
    hand_out(block, size, requested);
    void *const memory = block->memory;
    if (block->lent_to != kNotLent) [[unlikely]]
        order_after_owner(lock, block);
    return memory;
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

/// Makes room in the tables for what one request adds to them, so that nothing throws once a block has been
/// taken.
void CachingAllocator::Impl::make_room() {
    blocks_.make_room();
    in_use_.make_room();
}

/// A block that holds `size`, in no free list: a whole segment, one of another stream's, or one that came
/// back while it waited.
Block *CachingAllocator::Impl::new_segment(std::unique_lock<std::mutex> &lock, size_t size, size_t requested,
                                           StreamId stream, bool small) {
    size_t bytes = options_.caching ? segment_size(size) : size;
    if (options_.garbage_collection_threshold > 0) {
        collect_garbage(lock);
        make_room();
    }
    const bool refused = size >= refused_;
    if (refused) // nothing has changed since: the driver is asked in vain
        if (Block *block = find_elsewhere(size, stream, small))
            return block;
    if (Block *block = ask_driver(bytes, size, stream, small))
        return block;
    const bool gave_back = give_back_oversize(lock, bytes);
    make_room();
    if (gave_back)
        if (Block *block = ask_driver(bytes, size, stream, small))
            return block;
    if (Block *block = ask_driver_for_less(bytes, size, stream, small))
        return block;
    if (!refused)
        if (Block *block = find_elsewhere(size, stream, small))
            return block;
    ++stats_.num_alloc_retries;
    // The host is ahead of its devices: it waits until they are done with enough, and no longer.
    while (wait_for_oldest_guard(lock)) {
        send_back(lock);
        make_room(); // others allocated meanwhile
        Block *block =
            options_.caching ? find_free(size, stream, small) : ask_driver(bytes, size, stream, small);
        if (!block)
            block = find_elsewhere(size, stream, small);
        if (block)
            return block;
    }
    give_back_cache(lock);
    make_room();
    if (Block *block = ask_driver(bytes, size, stream, small))
        return block;
    if (Block *block = ask_driver_for_less(bytes, size, stream, small))
        return block;
    if (Block *block = find_elsewhere(size, stream, small)) // freed while this waited
        return block;
    out_of_memory(size, requested);
}

/// Where the driver has no segment for this request and later ones: smaller ones, down to what the request
/// needs.
Block *CachingAllocator::Impl::ask_driver_for_less(size_t bytes, size_t size, StreamId stream, bool small) {
    while (bytes > size) {
        bytes = std::max(bytes / 4 / kLeastSegment * kLeastSegment, size);
        if (Block *block = ask_driver(bytes, size, stream, small))
            return block;
    }
    return nullptr;
}

/// A block of at least `size`, in no free list, in a segment of `bytes`.
Block *CachingAllocator::Impl::ask_driver(size_t bytes, size_t size, StreamId stream, bool small) {
    if (expandable_)
        if (Block *hole = find_hole(size, stream, small))
            return expand(hole, bytes, size);
    char *memory = nullptr;
    if (!try_driver(bytes, [&] { memory = static_cast<char *>(source_.allocate(bytes)); }))
        return nullptr;
    try {
        segments_.try_emplace(memory);
    } catch (...) {
        source_.free(memory, bytes);
        throw;
    }
    Block *block = segments_[memory] = blocks_.make();
    *block = {.memory = memory, .size = bytes, .stream = stream, .small = small};
    reserved_ += bytes;
    ++stats_.num_device_alloc;
    add(stats_.segment, small, 1);
    add(stats_.reserved_bytes, small, signed_bytes(bytes));
    if (bytes >= options_.max_split_size)
        stats_.oversize_segments.add(1);
    return block;
}

/// Cuts what is too much off a block that is in no free list, and hands the rest out.
void CachingAllocator::Impl::hand_out(Block *block, size_t size, size_t requested) {
    bool small = block->small;
    size_t rest = block->size - size;
    bool cut =
        small || size <= kSmallSize ? rest >= kMinBlock : rest > kSmallSize && size < options_.max_split_size;
    if (cut && options_.caching) {
        Block *const remaining = cut_off(block, size);
        pool_of(block).insert(remaining);
        if (remaining->split())
            change_inactive(small, 1, signed_bytes(rest));
    }
    count_out(block, requested);
    block->oversize = block->size >= options_.max_split_size;
    if (block->oversize)
        stats_.oversize_allocations.add(1);
}

void CachingAllocator::Impl::count_out(Block *block, size_t requested) {
    block->in_use = true;
    block->requested = requested;
    in_use_.insert(block);
    const bool small = block->small;
    const int64_t bytes = signed_bytes(block->size);
    add(stats_.allocation, small, 1);
    add(stats_.active, small, 1);
    add(stats_.allocated_bytes, small, bytes);
    add(stats_.active_bytes, small, bytes);
    add(stats_.requested_bytes, small, signed_bytes(requested));
}

/// What lies behind the first `size` bytes becomes a block of its own. There is room for it.
Block *CachingAllocator::Impl::cut_off(Block *block, size_t size) noexcept {
    Block *const rest = blocks_.make();
    *rest = {.memory = block->memory + size,
             .size = block->size - size,
             .before = block,
             .after = block->after,
             .stream = block->stream,
             .small = block->small,
             .mapped = block->mapped,
             .expandable = block->expandable,
             .freed_at = block->freed_at};
    if (block->after)
        block->after->before = rest;
    block->after = rest;
    block->size = size;
    return rest;
}

void CachingAllocator::Impl::change_inactive(bool small, int64_t blocks, int64_t bytes) {
    auto change = [&](StatSet &set, int64_t amount) {
        amount > 0 ? add(set, small, amount) : sub(set, small, -amount);
    };
    change(stats_.inactive_split, blocks);
    change(stats_.inactive_split_bytes, bytes);
}

void CachingAllocator::Impl::free(void *memory, std::span<const Guard> guards) noexcept {
    std::unique_lock lock(mutex_);
    Block *block = in_use_.take(memory);
    if (!block) // not ours: a bug above, and nothing here can be done about it
        return;
    put_back_aside();
    block->in_use = false;
    sub(stats_.allocation, block->small, 1);
    sub(stats_.allocated_bytes, block->small, signed_bytes(block->size));
    sub(stats_.requested_bytes, block->small, signed_bytes(block->requested));
    if (block->oversize)
        stats_.oversize_allocations.sub(1);
    bool held = false;
    for (const Guard &guard : guards)
        held |= hold_back(block, guard);
    if (block->lent_to != kNotLent) [[unlikely]]
        held |= take_home(block);
    if (!held) [[likely]]
        set_aside(block);
    if (to_leave_) [[unlikely]]
        send_back(lock);
}

/// The block that was freed last stays as it is until something else is asked: of the next request, which is
/// often for as many bytes, it has not to be cut off again.
void CachingAllocator::Impl::set_aside(Block *block) {
    if (!options_.caching || block->oversize)
        return take_back(block);
    count_back(block);
    aside_ = block;
}

void CachingAllocator::Impl::put_back_aside() noexcept {
    if (Block *const block = std::exchange(aside_, nullptr))
        make_free(block);
}

void CachingAllocator::Impl::count_back(Block *block) {
    sub(stats_.active, block->small, 1);
    sub(stats_.active_bytes, block->small, signed_bytes(block->size));
    block->requested = 0;
    block->freed_at = requests_;
}

/// A block that nothing uses any more becomes free. None is set aside: it might be a neighbour of this one,
/// and would be merged with it while it is in no list.
void CachingAllocator::Impl::take_back(Block *block) {
    count_back(block);
    if (options_.caching)
        make_free(block);
    else
        take_out(block);
}

/// A block that is in no list is merged with its free neighbours, into the list of free ones.
void CachingAllocator::Impl::make_free(Block *block) noexcept {
    const bool small = block->small;
    int64_t blocks = 0, bytes = 0; // net change of free parts of split segments
    FreeBlocks &pool = pool_of(block);
    auto absorb = [&](Block *neighbour) {
        pool.remove(neighbour);
        if (neighbour->split()) {
            --blocks;
            bytes -= signed_bytes(neighbour->size);
        }
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
    allow(static_cast<size_t>(fraction * static_cast<double>(total_)));
    refused_ = SIZE_MAX;
    fraction_set_ = fraction < 1;
}

AllocatorStats CachingAllocator::Impl::stats() {
    std::unique_lock lock(mutex_);
    put_back_aside();
    poll_guards(); // what streams are done with is not held any more
    send_back(lock);
    return stats_;
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
    return impl_->stats();
}

void CachingAllocator::reset_peak_stats() {
    std::lock_guard lock(impl_->mutex_);
    impl_->put_back_aside();
    impl_->stats_.for_each([](Stat &stat) { stat.peak = stat.current; });
}

void CachingAllocator::reset_accumulated_stats() {
    std::lock_guard lock(impl_->mutex_);
    impl_->put_back_aside();
    impl_->stats_.for_each([](Stat &stat) { stat.reset_sums(); });
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
