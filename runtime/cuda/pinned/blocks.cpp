#include "runtime/cuda/pinned/blocks.h"

#include "runtime/streams/threads.h"

#include <algorithm>

namespace lz::runtime::cuda {

PinnedBlocks::Lease::Lease(PinnedBlocks &blocks, size_t bytes, CudaStream &stream)
    : blocks_(blocks), stream_(stream), memory_(blocks.take(std::max<size_t>(bytes, 1), stream)) {}

void PinnedBlocks::Lease::give_back() noexcept {
    if (!memory_ || in_forked_child())
        return;
    blocks_.give_back(memory_, stream_.record());
    memory_ = nullptr;
}

PinnedBlocks::~PinnedBlocks() {
    if (in_forked_child())
        return;
    for (const PinnedBlock &block : blocks_)
        device_.free_pinned(block.memory);
}

size_t PinnedBlocks::bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
}

/// The smallest free block that is large enough, or a new one.
std::byte *PinnedBlocks::take(size_t bytes, CudaStream &stream) {
    const std::lock_guard lock(mutex_);
    const auto lease = [&](PinnedBlock &block) {
        block.stream = &stream;
        block.tick = kLeased;
        leased_ += block.bytes;
        return block.memory;
    };
    auto at = std::ranges::lower_bound(blocks_, bytes, {}, &PinnedBlock::bytes);
    for (auto block = at; block != blocks_.end(); ++block)
        if (is_free(*block))
            return lease(*block);
    blocks_.reserve(blocks_.size() + 1);
    auto *const memory = static_cast<std::byte *>(device_.allocate_pinned(bytes));
    at = std::ranges::lower_bound(blocks_, bytes, {}, &PinnedBlock::bytes);
    bytes_ += bytes;
    return lease(*blocks_.insert(at, {memory, bytes, &stream, 0}));
}

// The driver waits for the streams when it frees: without the lock, and on no thread that a stream waits for.
void PinnedBlocks::give_back(const std::byte *memory, uint64_t tick) noexcept {
    std::vector<std::byte *> unused;
    {
        const std::lock_guard lock(mutex_);
        PinnedBlock &block = *std::ranges::find(blocks_, memory, &PinnedBlock::memory);
        block.tick = tick;
        leased_ -= block.bytes;
        try {
            if (!on_stream_thread())
                unused = trim();
        } catch (...) { // a lost device: its memory is given back at the end
        }
    }
    for (std::byte *const block : unused)
        device_.free_pinned(block);
}

/// Takes out free blocks, the largest first, until they have no more than `most_unused_` bytes.
std::vector<std::byte *> PinnedBlocks::trim() {
    std::vector<std::byte *> out;
    if (bytes_ - leased_ <= most_unused_)
        return out;
    out.reserve(blocks_.size()); // nothing is lost
    size_t unused = 0;
    for (const PinnedBlock &block : blocks_)
        unused += is_free(block) ? block.bytes : 0;
    for (size_t b = blocks_.size(); b-- > 0 && unused > most_unused_;)
        if (is_free(blocks_[b])) {
            const size_t bytes = blocks_[b].bytes;
            out.push_back(blocks_[b].memory);
            blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(b));
            bytes_ -= bytes;
            unused -= std::min(bytes, unused); // others may have become free meanwhile
        }
    return out;
}

} // namespace lz::runtime::cuda
