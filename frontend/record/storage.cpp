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

void Storage::release() noexcept {
    // Only who has a reference can add one. So nobody can while the last one goes: the count need not be
    // written.
    if (refs.load(std::memory_order_acquire) != 1 && refs.fetch_sub(1, std::memory_order_acq_rel) != 1)
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
}

} // namespace lz::detail
