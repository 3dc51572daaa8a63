#include "lazuli/detail/storage.h"

#include "engine/engine.h"

namespace lz::detail {

Storage *Storage::allocate(int64_t bytes, ir::Device device) {
    void *data = engine::Engine::get().allocate(bytes, device);
    auto *s = new Storage;
    s->data = data;
    s->bytes = bytes;
    s->device = device;
    return s;
}

Storage *Storage::adopt(void *data, int64_t bytes, std::function<void(void *)> deleter) {
    auto *s = new Storage;
    s->data = data;
    s->bytes = bytes;
    s->adopted = true;
    s->deleter = std::move(deleter);
    return s;
}

void Storage::release() noexcept {
    if (refs.fetch_sub(1, std::memory_order_acq_rel) != 1)
        return;
    if (adopted) {
        if (deleter)
            deleter(data);
    } else {
        engine::Engine::get().free(data, device);
    }
    delete this;
}

} // namespace lz::detail
