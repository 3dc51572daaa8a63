#include "tests/support/cuda/driver/graphs/capture.h"

#include "tests/support/cuda/driver/streams/event.h"

#include <algorithm>
#include <set>

namespace lz::fake_cuda {
namespace {

/// Captures that go on. Under the driver's lock.
std::vector<std::shared_ptr<Capture>> &captures() {
    static auto *const all = new std::vector<std::shared_ptr<Capture>>;
    return *all;
}

/// Of the calling thread (cuThreadExchangeStreamCaptureMode).
CUstreamCaptureMode &mode_of_thread() {
    thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return mode;
}

/// Takes all streams out of the capture.
void end(const std::shared_ptr<Capture> &capture) {
    for (const auto &s : capture->streams) {
        s->capture.reset();
        s->tail.clear();
    }
    capture->streams.clear();
    std::erase(captures(), capture);
}

void check_valid(const Capture &capture) {
    if (capture.invalid)
        refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier call made the capture invalid");
}

/// Whether all that other streams captured comes before the end of the origin.
bool is_joined(const Capture &capture) {
    std::set<const Node *> before;
    std::vector<const Node *> left(capture.origin->tail.begin(), capture.origin->tail.end());
    while (!left.empty()) {
        const Node *node = left.back();
        left.pop_back();
        if (before.insert(node).second)
            left.insert(left.end(), node->after.begin(), node->after.end());
    }
    return std::ranges::all_of(capture.streams, [&](const auto &s) {
        return std::ranges::all_of(s->tail, [&](const Node *n) { return before.contains(n); });
    });
}

void begin(CUstream handle, CUstreamCaptureMode mode) {
    const auto s = stream_of(handle);
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        refuse(CUDA_ERROR_INVALID_VALUE, "the mode is not known");
    if (s->is_legacy())
        refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the null stream cannot capture");
    if (s->capture)
        refuse(CUDA_ERROR_ILLEGAL_STATE, "the stream captures already");
    static uint64_t ids = 0;
    auto capture = std::make_shared<Capture>();
    capture->id = ++ids;
    capture->graph = std::make_shared<Graph>();
    capture->graph->handle = graphs().add(capture->graph);
    capture->origin = s.get();
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->streams.push_back(s);
    captures().push_back(capture);
    s->capture = capture;
    s->tail.clear();
}

void end_capture(CUstream handle, CUgraph *graph) {
    need(graph, "phGraph");
    *graph = nullptr;
    const auto s = stream_of(handle);
    const auto capture = s->capture;
    if (!capture)
        refuse(CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
    if (capture->origin != s.get()) {
        invalidate(*capture);
        refuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began in another stream");
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id())
        refuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture");
    const bool joined = is_joined(*capture);
    end(capture);
    if (capture->invalid || !joined)
        destroy_graph(capture->graph->handle);
    check_valid(*capture);
    if (!joined)
        refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream was forked and never joined again");
    *graph = capture->graph->handle;
}

CUstreamCaptureStatus status_of(const Stream &s) {
    return !s.capture           ? CU_STREAM_CAPTURE_STATUS_NONE
           : s.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                  const CUgraphNode **dependencies, size_t *count) {
    need(status, "captureStatus_out");
    const auto s = stream_of(handle);
    refuse_beside_capture(*s);
    *status = status_of(*s);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return;
    if (id)
        *id = s->capture->id;
    if (graph)
        *graph = s->capture->graph->handle;
    thread_local std::vector<CUgraphNode> tail; // it stays until the next call
    tail.clear();
    for (const Node *n : s->tail)
        tail.push_back(n->handle);
    if (dependencies)
        *dependencies = tail.data();
    if (count)
        *count = tail.size();
}

} // namespace

void invalidate(Capture &capture) {
    capture.invalid = true;
}

void capture_work(Stream &s, Work work) {
    check_valid(*s.capture);
    const CUgraphNodeType type = type_of(work);
    s.tail = {&add_node(*s.capture->graph, type, *s.context, std::move(work), s.tail)};
}

void capture_record(Stream &s, Event &event) {
    check_valid(*s.capture);
    event.capture = s.capture;
    event.captured = s.tail;
    event.is_captured = true;
}

void capture_wait(Stream &s, const Event &event) {
    const auto capture = event.capture.lock();
    if (!capture || std::ranges::find(captures(), capture) == captures().end())
        refuse(CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a capture that is over");
    check_valid(*capture);
    if (s.is_legacy()) {
        invalidate(*capture);
        refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the null stream cannot join a capture");
    }
    if (s.capture && s.capture != capture) {
        invalidate(*capture);
        invalidate(*s.capture);
        refuse(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one");
    }
    if (!s.capture) {
        s.capture = capture;
        s.tail.clear();
        capture->streams.push_back(s.shared_from_this());
    }
    for (Node *n : event.captured)
        if (std::ranges::find(s.tail, n) == s.tail.end())
            s.tail.push_back(n);
}

void refuse_capturing(Stream &s, const char *what) {
    if (!s.capture)
        return;
    invalidate(*s.capture);
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, std::string(what) + " in a stream that captures");
}

void refuse_in_capture(Context &context) {
    for (const auto &s : context.streams)
        refuse_capturing(*s, "a synchronization of the context");
}

void refuse_unsafe_call() {
    if (captures().empty() || mode_of_thread() == CU_STREAM_CAPTURE_MODE_RELAXED)
        return;
    for (const auto &c : captures()) {
        const bool own = c->thread == std::this_thread::get_id() && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        const bool global =
            c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mode_of_thread() == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (own || global) {
            invalidate(*c);
            refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                   "a call that may wait for the device, in a capture");
        }
    }
}

void refuse_beside_capture(Stream &s) {
    if (captures().empty() || !s.is_legacy())
        return;
    for (const auto &other : s.context->streams)
        if (other->capture && other->blocks_with_legacy()) {
            invalidate(*other->capture);
            refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the null stream would wait for a capture");
        }
}

void drop_capture_of(Stream &s) {
    if (const auto capture = s.capture) {
        end(capture);
        destroy_graph(capture->graph->handle);
    }
}

void drop_captures_of(Context &context) {
    for (const auto &s : context.streams)
        drop_capture_of(*s);
}

} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    return call(__func__, [&](Lock &) { begin(stream, mode); });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    return call(__func__, [&](Lock &) { end_capture(stream, graph); });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    return call(__func__, [&](Lock &) {
        need(status, "captureStatus");
        const auto s = stream_of(stream);
        refuse_beside_capture(*s);
        *status = status_of(*s);
    });
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *count) {
    return call(__func__, [&](Lock &) { capture_info(stream, status, id, graph, dependencies, count); });
}

#if CUDA_VERSION >= 12030
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies,
                                   const CUgraphEdgeData **edges, size_t *count) {
    return call(__func__, [&](Lock &) {
        capture_info(stream, status, id, graph, dependencies, count);
        if (edges)
            *edges = nullptr; // all are ordinary
    });
}
#endif

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    return call(__func__, [&](Lock &) {
        need(mode, "mode");
        if (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
            refuse(CUDA_ERROR_INVALID_VALUE, "the mode is not known");
        std::swap(*mode, mode_of_thread());
    });
}
