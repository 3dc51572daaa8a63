#pragma once
/// Memory of nodes: free lists of a thread over slabs, no lock and no heap call on the steady path.

#include "ir/host/hot_tls.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace lz::detail {

/// Bytes of the smallest size class, and the classes after it double: 256, 512, 1024, 2048, 4096. Larger
/// blocks come from the heap (class kHeapClass).
inline constexpr size_t kSmallestNode = 256;
inline constexpr int kNodeClasses = 5;
inline constexpr uint8_t kHeapClass = 255;

constexpr uint8_t size_class_of(size_t bytes) {
    size_t room = kSmallestNode;
    for (uint8_t c = 0; c < kNodeClasses; ++c, room *= 2)
        if (bytes <= room)
            return c;
    return kHeapClass;
}

/// A block that nobody uses.
struct FreeBlock {
    FreeBlock *next;
    FreeBlock *next_list; ///< of a list's first block, while all threads share the list
};
static_assert(sizeof(FreeBlock) <= kSmallestNode);

/// What a thread has at hand of each class.
struct ThreadLists {
    std::array<FreeBlock *, kNodeClasses> lists{};
    std::array<uint32_t, kNodeClasses> freed{}; ///< since the list was last shared or made
};
/// Null before a thread's first node, and again when its lists are gone: what static destructors free goes
/// straight to all threads.
LZ_HOT_TLS extern constinit thread_local ThreadLists *thread_lists;

/// Blocks that a thread keeps of one class before it shares them: a consumer thread that frees what a
/// producer makes must not hoard.
inline constexpr uint32_t kKeptBlocks = 16384;

/// Where the thread has no block at hand, or must not keep one more.
[[gnu::cold]] void *allocate_elsewhere(uint8_t size_class, size_t bytes);
[[gnu::cold]] void free_elsewhere(void *memory, uint8_t size_class) noexcept;

/// Memory for a node of this class, 64-byte aligned (`bytes` matters for kHeapClass only).
inline void *allocate_node(uint8_t size_class, size_t bytes) {
    ThreadLists *const mine = thread_lists;
    if (size_class < kNodeClasses && mine) [[likely]]
        if (FreeBlock *const block = mine->lists[size_class]) [[likely]] {
            mine->lists[size_class] = block->next;
            mine->freed[size_class] -= mine->freed[size_class] != 0;
            return block;
        }
    return allocate_elsewhere(size_class, bytes);
}
/// From any thread. The block joins the calling thread's list; lists go back to all threads when a thread
/// ends.
inline void free_node(void *memory, uint8_t size_class) noexcept {
    ThreadLists *const mine = thread_lists;
    if (size_class < kNodeClasses && mine && mine->freed[size_class] < kKeptBlocks) [[likely]] {
        auto *const block = static_cast<FreeBlock *>(memory);
        block->next = mine->lists[size_class];
        mine->lists[size_class] = block;
        ++mine->freed[size_class];
        return;
    }
    free_elsewhere(memory, size_class);
}

} // namespace lz::detail
