#include "runtime/allocator/pinned_memory.h"

#include "ir/diagnostic.h"

namespace lz::runtime {

void *PinnedMemory::allocate(size_t bytes) {
    for (size_t g = 0;; ++g)
        try {
            void *const memory = gpus_[g]->allocate_pinned(bytes);
            note(memory, bytes, *gpus_[g]);
            return memory;
        } catch (const ir::Failure &failure) {
            if (failure.kind() != ir::ErrorKind::Cuda || g + 1 == gpus_.size())
                throw;
        }
}

void PinnedMemory::note(void *memory, size_t bytes, Backend &giver) {
    if (&giver == gpus_[0].get())
        return;
    try {
        const std::lock_guard lock(mutex_);
        from_others_.emplace(memory, &giver);
    } catch (...) {
        giver.free_pinned(memory, bytes);
        throw;
    }
}

Backend &PinnedMemory::take_giver(void *memory) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = from_others_.extract(memory);
    return found.empty() ? *gpus_[0] : *found.mapped();
}

} // namespace lz::runtime
