#include "lazuli/detail/arena.h"

#include <array>
#include <mutex>
#include <new>

namespace lz::detail {
namespace {

struct FreeBlock {
    FreeBlock *next;
};

constexpr size_t kSlabBytes = size_t{64} << 10;
constexpr std::align_val_t kAlign{64};

/// Blocks of threads that ended. Never destroyed: nodes with static lifetime outlive everything else (S68).
struct Exchange {
    std::mutex mutex;
    std::array<FreeBlock *, kNodeClasses> lists{};
    static Exchange &get() {
        static Exchange *const exchange = new Exchange;
        return *exchange;
    }
};

/// Blocks that a thread keeps of one class before it shares them: a consumer thread that frees what a
/// producer makes must not hoard.
constexpr uint32_t kKept = 16384;

struct ThreadLists {
    std::array<FreeBlock *, kNodeClasses> lists{};
    std::array<uint32_t, kNodeClasses> freed{}; ///< since the list was last shared or made
    ~ThreadLists();
};

// After a thread's lists are gone (static destructors still free nodes), blocks go straight to the exchange.
thread_local bool lists_gone = false;
thread_local ThreadLists thread_lists;

/// Gives the calling thread's list of a class to all threads.
void share_list(size_t c) {
    Exchange &exchange = Exchange::get();
    const std::lock_guard lock(exchange.mutex);
    while (FreeBlock *block = thread_lists.lists[c]) {
        thread_lists.lists[c] = block->next;
        block->next = exchange.lists[c];
        exchange.lists[c] = block;
    }
    thread_lists.freed[c] = 0;
}

ThreadLists::~ThreadLists() {
    for (size_t c = 0; c < lists.size(); ++c)
        share_list(c);
    lists_gone = true;
}

FreeBlock *take_from_exchange(size_t c) {
    Exchange &exchange = Exchange::get();
    const std::lock_guard lock(exchange.mutex);
    FreeBlock *block = exchange.lists[c];
    if (lists_gone) { // one at a time: there is no list to keep the rest
        if (block)
            exchange.lists[c] = block->next;
    } else {
        exchange.lists[c] = nullptr;
    }
    return block;
}

FreeBlock *carve_slab(size_t c) {
    const size_t size = kSmallestNode << c;
    char *slab = static_cast<char *>(::operator new(kSlabBytes, kAlign));
    FreeBlock *list = nullptr;
    for (size_t at = kSlabBytes; at >= size; at -= size) {
        auto *block = reinterpret_cast<FreeBlock *>(slab + at - size);
        block->next = list;
        list = block;
    }
    return list;
}

void *refill(size_t c) {
    FreeBlock *list = take_from_exchange(c);
    if (lists_gone)
        return list ? list : ::operator new(kSmallestNode << c, kAlign);
    if (!list)
        list = carve_slab(c);
    thread_lists.lists[c] = list->next;
    return list;
}

} // namespace

void *allocate_node(uint8_t size_class, size_t bytes) {
    if (size_class == kHeapClass) [[unlikely]]
        return ::operator new(bytes, kAlign);
    if (!lists_gone) [[likely]] {
        if (FreeBlock *block = thread_lists.lists[size_class]) [[likely]] {
            thread_lists.lists[size_class] = block->next;
            thread_lists.freed[size_class] -= thread_lists.freed[size_class] != 0;
            return block;
        }
    }
    return refill(size_class);
}

void free_node(void *memory, uint8_t size_class) noexcept {
    if (size_class == kHeapClass) [[unlikely]] {
        ::operator delete(memory, kAlign);
        return;
    }
    auto *block = static_cast<FreeBlock *>(memory);
    if (lists_gone) [[unlikely]] {
        Exchange &exchange = Exchange::get();
        const std::lock_guard lock(exchange.mutex);
        block->next = exchange.lists[size_class];
        exchange.lists[size_class] = block;
        return;
    }
    block->next = thread_lists.lists[size_class];
    thread_lists.lists[size_class] = block;
    if (++thread_lists.freed[size_class] > kKept) [[unlikely]]
        share_list(size_class);
}

} // namespace lz::detail
