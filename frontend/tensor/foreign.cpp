// Memory of a CUDA device that is shared with another library, in the order of its streams.
#include "frontend/engine/streams.h"
#include "frontend/ops/compose.h"
#include "frontend/record/access.h"
#include "frontend/record/record.h"
#include "frontend/record/sync/sync.h"
#include "ir/program/memory_use.h"
#include "lazuli/io/dlpack.h"

#include <optional>
#include <vector>

namespace lz::detail {

Tensor tensor_adopting_of(const Device &device, void *const *stream, void *data, DType dtype,
                          const Sizes &sizes, void (*deleter)(void *, void *), void *context, Location loc) {
    loc = in<"from_blob">(loc);
    const ir::Device home = to_ir(device, loc);
    const ir::TensorType type = {to_ir(dtype), checked_shape(sizes, to_ir(dtype), "from_blob", loc), home};
    std::optional<ir::Point> written;
    if (stream)
        written = translated(loc, [&] { return engine::foreign_point(home, *stream); });
    Storage *const storage = Storage::adopt(data, type.bytes(), {});
    storage->block.home = {home, ir::kDefaultStream};
    Tensor result = make_ready(type, storage, loc);
    ir::MemoryUse *const use = engine::Engine::track(storage->block);
    if (written)
        use->written(*written);
    // Whatever was thrown until now, the memory is still the caller's.
    storage->deleter = [deleter, context](void *memory) { deleter(memory, context); };
    return result;
}

void *shown_to_stream(const Tensor &tensor, void *stream, Location loc) {
    Node *const node = node_of(tensor, "data", loc);
    Storage *const storage = materialize(node, loc);
    if (node->in_flight.load(std::memory_order_acquire))
        return materialize_now(node, loc)->data();
    std::vector<ir::Point> points; // copied, because others note their uses meanwhile
    engine::Engine::track(storage->block)->for_each(false, [&](const ir::Point &p) { points.push_back(p); });
    translated(loc, [&] {
        for (const ir::Point &p : points)
            engine::foreign_waits(stream, p);
    });
    return storage->data();
}

void used_by_stream(const Tensor &tensor, void *stream) noexcept {
    try {
        Storage *const storage = Access::node(tensor)->storage;
        try {
            engine::Engine::track(storage->block)
                ->read(engine::foreign_point(storage->block.home.device, stream));
        } catch (const std::exception &) { // the stream may be gone, and what was on it
            engine::synchronize_device(storage->block.home.device);
        }
    } catch (const std::exception &) { // a lost device uses nothing any more
    }
}

} // namespace lz::detail
