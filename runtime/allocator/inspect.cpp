#include "runtime/allocator/impl.h"

namespace lz::runtime {

std::vector<SegmentInfo> CachingAllocator::Impl::segments() {
    std::lock_guard lock(mutex_);
    put_back_aside();
    std::vector<SegmentInfo> out;
    for (const auto &[memory, first] : segments_)
        for (const Block *b = first; b; b = b->after) {
            if (!b->mapped)
                continue;
            if (!b->before || !b->before->mapped)
                out.push_back({reinterpret_cast<uintptr_t>(b->memory), 0, first->stream, first->small, {}});
            out.back().size += signed_bytes(b->size);
            out.back().blocks.push_back({reinterpret_cast<uintptr_t>(b->memory), signed_bytes(b->size),
                                         signed_bytes(b->requested),
                                         b->in_use   ? BlockState::Allocated
                                         : b->guards ? BlockState::PendingFree
                                                     : BlockState::Free});
        }
    return out;
}

std::string CachingAllocator::Impl::check_invariants() {
    std::lock_guard lock(mutex_);
    put_back_aside();
    int64_t allocated = 0, requested = 0, inactive = 0, reserved = 0, runs = 0;
    size_t handed_out = 0, free_found = 0, free_listed = 0, holes_found = 0, holes_listed = 0;
    for (const auto &[memory, first] : segments_) {
        const char *expected = memory;
        for (const Block *b = first; b; b = b->after) {
            if (b->memory != expected)
                return "A block does not begin where its neighbour ends.";
            if (b->after && b->after->before != b)
                return "Neighbours do not know each other.";
            if (b->after && b->free() && b->after->free())
                return "Two free neighbours are not merged.";
            if (b->after && !b->mapped && !b->after->mapped)
                return "Two neighbours without memory are not merged.";
            if (b->mapped ? b->expandable && !first->expandable : !b->expandable)
                return "A hole is in a segment that does not grow.";
            if (b->size == 0 || b->size % kMinBlock)
                return "A block's size is not a multiple of 512.";
            expected += b->size;
            if (!b->mapped) {
                ++holes_found;
                continue;
            }
            runs += !b->before || !b->before->mapped;
            reserved += signed_bytes(b->size);
            if (b->in_use) {
                ++handed_out;
                allocated += signed_bytes(b->size);
                requested += signed_bytes(b->requested);
                if (in_use_.find(b->memory) != b)
                    return "A block in use is not found by its address.";
            } else if (b->free()) {
                ++free_found;
                inactive += b->split() ? signed_bytes(b->size) : 0;
            }
        }
    }
    for (const auto &stream : pools_)
        for (const auto &pool : stream)
            if (pool)
                pool->for_each([&](Block *block) { free_listed += block->free(); });
    for (const Block *hole = holes_; hole; hole = hole->next)
        ++holes_listed;
    auto all = [](const StatSet &set) { return set[StatPool::All].current; };
    if (handed_out != in_use_.size() || signed_bytes(handed_out) != all(stats_.allocation))
        return "The number of blocks in use is counted wrongly.";
    if (free_found != free_listed)
        return "A free block is in no list, or a list has another block.";
    if (holes_found != holes_listed)
        return "A hole is not in the list of holes, or something else is.";
    if (runs != all(stats_.segment))
        return "Segments are counted wrongly.";
    if (allocated != all(stats_.allocated_bytes) || requested != all(stats_.requested_bytes) ||
        inactive != all(stats_.inactive_split_bytes) || reserved != all(stats_.reserved_bytes))
        return "Bytes are counted wrongly.";
    return "";
}

} // namespace lz::runtime
