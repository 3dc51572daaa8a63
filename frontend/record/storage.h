#pragma once
/// Memory of a ready value, shared by the nodes that hold it.

#include "frontend/engine/engine.h"

#include <atomic>
#include <cstdint>
#include <functional>

namespace lz::detail {

struct Storage;

/// Where a compiled function gets the memory of a small result back when the result goes, instead of the
/// allocator: room for one storage. Counted by the plan and by the storages that come back here. Any thread.
class StorageSlot {
public:
    /// The storage, with one reference; null: there is none.
    Storage *take() noexcept;
    /// False: there is one already, or nobody will ask any more. Once it is true, the slot may be gone.
    bool give_back(Storage *storage) noexcept;
    /// Nothing is kept from now on.
    void close() noexcept;
    void retain() { refs_.fetch_add(1, std::memory_order_relaxed); }
    void release() noexcept;

private:
    /// What stands in a slot that is closed: no storage has its address.
    Storage *closed() noexcept { return reinterpret_cast<Storage *>(this); }

    std::atomic<Storage *> storage_{nullptr};
    std::atomic<uint32_t> refs_{1};
};

/// Dense row-major elements on one device. Counted by nodes; frees into the caching allocator, or calls the
/// user's deleter for adopted memory.
struct Storage {
    std::atomic<uint32_t> refs{1};
    engine::ValueMemory block;
    int64_t bytes = 0;
    bool adopted = false; ///< the user's memory: never written by the engine
    std::atomic<bool> exposed{
        false}; ///< data() gave out a writable pointer: never donated or changed in place
    std::function<void(void *)> deleter;
    StorageSlot *slot = nullptr; ///< to which it goes back; counted
    // Scratch of a sync, under the sync lock: the first input that has this storage.
    uint64_t mark = 0;
    uint32_t first_input = 0;

    void *data() const { return block.data; }
    ir::Device device() const { return block.home.device; }

    /// From the caching allocator of the home's device, or of pinned memory; throws Failure(OutOfMemory,
    /// Device).
    static Storage *allocate(int64_t bytes, ir::StreamRef home, bool pinned = false);
    static Storage *adopt(void *data, int64_t bytes, std::function<void(void *)> deleter);
    /// A Storage comes and goes with nearly every result: its own memory is the nodes' (arena.h).
    static void *operator new(size_t bytes);
    static void operator delete(void *memory) noexcept;

    void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
    void release() noexcept;
};

} // namespace lz::detail
