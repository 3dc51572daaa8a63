#include "tests/support/cuda/driver/memory/memory.h"

#include "tests/support/cuda/driver/fake_cuda.h"
#include "tests/support/cuda/driver/graphs/capture.h"
#include "tests/support/cuda/driver/memory/spare.h"
#include "tests/support/cuda/driver/settings.h"
#include "tests/support/cuda/driver/streams/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace lz::fake_cuda {
namespace {

constexpr size_t kAlign = 512, kFilled = size_t{64} << 20;

size_t round_up(size_t bytes) {
    return (bytes + kAlign - 1) / kAlign * kAlign;
}

/// No address of the host is given away, so that nobody reads it when it is another's.
std::shared_ptr<unsigned char> device_pages(size_t bytes) {
    using Pages = std::shared_ptr<unsigned char>;
    if (bytes < size_t{1} << 20)
        return host_pages(bytes);
    static auto *const spare = new Spare<Pages>;
    std::optional<Pages> found = spare->take(bytes);
    Pages pages = found ? std::move(*found) : host_pages(bytes);
    unsigned char *const begin = pages.get();
    if (!begin)
        return nullptr;
    return {begin, [bytes, pages = std::move(pages)](unsigned char *) mutable {
                spare->put(bytes, std::move(pages));
            }};
}

void allocate(CUdeviceptr *address, size_t bytes, Context &context, BlockKind kind) {
    need(address, "dptr");
    if (bytes == 0)
        refuse(CUDA_ERROR_INVALID_VALUE, "0 bytes are asked for");
    *address = allocate_device_block(context, bytes, kind);
}

Block device_block(uint64_t address) {
    const auto block = address_space().find(address);
    if (!block || block->begin != address ||
        (block->kind != BlockKind::Device && block->kind != BlockKind::Async))
        refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("0x{:x} is not where an allocation begins", address));
    return *block;
}

void allocate_host(void **pointer, size_t bytes, unsigned flags) {
    Context &context = current_context();
    need(pointer, "pp");
    refuse_unsafe_call();
    if (bytes == 0 || flags & ~unsigned{CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                                        CU_MEMHOSTALLOC_WRITECOMBINED})
        refuse(CUDA_ERROR_INVALID_VALUE, "0 bytes, or flags that are not known");
    Block block;
    block.keep = host_pages(std::max<size_t>(round_up(bytes), 64 << 10));
    if (!block.keep)
        refuse(CUDA_ERROR_OUT_OF_MEMORY, "the host has no such memory");
    block.host = block.keep.get();
    block.begin = reinterpret_cast<uint64_t>(block.host);
    block.end = block.begin + bytes;
    block.kind = BlockKind::Pinned;
    block.device = context.device;
    block.flags = flags;
    *pointer = block.host;
    address_space().add(std::move(block));
}

} // namespace

void take_memory(Context &c, size_t bytes) {
    if (bytes > settings().memory || c.used + bytes > settings().memory)
        refuse(CUDA_ERROR_OUT_OF_MEMORY, fmt::format("{} bytes are asked for, {} of {} are used", bytes,
                                                     c.used.load(), settings().memory));
    c.used += bytes;
}

uint64_t allocate_device_block(Context &context, size_t bytes, BlockKind kind) {
    if (bytes > settings().memory) // round_up could begin again at 0
        refuse(CUDA_ERROR_OUT_OF_MEMORY, "more than the device has");
    take_memory(context, round_up(bytes));
    Block block;
    block.keep = device_pages(round_up(bytes));
    block.begin = block.keep ? address_space().reserve(bytes, kAlign) : 0;
    if (block.begin == 0) {
        context.used -= round_up(bytes);
        refuse(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory or no addresses left for it");
    }
    block.host = block.keep.get();
    block.end = block.begin + bytes;
    block.kind = kind;
    block.device = context.device;
    std::memset(block.host, 0xff, std::min(bytes, kFilled)); // NaN, and no number that a test expects
    const uint64_t begin = block.begin;
    address_space().add(std::move(block));
    return begin;
}

void free_device_block(uint64_t address) {
    const auto block = address_space().remove(address);
    if (!block)
        return;
    address_space().release(address, block->end - block->begin);
    context_of_device(block->device).used -= round_up(block->end - block->begin);
}

void drop_memory_of(Context &context) {
    address_space().remove_of(context.device, {BlockKind::Device, BlockKind::Async, BlockKind::Variable,
                                               BlockKind::Pinned, BlockKind::Registered});
    context.used = physical_bytes_of(context.device); // that of cuMemCreate belongs to no context
}

void check_range(uint64_t address, size_t bytes, const Context &context, const char *name) {
    for (uint64_t at = address, end = address + bytes; at < end;) {
        const auto block = address_space().find(at);
        if (!block)
            refuse(
                CUDA_ERROR_INVALID_VALUE,
                fmt::format("{}: {} bytes at 0x{:x} are not all in live allocations", name, bytes, address));
        if (block->kind == BlockKind::Mapped && !(block->readers >> context.device & 1))
            refuse(CUDA_ERROR_INVALID_VALUE,
                   fmt::format("{}: cuMemSetAccess gave device {} no access to 0x{:x}", name, context.device,
                               at));
        at = block->end;
    }
}

} // namespace lz::fake_cuda

