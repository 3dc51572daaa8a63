#pragma once
/// Memory for faults in pinned slabs: each state of each program on a GPU has a few dozen bytes of them, and
/// a pinned allocation takes at least 64 KiB.

#include "ir/kernel/compiled_kernel.h"

#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>

namespace lz::runtime {

/// From any thread. What is given back is used again for blocks of the same class, powers of two; slabs stay
/// as long as what they are taken from.
class FaultSlabs {
public:
    using Allocate = std::function<void *(size_t bytes)>; ///< nullptr, or a throw, where there is none
    using Free = std::function<void(void *)>;
    FaultSlabs(Allocate allocate, Free free) : allocate_(std::move(allocate)), free_slab_(std::move(free)) {}
    /// Uninitialised room for `count` faults, or nullptr when there is no memory.
    void *take(size_t count);
    void give_back(void *faults, size_t count) noexcept;

private:
    struct Unused {
        Unused *next;
    };
    static_assert(sizeof(Unused) <= sizeof(ir::Fault) && alignof(Unused) <= alignof(ir::Fault));

    const Allocate allocate_;
    const Free free_slab_;
    std::mutex mutex_;
    std::array<Unused *, 64> unused_ = {}; ///< by class
    std::byte *next_ = nullptr, *end_ = nullptr;
};

} // namespace lz::runtime
