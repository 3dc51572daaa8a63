#include "tests/support/cuda/driver/context.h"

#include "tests/support/cuda/driver/graphs/capture.h"
#include "tests/support/cuda/driver/graphs/graph.h"
#include "tests/support/cuda/driver/memory/address_space.h"
#include "tests/support/cuda/driver/memory/memory.h"
#include "tests/support/cuda/driver/modules/module.h"
#include "tests/support/cuda/driver/settings.h"
#include "tests/support/cuda/driver/streams/event.h"
#include "tests/support/cuda/driver/streams/stream.h"

#include <array>
#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace lz::fake_cuda {
namespace {

std::deque<Context> &contexts() {
    static auto *const all = [] {
        auto *made = new std::deque<Context>;
        for (int i = 0; i < settings().devices(); ++i) {
            Context &c = made->emplace_back();
            c.device = i;
            c.handle = reinterpret_cast<CUcontext>(uint64_t{0xcc} << 56 | static_cast<uint64_t>(i + 1) << 4);
        }
        return made;
    }();
    return *all;
}

/// The thread's contexts, the current one last. Null stands for none. Nothing is destroyed with the thread:
/// in main's, statics of the user still call when that is over.
class Stack {
public:
    bool empty() const { return size_ == 0; }
    Context *&back() { return contexts_[size_ - 1]; }
    void push_back(Context *context) {
        if (size_ == contexts_.size())
            refuse(CUDA_ERROR_OUT_OF_MEMORY, "so many contexts are on this thread's stack");
        contexts_[size_++] = context;
    }
    void pop_back() { --size_; }

private:
    std::array<Context *, 256> contexts_;
    size_t size_;
};
Stack &stack() {
    thread_local Stack contexts{};
    return contexts;
}

Context *top() {
    return stack().empty() ? nullptr : stack().back();
}

void set_top(Context *context) {
    if (stack().empty())
        stack().push_back(context);
    else
        stack().back() = context;
}

void activate(Context &c) {
    if (c.active)
        return;
    c.active = true;
    ++c.generation;
    c.error = CUDA_SUCCESS;
    c.reach = 1u << c.device;
    c.legacy = make_stream(c, CU_STREAM_DEFAULT, 0);
}

constexpr unsigned kFlagsKnown = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX;

void set_flags(CUdevice device, unsigned flags) {
    Context &c = context_of_device(device);
    if (flags & ~kFlagsKnown)
        refuse(CUDA_ERROR_INVALID_VALUE, "flags of the context that are not known");
    c.flags = flags;
}

void release(CUdevice device, Lock &lock) {
    Context &c = context_of_device(device);
    if (c.retained == 0)
        refuse(CUDA_ERROR_INVALID_CONTEXT, "the primary context is released more often than it was retained");
    if (--c.retained == 0)
        destroy_context(c, lock);
}

void enable_peer(CUcontext peer, unsigned flags) {
    Context &here = current_context();
    Context &there = context_of(peer);
    if (flags != 0)
        refuse(CUDA_ERROR_INVALID_VALUE, "flags have to be 0");
    if (&here == &there)
        refuse(CUDA_ERROR_INVALID_DEVICE, "a context is no peer of its own");
    if (!settings().peers)
        refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "LAZULI_FAKE_CUDA_PEERS=0");
    if (here.reach >> there.device & 1)
        refuse(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "it was enabled before");
    here.reach |= 1u << there.device;
}

} // namespace

int device_count() {
    return static_cast<int>(contexts().size());
}

Context &context_of_device(int device) {
    if (device < 0 || device >= device_count())
        refuse(CUDA_ERROR_INVALID_DEVICE, fmt::format("there is no device {}", device));
    return contexts()[static_cast<size_t>(device)];
}

Context &context_of(CUcontext handle) {
    for (Context &c : contexts())
        if (c.handle == handle) {
            if (!c.active)
                refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the primary context is not active");
            return c;
        }
    refuse(CUDA_ERROR_INVALID_CONTEXT, "this is no context");
}

Context &current_context_even_failed() {
    Context *c = top();
    if (!c)
        refuse(CUDA_ERROR_INVALID_CONTEXT, "this thread has no current context");
    if (!c->active)
        refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed");
    return *c;
}

Context &current_context() {
    Context &c = current_context_even_failed();
    if (const CUresult error = c.error)
        refuse(error, "the context has an error of something that ran");
    return c;
}

MadeCurrent::MadeCurrent(Context &context) {
    stack().push_back(&context);
}

