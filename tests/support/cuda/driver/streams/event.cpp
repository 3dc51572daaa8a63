#include "tests/support/cuda/driver/streams/event.h"

#include "tests/support/cuda/driver/graphs/capture.h"
#include "tests/support/cuda/driver/streams/stream.h"

namespace lz::fake_cuda {

Handles<CUevent, Event> &events() {
    static auto *const all = new Handles<CUevent, Event>("event");
    return *all;
}

std::shared_ptr<Record> new_record(Event &event) {
    auto record = std::make_shared<Record>();
    record->context = event.context;
    event.last = record;
    event.is_captured = false;
    event.captured.clear();
    return record;
}

namespace {

void record(CUevent handle, CUstream stream, unsigned flags) {
    if (flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL})
        refuse(CUDA_ERROR_INVALID_VALUE, "the flags of a record are not known");
    const auto s = stream_of(stream);
    const auto &event = events().get(handle);
    if (event->context != s->context)
        refuse(CUDA_ERROR_INVALID_HANDLE, "the event and the stream belong to different contexts");
    if (!s->capture) {
        refuse_beside_capture(*s);
        enqueue(*s, RecordWork{new_record(*event), nullptr});
    } else if (flags & CU_EVENT_RECORD_EXTERNAL) {
        capture_work(*s, RecordWork{nullptr, event});
    } else {
        capture_record(*s, *event);
    }
}

void check_not_captured(const Event &event) {
    if (event.is_captured) {
        if (const auto capture = event.capture.lock())
            invalidate(*capture);
        refuse(CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a capturing stream");
    }
}

void elapsed(float *milliseconds, CUevent begin, CUevent end) {
    current_context();
    need(milliseconds, "pMilliseconds");
    const auto &a = events().get(begin), &b = events().get(end);
    if (a->context != b->context)
        refuse(CUDA_ERROR_INVALID_HANDLE, "the events belong to different contexts");
    if ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
        refuse(CUDA_ERROR_INVALID_HANDLE, "an event was created without timing");
    check_not_captured(*a);
    check_not_captured(*b);
    if (!a->last || !b->last)
        refuse(CUDA_ERROR_INVALID_HANDLE, "an event was never recorded");
    if (!a->last->done || !b->last->done)
        refuse(CUDA_ERROR_NOT_READY, "an event was not reached yet");
    *milliseconds = static_cast<float>(static_cast<double>(b->last->time - a->last->time) * 1e-6);
}

} // namespace
} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    return call(__func__, [&](Lock &) {
        Context &context = current_context();
        need(event, "phEvent");
        constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
        if (flags & CU_EVENT_INTERPROCESS)
            refuse(CUDA_ERROR_NOT_SUPPORTED, "events between processes are not there");
        if (flags & ~kKnown)
            refuse(CUDA_ERROR_INVALID_VALUE, "the flags of the event are not known");
        auto e = std::make_shared<Event>();
        e->context = &context;
        e->flags = flags;
        *event = events().add(std::move(e));
    });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    return call(__func__, [&](Lock &) { record(event, stream, 0); });
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    return call(__func__, [&](Lock &) { record(event, stream, flags); });
}

CUresult cuEventQuery(CUevent handle) {
    return call(__func__, [&](Lock &) -> CUresult {
        const auto &event = events().get(handle);
        check_not_captured(*event);
        refuse_unsafe_call();
        if (const CUresult error = event->context->error)
            return error;
        return !event->last || event->last->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}

CUresult cuEventSynchronize(CUevent handle) {
    return call(__func__, [&](Lock &lock) -> CUresult {
        const auto event = events().get(handle);
        check_not_captured(*event);
        refuse_unsafe_call();
        const auto record = event->last;
        if (!record)
            return event->context->error;
        return wait_until(lock, *event->context, [&] { return record->done; });
    });
}

CUresult cuEventDestroy_v2(CUevent handle) {
    return call(__func__, [&](Lock &) -> CUresult {
        const auto event = events().remove(handle);
        return event->context->error;
    });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
    return call(__func__, [&](Lock &) { elapsed(milliseconds, begin, end); });
}

#if CUDA_VERSION >= 12080
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent begin, CUevent end) {
    return call(__func__, [&](Lock &) { elapsed(milliseconds, begin, end); });
}
#endif

CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned flags) {
    return call(__func__, [&](Lock &) {
        if (flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL})
            refuse(CUDA_ERROR_INVALID_VALUE, "the flags of a wait are not known");
        const auto s = stream_of(stream);
        const auto event = events().get(handle);
        if (event->is_captured) {
            capture_wait(*s, *event);
        } else if (s->capture) {
            if (!(flags & CU_EVENT_WAIT_EXTERNAL)) {
                invalidate(*s->capture);
                refuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                       "a capturing stream waits for an event recorded outside of the capture");
            }
            capture_work(*s, WaitWork{nullptr, event});
        } else if (event->last && !event->last->done) {
            refuse_beside_capture(*s);
            enqueue(*s, WaitWork{event->last, nullptr});
        }
    });
}
