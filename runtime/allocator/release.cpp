#include "ir/diagnostic.h"
#include "runtime/allocator/impl.h"
#include "runtime/streams/threads.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lz::runtime {

// The driver may wait for what is on the device's streams when memory goes back to it, and a stream may wait
// for a function of the host's that frees memory here, or asks for some. So blocks are taken out under the
// lock, given back without it, and then forgotten; and on no thread that a stream may wait for.

/// Whether this thread may give memory back.
bool CachingAllocator::Impl::may_give_back() const {
    return !source_.free_waits() || !on_stream_thread();
}

/// Puts a block that is in no free list on the list of `send_back`: a whole segment, or whole pieces of one.
void CachingAllocator::Impl::take_out(Block *block) noexcept {
    block->leaving = true;
    block->next = std::exchange(to_leave_, block);
}

/// Gives all blocks that were taken out back to the driver. The lock is given up meanwhile.
void CachingAllocator::Impl::send_back(std::unique_lock<std::mutex> &lock) noexcept {
    if (!to_leave_ || !may_give_back())
        return;
    Block *const first = std::exchange(to_leave_, nullptr);
    for (const Block *block = first; block; block = block->next)
        ++num_leaving_;
    lock.unlock();
    for (const Block *block = first; block; block = block->next)
        if (block->expandable)
            expandable_->unmap(block->memory, block->size);
        else
            source_.free(block->memory, block->size);
    lock.lock();
    put_back_aside();
    for (Block *block = first; block;) {
        Block *const next = std::exchange(block->next, nullptr);
        block->leaving = false;
        reserved_ -= block->size;
        refused_ = SIZE_MAX;
        ++stats_.num_device_free;
        --num_leaving_;
        block->expandable ? become_hole(block) : forget(block);
        block = next;
    }
    left_.notify_all();
}

void CachingAllocator::Impl::forget(Block *segment) noexcept {
    // While nobody had the lock the driver may have given the memory out again: then the segment is
    // another's.
    if (const auto found = segments_.find(segment->memory);
        found != segments_.end() && found->second == segment)
        segments_.erase(found);
    sub(stats_.segment, segment->small, 1);
    sub(stats_.reserved_bytes, segment->small, signed_bytes(segment->size));
    if (segment->size >= options_.max_split_size)
        stats_.oversize_segments.sub(1);
    blocks_.recycle(segment);
}

/// Gives all unused segments back to the driver, and waits until other threads have given back theirs.
void CachingAllocator::Impl::give_back_cache(std::unique_lock<std::mutex> &lock) {
    if (!may_give_back())
        return;
    for (auto &stream : pools_)
        for (auto &pool : stream)
            if (pool)
                pool->for_each([&](Block *block) {
                    if (block->expandable)
                        take_out_pieces(block);
                    else if (!block->split()) {
                        pool->remove(block);
                        take_out(block);
                    }
                });
    send_back(lock);
    left_.wait(lock, [&] { return num_leaving_ == 0; });
    put_back_aside();
}

/// Gives back free blocks past max_split_size, largest first, until the driver has room for a request that
/// none of them could serve.
bool CachingAllocator::Impl::give_back_oversize(std::unique_lock<std::mutex> &lock, size_t size) {
    if (options_.max_split_size == SIZE_MAX || !may_give_back())
        return false;
    size_t freed = 0;
    for (auto &stream : pools_)
        while (FreeBlocks *pool = stream[0].get()) {
            Block *block = pool->largest();
            if (!block || block->size < options_.max_split_size || block->split() || freed >= size)
                break;
            freed += block->size;
            pool->remove(block);
            take_out(block);
        }
    send_back(lock);
    return freed >= size;
}

/// PyTorch's garbage_collection_threshold: whole free segments of the large pool, and of those that grow what
/// is free, the longest unused first (not younger than the average), until what is reserved falls below the
/// threshold.
void CachingAllocator::Impl::collect_garbage(std::unique_lock<std::mutex> &lock) {
    if (!may_give_back())
        return;
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
    size_t before = SIZE_MAX; // of what is free the ends may be parts of pieces, which stay
    while (reserved_ > threshold && reserved_ < before && !(blocks = candidates()).empty()) {
        before = reserved_;
        uint64_t sum = 0;
        for (const Block *block : blocks)
            sum += requests_ - block->freed_at;
        uint64_t average = sum / blocks.size();
        size_t left = reserved_;
        for (Block *block : blocks)
            if (left > threshold && requests_ - block->freed_at >= average) {
                if (block->expandable) {
                    left -= take_out_pieces(block);
                    continue;
                }
                left -= block->size;
                free_blocks(block->stream, false).remove(block);
                take_out(block);
            }
        send_back(lock);
    }
}

void CachingAllocator::Impl::empty_cache() {
    std::unique_lock lock(mutex_);
    if (!may_give_back())
        return;
    put_back_aside();
    wait_for_guards(lock);
    give_back_cache(lock);
}