MadeCurrent::~MadeCurrent() {
    stack().pop_back();
}

void fail_context(Context &context, CUresult error) {
    CUresult none = CUDA_SUCCESS;
    context.error.compare_exchange_strong(none, error);
}

void fail_current_context(CUresult error) {
    Context *const context = top();
    if (!context || !context->active)
        return;
    fail_context(*context, error);
    const Lock lock(driver_mutex());
    notify_progress();
}

CUresult fail_or_count(const char *function) {
    bool stays = false;
    const CUresult error = count_call(function, stays);
    if (stays)
        fail_current_context(error);
    return error;
}

void destroy_context(Context &c, Lock &lock) {
    fail_context(c, CUDA_ERROR_CONTEXT_IS_DESTROYED); // what waits gives up
    notify_progress();
    wait_for_context(lock, c);
    drop_captures_of(c);
    c.active = false;
    for (const auto &s : c.streams) {
        s->closing = true;
        s->has_work.notify_one();
    }
    // Streams without a thread go at once, the others when their threads end.
    std::erase_if(c.streams, [](const auto &s) { return !s->started; });
    streams().remove_if([&](const Stream &s) { return s.context == &c; });
    events().remove_if([&](const Event &e) { return e.context == &c; });
    drop_graphs_of(c);
    drop_modules_of(c);
    drop_memory_of(c);
    c.legacy.reset();
    c.error = CUDA_SUCCESS;
    c.reach = 0;
    for (Context &other : contexts())
        if (&other != &c)
            other.reach &= ~(1u << c.device);
}

} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    return call(__func__, [&](Lock &) {
        need(context, "pctx");
        Context &c = context_of_device(device);
        activate(c);
        ++c.retained;
        *context = c.handle;
    });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    return call(__func__, [&](Lock &lock) { release(device, lock); });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return call(__func__, [&](Lock &lock) { release(device, lock); });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    return call(__func__, [&](Lock &lock) {
        if (Context &c = context_of_device(device); c.active)
            destroy_context(c, lock);
    });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    return call(__func__, [&](Lock &lock) {
        if (Context &c = context_of_device(device); c.active)
            destroy_context(c, lock);
    });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
    return call(__func__, [&](Lock &) { set_flags(device, flags); });
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    return call(__func__, [&](Lock &) { set_flags(device, flags); });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    return call(__func__, [&](Lock &) {
        need(flags, "flags");
        need(active, "active");
        const Context &c = context_of_device(device);
        *flags = c.flags;
        *active = c.active;
    });
}

CUresult cuCtxSetCurrent(CUcontext handle) {
    return call(__func__, [&](Lock &) { set_top(handle ? &context_of(handle) : nullptr); });
}

CUresult cuCtxGetCurrent(CUcontext *handle) {
    return call(__func__, [&](Lock &) {
        need(handle, "pctx");
        *handle = top() ? top()->handle : nullptr;
    });
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
    return call(__func__, [&](Lock &) { stack().push_back(&context_of(handle)); });
}

CUresult cuCtxPopCurrent_v2(CUcontext *handle) {
    return call(__func__, [&](Lock &) {
        Context &c = current_context_even_failed();
        stack().pop_back();
        if (handle)
            *handle = c.handle;
    });
}

CUresult cuCtxGetDevice(CUdevice *device) {
    return call(__func__, [&](Lock &) {
        need(device, "device");
        *device = current_context_even_failed().device;
    });
}

CUresult cuCtxGetFlags(unsigned *flags) {
    return call(__func__, [&](Lock &) {
        need(flags, "flags");
        *flags = current_context_even_failed().flags;
    });
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned *version) {
    return call(__func__, [&](Lock &) {
        need(version, "version");
        if (handle)
            context_of(handle);
        else
            current_context_even_failed();
        *version = 3020;
    });
}

CUresult cuCtxSynchronize() {
    return call(__func__, [&](Lock &lock) -> CUresult {
        Context &c = current_context();
        refuse_in_capture(c);
        return wait_for_context(lock, c);
    });
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    return call(__func__, [&](Lock &) {
        current_context();
        if (least)
            *least = 0;
        if (greatest)
            *greatest = -5;
    });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    return call(__func__, [&](Lock &) { enable_peer(peer, flags); });
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    return call(__func__, [&](Lock &) {
        Context &here = current_context();
        const uint32_t there = 1u << context_of(peer).device;
        if (peer == here.handle || !(here.reach & there))
            refuse(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "it was not enabled");
        here.reach &= ~there;
    });
}
