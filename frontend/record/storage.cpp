#include "frontend/record/storage.h"

#include "frontend/record/arena.h"

namespace lz::detail {

void *Storage::operator new(size_t bytes) {
    return allocate_node(size_class_of(sizeof(Storage)), bytes);
}

void Storage::operator delete(void *memory) noexcept {
    free_node(memory, size_class_of(sizeof(Storage)));
}

Storage *Storage::allocate(int64_t bytes, ir::StreamRef home, bool pinned) {
    auto s = std::make_unique<Storage>();
    engine::Engine::get().allocate(s->block, bytes, home, pinned);
    s->bytes = bytes;
    return s.release();
}

Storage *Storage::adopt(void *data, int64_t bytes, std::function<void(void *)> deleter) {
    auto *s = new Storage;
    s->block.data = data;
    s->bytes = bytes;
    s->adopted = true;
    s->deleter.swap(deleter); // never throws
    return s;
}

Storage *StorageSlot::take() noexcept {
    Storage *storage = storage_.load(std::memory_order_relaxed);
    while (storage && storage != closed())
        if (storage_.compare_exchange_weak(storage, nullptr, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
            storage->refs.store(1, std::memory_order_relaxed);
            return storage;
        }
    return nullptr;
}

bool StorageSlot::give_back(Storage *storage) noexcept {
    Storage *none = nullptr;
    return storage_.compare_exchange_strong(none, storage, std::memory_order_release,
                                            std::memory_order_relaxed);
}

void StorageSlot::close() noexcept {
    Storage *const left = storage_.exchange(closed(), std::memory_order_acq_rel);
    if (left && left != closed()) {
        left->refs.store(1, std::memory_order_relaxed);
        left->release(); // to the allocator
    }
}

void StorageSlot::release() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1)
        delete this;
}

void Storage::release() noexcept {
    // Only who has a reference can add one. So nobody can while the last one goes: the count need not be
    // written.
    if (refs.load(std::memory_order_acquire) != 1 && refs.fetch_sub(1, std::memory_order_acq_rel) != 1)
        return;
    StorageSlot *const home = slot;
    if (home && !exposed.load(std::memory_order_relaxed) && !block.use.load(std::memory_order_acquire) &&
        home->give_back(this))
        return;
    engine::Engine &engine = engine::Engine::get();
    if (adopted) {
        // The user gets it back when no stream uses it any more: the only release that waits.
        try {
            engine.wait(block, true);
        } catch (const ir::Failure &) { // a lost device does not use it either
        }
        engine.forget(block);
        if (deleter)
            deleter(block.data);
    } else {
        engine.free(block);
    }
    delete this;
    if (home)
        home->release();
}

} // namespace lz::detail
