#pragma once
/// Memory of nodes: free lists of a thread over slabs, no lock and no heap call on the steady path.

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

/// Memory for a node of this class, 64-byte aligned (`bytes` matters for kHeapClass only).
void *allocate_node(uint8_t size_class, size_t bytes);
/// From any thread. The block joins the calling thread's list; lists go back to all threads when a thread
/// ends.
void free_node(void *memory, uint8_t size_class) noexcept;

} // namespace lz::detail
