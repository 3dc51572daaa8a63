#include "ir/diagnostic.h"
#include "runtime/allocator/impl.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::runtime {

// --- a full device: free blocks of other streams

/// A free block that another stream's requests would have, or one of this stream's from the pool for the
/// other sizes; in no free list any more. nullptr when there is none. What still runs on the block's own
/// stream is before the caller by `order_after_owner`, which costs the device a wait and the host none.
Block *CachingAllocator::Impl::find_elsewhere(size_t size, StreamId stream, bool small) {
    if (!options_.caching)
        return nullptr;
    const auto fits = [&](const Block *block) {
        return block && (size >= options_.max_split_size || block->size < options_.max_split_size);
    };
    Block *found = nullptr;
    int found_rank = 0;
    for (size_t s = 0; s < pools_.size(); ++s)
        for (const bool from_small : {false, true}) {
            const auto owner = static_cast<StreamId>(s);
            const FreeBlocks *const pool = pools_[s][from_small].get();
            if (!pool || (owner != stream && !backend_))
                continue;
            Block *const block = pool->best_fit(size);
            if (!fits(block))
                continue;
            // Best is what needs no wait; then what its own pool was made for; then what is least.
            const int rank = 2 * (owner == stream || !is_busy(owner)) + (from_small == small);
            if (!found || rank > found_rank || (rank == found_rank && block->size < found->size)) {
                found = block;
                found_rank = rank;
            }
        }
    if (!found)
        return nullptr;
    pool_of(found).remove(found);
    if (found->split())
        change_inactive(found->small, -1, -signed_bytes(found->size));
    if (found->stream != stream)
        found->lent_to = stream;
    return found;
}

bool CachingAllocator::Impl::is_busy(StreamId stream) const noexcept {
    try {
        return backend_->pending(stream, backend_->record(stream));
    } catch (const std::exception &) {
        return true; // it will be waited for
    }
}

/// The stream that a block is lent to waits for what has been put on the block's own stream so far. The lock
/// is given up: putting a wait on a full stream may block, and work on it may free memory here meanwhile.
void CachingAllocator::Impl::order_after_owner(std::unique_lock<std::mutex> &lock, Block *block) {
    const StreamId owner = block->stream, user = block->lent_to;
    void *const memory = block->memory;
    const uint64_t tick = backend_->record(owner);
    lock.unlock();
    try {
        backend_->wait(user, *backend_, owner, tick);
    } catch (...) {
        free(memory, {});
        throw;
    }
}

/// A block that was lent to another stream goes back to its own when that stream has done what is on it now.
/// False: it can go back at once.
bool CachingAllocator::Impl::take_home(Block *block) noexcept {
    const StreamId user = std::exchange(block->lent_to, kNotLent);
    try {
        return hold_back(block, {backend_, user, backend_->record(user)});
    } catch (const std::exception &) { // a stream that is no more: who destroyed it has seen to its end
        return false;
    }
}

// --- a full device: what to say

size_t CachingAllocator::Impl::largest_free() const {
    size_t most = 0;
    for (const auto &stream : pools_)
        for (const auto &pool : stream)
            if (pool)
                if (const Block *block = pool->largest())
                    most = std::max(most, block->size);
    return most;
}

void CachingAllocator::Impl::out_of_memory(size_t size, size_t requested) {
    ++stats_.num_ooms;
    const int64_t allocated = stats_.allocated_bytes[StatPool::All].current;
    const int64_t cached = signed_bytes(reserved_) - allocated;
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
    if (size > allowed_) {
        message += " That is less than was asked for, whatever is freed. Try a smaller batch.";
        throw ir::Failure(ir::ErrorKind::OutOfMemory, message);
    }
    if (cached >= signed_bytes(size)) {
        message += fmt::format(" Of that {} are cached, in pieces between live tensors, the largest of {}.",
                               human_bytes(cached), human_bytes(signed_bytes(largest_free())));
        if (options_.max_split_size == SIZE_MAX && size > kSmallestMaxSplit)
            message += " max_split_size_mb in LAZULI_ALLOC_CONF keeps small tensors out of large blocks.";
    }
    message += " Try to drop tensors that are no longer needed, or a smaller batch.";
    throw ir::Failure(ir::ErrorKind::OutOfMemory, message);
}

} // namespace lz::runtime