// --- freed blocks that streams are not done with

namespace {

enum class Passed : uint8_t { No, Yes };

/// A device that is lost (Failure(Cuda)) uses nothing any more; any other failure says nothing, and the guard
/// is asked again later.
template <class Ask>
Passed ask(Ask question) noexcept {
    try {
        return question() ? Passed::Yes : Passed::No;
    } catch (const ir::Failure &failure) {
        return failure.kind() == ir::ErrorKind::Cuda ? Passed::Yes : Passed::No;
    } catch (const std::exception &) {
        return Passed::No;
    }
}

} // namespace

/// Keeps a freed block until the guard has passed. False, and the block is not kept, where it has passed
/// already.
bool CachingAllocator::Impl::hold_back(Block *block, const Guard &guard) noexcept {
    if (static_cast<MemorySource *>(guard.backend) == &source_ && guard.stream == block->stream)
        return false; // what comes on that stream comes later
    if (ask([&] { return guard.backend->reached(guard.stream, guard.tick); }) == Passed::Yes)
        return false;
    ++block->guards;
    block->freed_at = requests_;
    try {
        auto same = [&](const Pending &p) { return p.backend == guard.backend && p.stream == guard.stream; };
        auto found = std::ranges::find_if(pending_, same);
        if (found == pending_.end())
            found = pending_.insert(pending_.end(), {guard.backend, guard.stream, {}, 0});
        found->blocks.push_back({guard.tick, block});
        ++num_pending_;
    } catch (const std::bad_alloc &) {
        if (num_strays_ < strays_.size()) {
            strays_[num_strays_++] = {guard, block};
            ++num_pending_;
        } // Else nobody will tell when that stream is done: the block is never used again.
    }
    return true;
}

void CachingAllocator::Impl::poll_guards() noexcept {
    for (Pending &pending : pending_)
        while (!pending.empty()) {
            const Deferred first = pending.front();
            if (ask([&] { return pending.backend->reached(pending.stream, first.tick); }) == Passed::No)
                break;
            pending.pop();
            let_go(first.block);
        }
    for (size_t i = num_strays_; i-- > 0;) {
        const auto [guard, block] = strays_[i];
        if (ask([&] { return guard.backend->reached(guard.stream, guard.tick); }) == Passed::No)
            continue;
        strays_[i] = strays_[--num_strays_];
        let_go(block);
    }
}

/// One of the streams that use the block is done with it.
void CachingAllocator::Impl::let_go(Block *block) noexcept {
    --num_pending_;
    put_back_aside();
    if (--block->guards == 0)
        take_back(block);
}

/// Waits until the guard has passed. The lock is given up: work on that stream may free memory here
/// meanwhile.
void CachingAllocator::Impl::wait_for(const Guard &guard, std::unique_lock<std::mutex> &lock) noexcept {
    lock.unlock();
    ask([&] {
        guard.backend->synchronize(guard.stream, guard.tick);
        return true;
    });
    lock.lock();
    put_back_aside();
}

/// Waits for the guard of the block that was freed first. False where no block waits, or the wait did not
/// free it.
bool CachingAllocator::Impl::wait_for_oldest_guard(std::unique_lock<std::mutex> &lock) {
    poll_guards();
    size_t oldest = pending_.size();
    for (size_t i = 0; i < pending_.size(); ++i)
        if (!pending_[i].empty() &&
            (oldest == pending_.size() ||
             pending_[i].front().block->freed_at < pending_[oldest].front().block->freed_at))
            oldest = i;
    if (oldest == pending_.size()) {
        if (num_strays_ == 0)
            return false;
        const Stray stray = strays_[0];
        wait_for(stray.guard, lock);
        poll_guards();
        return num_strays_ == 0 || strays_[0].block != stray.block;
    }
    const Deferred waited = pending_[oldest].front();
    wait_for({pending_[oldest].backend, pending_[oldest].stream, waited.tick}, lock);
    poll_guards();
    const Pending &now = pending_[oldest]; // streams are never taken off the list
    return now.empty() || now.front().block != waited.block || now.front().tick != waited.tick;
}

/// Waits until what is pending now has passed.
void CachingAllocator::Impl::wait_for_guards(std::unique_lock<std::mutex> &lock) {
    poll_guards();
    std::vector<Guard> last;
    for (const Pending &pending : pending_)
        if (!pending.empty()) {
            uint64_t tick = 0;
            for (const Deferred &deferred : pending.blocks)
                tick = std::max(tick, deferred.tick);
            last.push_back({pending.backend, pending.stream, tick});
        }
    for (size_t i = 0; i < num_strays_; ++i)
        last.push_back(strays_[i].guard);
    for (const Guard &guard : last)
        wait_for(guard, lock);
    poll_guards();
}

} // namespace lz::runtime
