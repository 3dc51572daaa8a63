#include "frontend/record/arena.h"

#include "ir/host/hot_tls.h"

#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace lz::detail {

LZ_HOT_TLS constinit thread_local ThreadLists *thread_lists = nullptr;

namespace {

constexpr size_t kSlabBytes = size_t{64} << 10;
constexpr size_t kLargeSlabBytes = size_t{2} << 20;
constexpr std::align_val_t kAlign{64};

/// Lists of blocks that threads gave away. Never destroyed: nodes with static lifetime outlive everything
/// else (S68).
struct Exchange {
    std::mutex mutex;
    std::array<FreeBlock *, kNodeClasses> lists{};

    /// Under the mutex.
    void add(size_t c, FreeBlock *list) {
        list->next_list = lists[c];
        lists[c] = list;
    }
    FreeBlock *take(size_t c) {
        FreeBlock *const list = lists[c];
        if (list)
            lists[c] = list->next_list;
        return list;
    }
    static Exchange &get() {
        static Exchange *const exchange = new Exchange;
        return *exchange;
    }
};

/// Whether the thread is ending, and its lists have gone to all threads.
LZ_HOT_TLS constinit thread_local bool lists_gone = false;

/// Gives the calling thread's list of a class to all threads.
void share_list(size_t c) {
    Exchange &exchange = Exchange::get();
    const std::lock_guard lock(exchange.mutex);
    if (FreeBlock *const list = std::exchange(thread_lists->lists[c], nullptr))
        exchange.add(c, list);
    thread_lists->freed[c] = 0;
}

struct ListsOwner {
    ThreadLists lists;
    ~ListsOwner() {
        for (size_t c = 0; c < kNodeClasses; ++c)
            share_list(c);
        thread_lists = nullptr;
        lists_gone = true;
    }
};

/// The thread's, made at its first node; nullptr when they are gone.
ThreadLists *lists_of_thread() {
    if (!thread_lists && !lists_gone) {
        thread_local ListsOwner owner;
        thread_lists = &owner.lists;
    }
    return thread_lists;
}

FreeBlock *take_from_exchange(size_t c) {
    Exchange &exchange = Exchange::get();
    const std::lock_guard lock(exchange.mutex);
    FreeBlock *const list = exchange.take(c);
    if (list && lists_gone && list->next) // one at a time: there is no list to keep the rest
        exchange.add(c, list->next);
    return list;
}

FreeBlock *carve_slab(size_t c) {
    static std::atomic<size_t> carved{0};
    const size_t size = kSmallestNode << c;
    const bool large = carved.load(std::memory_order_relaxed) >= kLargeSlabBytes / 2;
    const size_t bytes = large ? kLargeSlabBytes : kSlabBytes;
    char *slab =
        static_cast<char *>(::operator new(bytes, large ? std::align_val_t{kLargeSlabBytes} : kAlign));
    if (large)
        madvise(slab, bytes, MADV_HUGEPAGE); // refusal is fine
    carved.fetch_add(bytes, std::memory_order_relaxed);
    FreeBlock *list = nullptr;
    for (size_t at = bytes; at >= size; at -= size) {
        auto *block = reinterpret_cast<FreeBlock *>(slab + at - size);
        block->next = list;
        list = block;
    }
    return list;
}

void *refill(size_t c) {
    ThreadLists *const mine = lists_of_thread();
    FreeBlock *list = take_from_exchange(c);
    if (!mine)
        return list ? list : ::operator new(kSmallestNode << c, kAlign);
    if (!list)
        list = carve_slab(c);
    mine->lists[c] = list->next;
    return list;
}

} // namespace

void *allocate_elsewhere(uint8_t size_class, size_t bytes) {
    if (size_class == kHeapClass)
        return ::operator new(bytes, kAlign);
    return refill(size_class);
}

void free_elsewhere(void *memory, uint8_t size_class) noexcept {
    if (size_class == kHeapClass) {
        ::operator delete(memory, kAlign);
        return;
    }
    auto *block = static_cast<FreeBlock *>(memory);
    ThreadLists *const mine = lists_of_thread();
    if (!mine) {
        Exchange &exchange = Exchange::get();
        const std::lock_guard lock(exchange.mutex);
        block->next = nullptr;
        exchange.add(size_class, block);
        return;
    }
    block->next = mine->lists[size_class];
    mine->lists[size_class] = block;
    if (++mine->freed[size_class] > kKeptBlocks)
        share_list(size_class);
}

} // namespace lz::detail
