#include "runtime/cuda/replay/call_capture.h"

#include "runtime/streams/threads.h"

#include <utility>

namespace lz::runtime::cuda {

CallCapture::~CallCapture() {
    if (!stream_ || in_forked_child())
        return;
    const Current current(device_.driver(), device_.context());
    drop_stream();
}

/// Whatever it captures ends.
void CallCapture::drop_stream() noexcept {
    if (stream_)
        device_.driver().cuStreamDestroy(std::exchange(stream_, nullptr));
}

OwnedGraph CallCapture::capture(const Backend::Call &call) {
    const Driver &driver = device_.driver();
    const std::lock_guard lock(mutex_);
    CUgraph graph = nullptr;
    try {
        if (!stream_)
            device_.check(driver.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
                          "making a stream");
        // Relaxed: a library may load code or ask for memory meanwhile, and other threads do.
        device_.check(driver.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED),
                      "capturing a library call");
        LibraryArgs args = call.args;
        args.driver_stream = stream_;
        call.function(args);
        device_.check(driver.cuStreamEndCapture(stream_, &graph), "capturing a library call");
    } catch (...) {
        drop_stream();
        throw;
    }
    return {driver, graph};
}

} // namespace lz::runtime::cuda
