#pragma once
/// Streams that capture: what is put on them becomes a graph.

#include "tests/support/cuda/driver/graphs/graph.h"
#include "tests/support/cuda/driver/streams/stream.h"

#include <thread>

namespace lz::fake_cuda {

struct Event;

struct Capture {
    uint64_t id = 0;
    std::shared_ptr<Graph> graph;
    Stream *origin = nullptr;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id thread; ///< that began it
    bool invalid = false;
    std::vector<std::shared_ptr<Stream>> streams; ///< that are part of it
};

void capture_work(Stream &stream, Work work);
void capture_record(Stream &stream, Event &event);
/// Makes a stream part of the capture that the event was recorded in.
void capture_wait(Stream &stream, const Event &event);
void invalidate(Capture &capture);

/// For what a capturing stream cannot do: refuses, and the capture is over.
void refuse_capturing(Stream &stream, const char *what);
/// The same for all streams of a context.
void refuse_in_capture(Context &context);
/// For calls that may wait for the device, while a capture forbids them to this thread.
void refuse_unsafe_call();
/// For work on the null stream while a stream that would wait for it captures.
void refuse_beside_capture(Stream &stream);

void drop_capture_of(Stream &stream);
void drop_captures_of(Context &context);

} // namespace lz::fake_cuda
