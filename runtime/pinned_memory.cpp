#include "runtime/pinned_memory.h"

#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::runtime {

void *PinnedMemory::allocate(size_t bytes) {
    const size_t given = given_.fetch_add(bytes);
    try {
        if (bytes > limit_ || given > limit_ - bytes)
            throw ir::Failure(ir::ErrorKind::OutOfMemory,
                              fmt::format("pinned: {} bytes were asked for; {} of {} bytes may still be "
                                          "locked.",
                                          bytes, limit_ - std::min(given, limit_), limit_));
        return backend_.allocate_pinned(bytes);
    } catch (...) {
        given_.fetch_sub(bytes);
        throw;
    }
}

void PinnedMemory::free(void *memory, size_t bytes) noexcept {
    if (!memory)
        return;
    given_.fetch_sub(bytes);
    backend_.free_pinned(memory, bytes);
}

size_t PinnedMemory::free_memory() const {
    return limit_ - std::min(given_.load(), limit_);
}

} // namespace lz::runtime
