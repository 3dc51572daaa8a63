// Segments that grow where they are: each has addresses for all that the device has, and memory behind some
// of them. What has none is a hole, a block that is in no free list. A request that no free block holds takes
// the free block before a hole and puts only what is missing behind it; what is free goes back in whole
// pieces, also between blocks in use. So what is free in one place costs no memory in another. As PyTorch's
// expandable segments; a segment of the statistics is a run of memory without a hole.

#include "runtime/allocator/impl.h"

namespace lz::runtime {

namespace {

size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

size_t free_bytes(const Block *block) {
    return block && block->free() ? block->size : 0;
}

} // namespace

void CachingAllocator::Impl::insert_hole(Block *hole) noexcept {
    hole->previous = nullptr;
    hole->next = holes_;
    if (holes_)
        holes_->previous = hole;
    holes_ = hole;
}

void CachingAllocator::Impl::remove_hole(Block *hole) noexcept {
    (hole->previous ? hole->previous->next : holes_) = hole->next;
    if (hole->next)
        hole->next->previous = hole->previous;
    hole->previous = hole->next = nullptr;
}

/// What has to be put into a hole so that it serves a request, together with what is free beside it; 0: it is
/// too small.
size_t CachingAllocator::Impl::missing(const Block *hole, size_t size) const {
    const size_t before = free_bytes(hole->before);
    const size_t bytes = round_up(size > before ? size - before : 1, expandable_->unit());
    if (bytes <= hole->size)
        return bytes;
    return before + hole->size + free_bytes(hole->after) >= size ? hole->size : 0;
}

/// The one that needs least, of equals the one at the lowest address. nullptr: there are no addresses.
Block *CachingAllocator::Impl::find_hole(size_t size, StreamId stream, bool small) {
    Block *best = nullptr;
    size_t least = 0;
    for (Block *hole = holes_; hole; hole = hole->next) {
        if (hole->stream != stream || hole->small != small)
            continue;
        const size_t bytes = missing(hole, size);
        if (bytes != 0 && (!best || bytes < least || (bytes == least && hole->memory < best->memory))) {
            best = hole;
            least = bytes;
        }
    }
    if (best || size > expandable_->addresses())
        return best;
    return reserve_hole(stream, small);
}

Block *CachingAllocator::Impl::reserve_hole(StreamId stream, bool small) {
    char *const memory = expandable_->reserve();
    if (!memory)
        return nullptr;
    try {
        segments_.try_emplace(memory);
    } catch (...) {
        expandable_->release(memory);
        throw;
    }
    Block *const hole = segments_[memory] = blocks_.make();
    *hole = {.memory = memory,
             .size = expandable_->addresses(),
             .stream = stream,
             .small = small,
             .mapped = false,
             .expandable = true};
    insert_hole(hole);
    return hole;
}

/// A segment without memory is no more.
void CachingAllocator::Impl::release_if_empty(Block *hole) noexcept {
    if (hole->before || hole->after)
        return;
    char *const memory = hole->memory;
    remove_hole(hole);
    segments_.erase(memory);
    blocks_.recycle(hole);
    expandable_->release(memory);
}

void CachingAllocator::Impl::count_reserved(bool small, int64_t bytes, int64_t runs) {
    const auto change = [&](StatSet &set, int64_t amount) {
        if (amount > 0)
            add(set, small, amount);
        else if (amount < 0)
            sub(set, small, -amount);
    };
    change(stats_.reserved_bytes, bytes);
    change(stats_.segment, runs);
}

/// A block of at least `size`, in no free list, by memory at a hole's beginning: as much as makes a block of
/// `bytes` where that fits. nullptr: the driver has no more.
Block *CachingAllocator::Impl::expand(Block *hole, size_t bytes, size_t size) {
    const size_t before = free_bytes(hole->before);
    const size_t wanted = bytes > before ? round_up(bytes - before, expandable_->unit()) : 0;
    const size_t put = std::clamp(wanted, missing(hole, size), hole->size);
    if (!try_driver(put, [&] { expandable_->map(hole->memory, put); })) {
        release_if_empty(hole);
        return nullptr;
    }
    reserved_ += put;
    ++stats_.num_device_alloc;
    const bool closed = put == hole->size && hole->after;
    count_reserved(hole->small, signed_bytes(put), 1 - (hole->before != nullptr) - closed);

    remove_hole(hole);
    if (put < hole->size)
        insert_hole(cut_off(hole, put));
    Block *block = hole;
    block->mapped = true;
    FreeBlocks &pool = pool_of(block);
    if (Block *right = block->after; right && right->free()) {
        pool.remove(right);
        merge(block, right);
    }
    if (Block *left = block->before; left && left->free()) {
        pool.remove(left);
        merge(left, block);
        block = left;
    }
    return block;
}

/// The whole pieces of a free block are taken out, so many bytes; its ends stay free. Throws std::bad_alloc
/// before anything has changed.
size_t CachingAllocator::Impl::take_out_pieces(Block *block) {
    if (block->size < expandable_->unit())
        return 0;
    blocks_.make_room();
    const auto [begin, bytes] = expandable_->pieces(block->memory, block->size);
    if (bytes == 0)
        return 0;
    FreeBlocks &pool = pool_of(block);
    pool.remove(block);
    if (begin + bytes < block->memory + block->size)
        pool.insert(cut_off(block, static_cast<size_t>(begin + bytes - block->memory)));
    Block *middle = block;
    if (begin > block->memory) {
        middle = cut_off(block, static_cast<size_t>(begin - block->memory));
        pool.insert(block);
    }
    take_out(middle);
    return bytes;
}

/// The memory of a block that was taken out is gone; its neighbours may be others than they were then.
void CachingAllocator::Impl::become_hole(Block *hole) noexcept {
    hole->mapped = false;
    Block *const left = hole->before, *const right = hole->after;
    const bool memory_left = left && left->mapped, memory_right = right && right->mapped;
    count_reserved(hole->small, -signed_bytes(hole->size), memory_left + memory_right - 1);

    if (right && !right->mapped) {
        remove_hole(right);
        merge(hole, right);
    }
    if (left && !left->mapped) {
        remove_hole(left);
        merge(left, hole);
        hole = left;
    }
    insert_hole(hole);
    release_if_empty(hole);
}

} // namespace lz::runtime
