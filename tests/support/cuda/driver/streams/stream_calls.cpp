// Functions on streams.

#include "tests/support/cuda/driver/fake_cuda.h"
#include "tests/support/cuda/driver/graphs/capture.h"
#include "tests/support/cuda/driver/memory/memory.h"
#include "tests/support/cuda/driver/streams/stream.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::fake_cuda {
namespace {

void create(CUstream *stream, unsigned flags, int priority) {
    Context &context = current_context();
    need(stream, "phStream");
    if (flags & ~unsigned{CU_STREAM_NON_BLOCKING})
        refuse(CUDA_ERROR_INVALID_VALUE, "flags of the stream that are not known");
    const auto s = make_stream(context, flags, std::clamp(priority, -5, 0));
    s->handle = streams().add(s);
    *stream = s->handle;
}

void check_word(const Stream &s, uint64_t address, uint32_t bytes) {
    if (address % bytes != 0)
        refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("0x{:x} is no multiple of {}", address, bytes));
    check_range(address, bytes, *s.context, "addr");
}

CUresult wait_value(const char *function, CUstream stream, uint64_t address, uint64_t value, uint32_t bytes,
                    unsigned flags) {
    return call(function, [&](Lock &) {
        const auto s = stream_of(stream);
        if (flags & ~unsigned{3 | CU_STREAM_WAIT_VALUE_FLUSH})
            refuse(CUDA_ERROR_INVALID_VALUE, "flags of the wait that are not known");
        if (flags & CU_STREAM_WAIT_VALUE_FLUSH)
            refuse(CUDA_ERROR_NOT_SUPPORTED, "remote writes cannot be flushed");
        check_word(*s, address, bytes);
        refuse_capturing(*s, "a wait for a value");
        put(*s, ValueWaitWork{address, value, bytes, flags});
    });
}

CUresult write_value(const char *function, CUstream stream, uint64_t address, uint64_t value, uint32_t bytes,
                     unsigned flags) {
    return call(function, [&](Lock &) {
        const auto s = stream_of(stream);
        if (flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER})
            refuse(CUDA_ERROR_INVALID_VALUE, "flags of the write that are not known");
        check_word(*s, address, bytes);
        refuse_capturing(*s, "a write of a value");
        put(*s, ValueWriteWork{address, value, bytes});
    });
}

} // namespace
} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    return call(__func__, [&](Lock &) { create(stream, flags, 0); });
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    return call(__func__, [&](Lock &) { create(stream, flags, priority); });
}

CUresult cuStreamDestroy_v2(CUstream handle) {
    return call(__func__, [&](Lock &) -> CUresult {
        const auto s = streams().get(handle);
        drop_capture_of(*s);
        streams().remove(handle);
        s->closing = true;
        s->has_work.notify_one();
        if (!s->started)
            std::erase(s->context->streams, s);
        return s->context->error;
    });
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
    return call(__func__, [&](Lock &) {
        need(priority, "priority");
        *priority = stream_of(stream)->priority;
    });
}

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
    return call(__func__, [&](Lock &) {
        need(flags, "flags");
        *flags = stream_of(stream)->flags;
    });
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id) {
    return call(__func__, [&](Lock &) {
        need(id, "streamId");
        *id = stream_of(stream)->id;
    });
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    return call(__func__, [&](Lock &) {
        need(context, "pctx");
        *context = stream_of(stream)->context->handle;
    });
}

CUresult cuStreamQuery(CUstream stream) {
    return call(__func__, [&](Lock &) -> CUresult {
        const auto s = stream_of(stream);
        refuse_capturing(*s, "a query");
        if (s->is_legacy())
            for (const auto &other : s->context->streams)
                if (other->blocks_with_legacy() && other->done < other->given)
                    return CUDA_ERROR_NOT_READY;
        return s->done == s->given ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    });
}

CUresult cuStreamSynchronize(CUstream stream) {
    return call(__func__, [&](Lock &lock) -> CUresult {
        const auto s = stream_of(stream);
        refuse_capturing(*s, "a synchronization");
        refuse_beside_capture(*s);
        return wait_for_stream(lock, *s);
    });
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    return wait_value(__func__, stream, address, value, 4, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    return wait_value(__func__, stream, address, value, 8, flags);
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    return write_value(__func__, stream, address, value, 4, flags);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    return write_value(__func__, stream, address, value, 8, flags);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
    return call(__func__, [&](Lock &) {
        const auto s = stream_of(stream);
        need(function, "fn");
        put(*s, HostWork{function, data});
    });
}

extern "C" __attribute__((visibility("default"))) int
lazuli_fake_cuda_enqueue(void *stream, int (*run)(void *), void (*drop)(void *), void *data) {
    const std::shared_ptr<void> owned(data, drop);
    return call("lazuli_fake_cuda_enqueue", [&](Lock &) {
        const auto s = stream_of(static_cast<CUstream>(stream));
        put(*s, CallWork{std::make_shared<std::function<CUresult()>>(
                    [run, owned] { return static_cast<CUresult>(run(owned.get())); })});
    });
}
