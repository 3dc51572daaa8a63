#pragma once
/// Memory for faults in pinned slabs: each state of each program on a GPU has a few dozen bytes of them, and
/// a pinned allocation takes at least 64 KiB.

#include "ir/kernel/compiled_kernel.h"
#include "runtime/virtual/memory.h"

#include <array>
#include <cstddef>
#include <mutex>

namespace lz::runtime {

/// From any thread. What is given back is used again for blocks of the same class, powers of two; slabs stay
/// until the space dies.
class FaultSlabs {
public:
    explicit FaultSlabs(PinnedSpace &space) : space_(space) {}
    /// Uninitialised room for `count` faults, or nullptr when there is no memory.
    void *take(size_t count);
    void give_back(void *faults, size_t count) noexcept;

private:
    struct Free {
        Free *next;
    };
    static_assert(sizeof(Free) <= sizeof(ir::Fault) && alignof(Free) <= alignof(ir::Fault));

    PinnedSpace &space_;
    std::mutex mutex_;
    std::array<Free *, 64> free_ = {}; ///< by class
    std::byte *next_ = nullptr, *end_ = nullptr;
};

} // namespace lz::runtime
