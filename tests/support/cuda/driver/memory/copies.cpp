// Copies and fills, on streams and by the calling thread. Of memory that is not page-locked they behave as
// "API synchronization behavior" of the driver's reference says: what is copied to a device is copied out of
// the way before the call returns, what is copied from one is there when the call returns.

#include "tests/support/cuda/driver/graphs/capture.h"
#include "tests/support/cuda/driver/memory/memory.h"
#include "tests/support/cuda/driver/streams/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lz::fake_cuda {
namespace {

enum class Side : uint8_t { Device, Locked, Pageable };

Side side_of(uint64_t address, const char *name) {
    if (const auto block = address_space().find(address))
        return block->on_host() ? Side::Locked : Side::Device;
    if (address_space().holds(address))
        refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("{}: 0x{:x} is in no live allocation", name, address));
    return Side::Pageable;
}

/// Which sides a function is for.
enum class Direction : uint8_t { Any, HostToDevice, DeviceToHost, DeviceToDevice };

void check_side(Side side, uint64_t address, size_t bytes, bool device, const Context &context,
                const char *name) {
    if (device && side == Side::Pageable)
        refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("{}: 0x{:x} is no address of a device", name, address));
    if (side != Side::Pageable)
        check_range(address, bytes, context, name);
}

struct Copy {
    uint64_t to, from;
    size_t bytes;
    const Context *to_context = nullptr, *from_context = nullptr; ///< of copies between devices
};

void copy(Lock &lock, const Copy &c, Direction direction, Stream &stream, bool asynchronous) {
    const bool to_device = direction == Direction::HostToDevice || direction == Direction::DeviceToDevice;
    const bool from_device = direction == Direction::DeviceToHost || direction == Direction::DeviceToDevice;
    if (c.bytes == 0)
        return;
    if (c.to == 0 || c.from == 0)
        refuse(CUDA_ERROR_INVALID_VALUE, "a null pointer is copied");
    const Side to = side_of(c.to, "to"), from = side_of(c.from, "from");
    check_side(to, c.to, c.bytes, to_device, c.to_context ? *c.to_context : *stream.context, "to");
    check_side(from, c.from, c.bytes, from_device, c.from_context ? *c.from_context : *stream.context,
               "from");
    CopyWork work{c.to, c.from, c.bytes, nullptr};
    if (stream.capture) {
        if (!asynchronous)
            refuse_capturing(stream, "a synchronous copy");
        put(stream, std::move(work));
        return;
    }
    if (from == Side::Pageable) {
        work.staged = host_pages(c.bytes);
        if (!work.staged)
            refuse(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory to stage the copy");
        lock.unlock();
        std::memcpy(work.staged.get(), reinterpret_cast<const void *>(c.from), c.bytes);
        lock.lock();
        work.from = reinterpret_cast<uint64_t>(work.staged.get());
    }
    put(stream, std::move(work));
    const bool on_host = to != Side::Device || from == Side::Locked;
    if (to == Side::Pageable || (!asynchronous && on_host))
        if (const CUresult error = wait_for_stream(lock, stream))
            refuse(error, "the stream failed");
}

CUresult copy_now(const char *function, Copy c, Direction direction) {
    return call(function, [&](Lock &lock) {
        const auto s = stream_of(nullptr);
        refuse_unsafe_call();
        copy(lock, c, direction, *s, false);
    });
}

CUresult copy_in_stream(const char *function, Copy c, Direction direction, CUstream stream) {
    return call(function, [&](Lock &lock) { copy(lock, c, direction, *stream_of(stream), true); });
}

CUresult fill(const char *function, uint64_t to, uint32_t value, uint32_t size, size_t count, CUstream stream,
              bool asynchronous) {
    return call(function, [&](Lock &lock) {
        const auto s = stream_of(stream);
        if (!asynchronous)
            refuse_unsafe_call();
        if (count == 0)
            return;
        if (to % size != 0)
            refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("0x{:x} is no multiple of {}", to, size));
        check_range(to, count * size, *s->context, "dstDevice");
        const auto block = address_space().find(to);
        put(*s, FillWork{to, value, size, count, 1, 0});
        if (!asynchronous && block && block->on_host())
            if (const CUresult error = wait_for_stream(lock, *s))
                refuse(error, "the stream failed");
    });
}

CUresult lost_memory(const char *what, uint64_t address) {
    report(fmt::format("{} touches 0x{:x}, which was freed before it ran.", what, address));
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

void fill_elements(unsigned char *to, size_t bytes, const FillWork &w) {
    if (w.size == 1) {
        std::memset(to, static_cast<int>(w.value), bytes);
        return;
    }
    for (size_t i = 0; i + w.size <= bytes; i += w.size)
        std::memcpy(to + i, &w.value, w.size);
}

} // namespace

CUresult run_copy(const CopyWork &w, const Context &) {
    bool ok = true;
    size_t at = 0;
    ok = for_pieces(w.to, w.bytes,
                    [&](unsigned char *to, size_t bytes) {
                        size_t done = 0;
                        ok = for_pieces(w.from + at, bytes,
                                        [&](const unsigned char *from, size_t count) {
                                            std::memmove(to + done, from, count);
                                            done += count;
                                        }) &&
                             ok;
                        at += bytes;
                    }) &&
         ok;
    return ok ? CUDA_SUCCESS : lost_memory("a copy", w.to);
}

CUresult run_fill(const FillWork &w, const Context &) {
    for (size_t row = 0; row < w.height; ++row)
        if (!for_pieces(w.to + row * w.pitch, w.width * w.size,
                        [&](unsigned char *to, size_t bytes) { fill_elements(to, bytes, w); }))
            return lost_memory("a fill", w.to);
    return CUDA_SUCCESS;
}

} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

namespace {

uint64_t address(const void *pointer) {
    return reinterpret_cast<uint64_t>(pointer);
}

/// Of memory of two contexts: each has to reach its own.
Copy between(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
    return {to, from, bytes, &context_of(to_context), &context_of(from_context)};
}

} // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy_now(__func__, {to, from, bytes}, Direction::Any);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_in_stream(__func__, {to, from, bytes}, Direction::Any, stream);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    return copy_now(__func__, {to, address(from), bytes}, Direction::HostToDevice);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return copy_in_stream(__func__, {to, address(from), bytes}, Direction::HostToDevice, stream);
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    return copy_now(__func__, {address(to), from, bytes}, Direction::DeviceToHost);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_in_stream(__func__, {address(to), from, bytes}, Direction::DeviceToHost, stream);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy_now(__func__, {to, from, bytes}, Direction::DeviceToDevice);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_in_stream(__func__, {to, from, bytes}, Direction::DeviceToDevice, stream);
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                      size_t bytes) {
    return call(__func__, [&](Lock &lock) {
        const auto s = stream_of(nullptr);
        refuse_unsafe_call();
        copy(lock, between(to, to_context, from, from_context, bytes), Direction::DeviceToDevice, *s, false);
    });
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t bytes, CUstream stream) {
    return call(__func__, [&](Lock &lock) {
        copy(lock, between(to, to_context, from, from_context, bytes), Direction::DeviceToDevice,
             *stream_of(stream), true);
    });
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
    return fill(__func__, to, value, 1, count, nullptr, false);
}
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
    return fill(__func__, to, value, 2, count, nullptr, false);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
    return fill(__func__, to, value, 4, count, nullptr, false);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    return fill(__func__, to, value, 1, count, stream, true);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
    return fill(__func__, to, value, 2, count, stream, true);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    return fill(__func__, to, value, 4, count, stream, true);
}
