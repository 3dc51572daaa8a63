#include "runtime/allocator_impl.h"

#include <vector>

namespace lz::runtime {

/// The segment, which is one free block in no free list, goes back to the driver.
void CachingAllocator::Impl::give_back(Block *segment) {
    backend_.free(segment->memory, segment->size);
    segments_.erase(segment->memory);
    reserved_ -= segment->size;
    ++stats_.num_device_free;
    sub(stats_.segment, segment->small, 1);
    sub(stats_.reserved_bytes, segment->small, signed_bytes(segment->size));
    if (segment->size >= options_.max_split_size)
        stats_.oversize_segments.sub(1);
    blocks_.recycle(segment);
}

void CachingAllocator::Impl::give_back_cache() {
    process_events(true);
    for (auto &stream : pools_)
        for (auto &pool : stream)
            if (pool)
                pool->for_each([&](Block *block) {
                    if (!block->split()) {
                        pool->remove(block);
                        give_back(block);
                    }
                });
}

/// Blocks past max_split_size that could not serve this request, largest first, until there is room for it.
bool CachingAllocator::Impl::give_back_oversize(size_t size) {
    if (options_.max_split_size == SIZE_MAX)
        return false;
    size_t freed = 0;
    for (auto &stream : pools_)
        while (FreeBlocks *pool = stream[0].get()) {
            Block *block = pool->largest();
            if (!block || block->size < options_.max_split_size || block->split() || freed >= size)
                break;
            freed += block->size;
            pool->remove(block);
            give_back(block);
        }
    return freed >= size;
}

/// PyTorch's garbage_collection_threshold: whole free segments of the large pool, the longest unused first
/// (not younger than the average), until what is reserved falls below the threshold.
void CachingAllocator::Impl::collect_garbage() {
    auto threshold =
        static_cast<size_t>(options_.garbage_collection_threshold * static_cast<double>(allowed_));
    auto candidates = [&] {
        std::vector<Block *> out;
        for (auto &stream : pools_)
            if (stream[0])
                stream[0]->for_each([&](Block *block) {
                    if (!block->split())
                        out.push_back(block);
                });
        return out;
    };
    std::vector<Block *> blocks;
    while (reserved_ > threshold && !(blocks = candidates()).empty()) {
        uint64_t sum = 0;
        for (const Block *block : blocks)
            sum += requests_ - block->freed_at;
        uint64_t average = sum / blocks.size();
        for (Block *block : blocks)
            if (reserved_ > threshold && requests_ - block->freed_at >= average) {
                free_blocks(block->stream, false).remove(block);
                give_back(block);
            }
    }
}

void CachingAllocator::Impl::empty_cache() {
    std::lock_guard lock(mutex_);
    give_back_cache();
}

} // namespace lz::runtime