using namespace lz;            // NOLINT
using namespace lz::fake_cuda; // NOLINT

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    return call(__func__, [&](Lock &) {
        const Context &c = current_context();
        if (free)
            *free = settings().memory - c.used;
        if (total)
            *total = settings().memory;
    });
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    return call(__func__, [&](Lock &) {
        Context &context = current_context();
        refuse_unsafe_call();
        allocate(address, bytes, context, BlockKind::Device);
    });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    return call(__func__, [&](Lock &lock) -> CUresult {
        current_context();
        refuse_unsafe_call();
        if (address == 0)
            return CUDA_SUCCESS;
        Context &owner = context_of_device(device_block(address).device);
        if (const CUresult error = wait_for_context(lock, owner)) // as the real one does
            return error;
        device_block(address); // unless someone else freed it meanwhile
        free_device_block(address);
        return CUDA_SUCCESS;
    });
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    return call(__func__, [&](Lock &) {
        const auto s = stream_of(stream);
        refuse_capturing(*s, "memory is allocated in a stream");
        allocate(address, bytes, *s->context, BlockKind::Async);
    });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    return call(__func__, [&](Lock &) {
        const auto s = stream_of(stream);
        refuse_capturing(*s, "memory is freed in a stream");
        device_block(address);
        put(*s, FreeWork{address});
    });
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    return call(__func__, [&](Lock &) { allocate_host(pointer, bytes, flags); });
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) {
    return call(__func__, [&](Lock &) { allocate_host(pointer, bytes, 0); });
}

CUresult cuMemFreeHost(void *pointer) {
    return call(__func__, [&](Lock &lock) -> CUresult {
        Context &context = current_context();
        refuse_unsafe_call();
        const auto address = reinterpret_cast<uint64_t>(pointer);
        const auto block = address_space().find(address);
        if (!block || block->begin != address || block->kind != BlockKind::Pinned)
            refuse(CUDA_ERROR_INVALID_VALUE, "this is no page-locked memory of the driver's");
        if (const CUresult error = wait_for_context(lock, context))
            return error;
        address_space().remove(address);
        return CUDA_SUCCESS;
    });
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
    return call(__func__, [&](Lock &) {
        const Context &context = current_context();
        need(pointer, "p");
        constexpr unsigned kKnown =
            CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
        const auto address = reinterpret_cast<uint64_t>(pointer);
        if (bytes == 0 || flags & ~kKnown || address_space().holds(address))
            refuse(CUDA_ERROR_INVALID_VALUE, "0 bytes, flags that are not known, or no memory of the host");
        if (address_space().overlaps(address, address + bytes))
            refuse(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part of it is page-locked already");
        Block block;
        block.begin = address;
        block.end = address + bytes;
        block.host = static_cast<unsigned char *>(pointer);
        block.kind = BlockKind::Registered;
        block.device = context.device;
        block.flags = flags;
        address_space().add(std::move(block));
    });
}

CUresult cuMemHostUnregister(void *pointer) {
    return call(__func__, [&](Lock &lock) -> CUresult {
        Context &context = current_context();
        const auto address = reinterpret_cast<uint64_t>(pointer);
        const auto block = address_space().find(address);
        if (!block || block->begin != address || block->kind != BlockKind::Registered)
            refuse(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "no registration begins there");
        if (const CUresult error = wait_for_context(lock, context))
            return error;
        address_space().remove(address);
        return CUDA_SUCCESS;
    });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned flags) {
    return call(__func__, [&](Lock &) {
        current_context();
        need(address, "pdptr");
        const auto block = address_space().find(reinterpret_cast<uint64_t>(pointer));
        if (flags != 0 || !block || !block->on_host())
            refuse(CUDA_ERROR_INVALID_VALUE, "flags that are not 0, or no page-locked memory");
        *address = reinterpret_cast<uint64_t>(pointer);
    });
}

CUresult cuMemHostGetFlags(unsigned *flags, void *pointer) {
    return call(__func__, [&](Lock &) {
        current_context();
        need(flags, "pFlags");
        const auto block = address_space().find(reinterpret_cast<uint64_t>(pointer));
        if (!block || block->kind != BlockKind::Pinned)
            refuse(CUDA_ERROR_INVALID_VALUE, "this is no memory of cuMemHostAlloc");
        *flags = block->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    return call(__func__, [&](Lock &) {
        current_context();
        const auto block = address_space().find(address);
        if (!block || block->kind == BlockKind::Registered)
            refuse(CUDA_ERROR_NOT_FOUND, fmt::format("0x{:x} is in no live allocation", address));
        if (base)
            *base = block->begin;
        if (bytes)
            *bytes = block->end - block->begin;
    });
}

extern "C" __attribute__((visibility("default"))) void lazuli_fake_cuda_live(uint64_t *handles,
                                                                             uint64_t *bytes) {
    const Lock lock(driver_mutex());
    *handles = live_handles();
    *bytes = address_space().bytes_alive();
}

extern "C" __attribute__((visibility("default"))) void *lazuli_fake_cuda_bytes(uint64_t address,
                                                                               size_t bytes) {
    unsigned char *first = nullptr;
    try {
        const Context &c = current_context_even_failed();
        for (uint64_t at = address;
             !first || at < address + bytes;) { // mappings of one range lie side by side
            ptx::Range range;
            if (!address_space().find_for_kernel(at, c.device, c.reach, range))
                return nullptr;
            unsigned char *const host = range.host + (at - range.begin);
            if (first && host != first + (at - address))
                return nullptr;
            if (!first)
                first = host;
            at = range.end;
        }
    } catch (const Refused &) {
        return nullptr;
    }
    return first;
}
