#include "runtime/cuda/event.h"

#include "runtime/streams/threads.h"

namespace lz::runtime::cuda {

OwnedEvent::OwnedEvent(const CudaDevice &device, unsigned flags) : device_(device) {
    const Entered entered(device_, "entering its context");
    device_.check(device_.driver().cuEventCreate(&event_, flags), "making an event");
}

OwnedEvent::~OwnedEvent() {
    if (in_forked_child())
        return;
    const Current current(device_.driver(), device_.context());
    device_.driver().cuEventDestroy(event_);
}

} // namespace lz::runtime::cuda
