#include "runtime/cuda/backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lz::runtime::cuda {

namespace {

CUdeviceptr address(const void *memory) {
    return reinterpret_cast<CUdeviceptr>(memory);
}

} // namespace

Staging &CudaBackend::staging(StreamId stream) {
    std::unique_ptr<Staging> &found = stagings_[static_cast<size_t>(stream)];
    if (!found)
        found = std::make_unique<Staging>(device_);
    return *found;
}

/// The context is current.
bool CudaBackend::is_pageable(const void *memory) const {
    CUmemorytype type{};
    const CUresult result =
        device_.driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(memory));
    if (result == CUDA_ERROR_INVALID_VALUE) // no address that the driver knows
        return true;
    device_.check(result, "asking what memory is");
    return false;
}

void CudaBackend::copy(void *to, const void *from, size_t bytes, StreamId stream, OnDone done) {
    CudaStream &on = at(stream);
    const Entered entered(device_, "a copy");
    timed(on, std::move(done), [&] {
        if (bytes == 0)
            return;
        if (is_pageable(from))
            stage_in(static_cast<std::byte *>(to), static_cast<const std::byte *>(from), bytes, on);
        else if (is_pageable(to))
            stage_out(static_cast<std::byte *>(to), static_cast<const std::byte *>(from), bytes, on);
        else
            put_copy(to, from, bytes, on);
    });
}

void CudaBackend::put_copy(void *to, const void *from, size_t bytes, CudaStream &stream) {
    stream.put("a copy", [&](CUstream handle) {
        return device_.driver().cuMemcpyAsync(address(to), address(from), bytes, handle);
    });
}

void CudaBackend::stage_in(std::byte *to, const std::byte *from, size_t bytes, CudaStream &stream) {
    CudaStream::Beside beside(stream);
    Staging &staged = staging(stream.number());
    beside.wait(stream.record()); // `from` may be written by what the stream waits for
    while (bytes > 0) {
        const size_t p = std::exchange(staged.next, 1 - staged.next),
                     count = std::min(bytes, Staging::kPieceBytes);
        std::byte *const piece = staged.pieces[p];
        beside.wait(staged.read[p]);
        const uint64_t filled = beside.run([=] { std::memcpy(piece, from, count); });
        beside.stream_waits(filled);
        put_copy(to, piece, count, stream);
        staged.read[p] = stream.record();
        to += count;
        from += count;
        bytes -= count;
    }
}

void CudaBackend::stage_out(std::byte *to, const std::byte *from, size_t bytes, CudaStream &stream) {
    CudaStream::Beside beside(stream);
    Staging &staged = staging(stream.number());
    uint64_t last = 0;
    while (bytes > 0) {
        const size_t p = std::exchange(staged.next, 1 - staged.next),
                     count = std::min(bytes, Staging::kPieceBytes);
        std::byte *const piece = staged.pieces[p];
        if (staged.emptied[p])
            beside.stream_waits(staged.emptied[p]);
        put_copy(piece, from, count, stream);
        beside.wait(stream.record());
        last = staged.emptied[p] = beside.run([=] { std::memcpy(to, piece, count); });
        to += count;
        from += count;
        bytes -= count;
    }
    beside.stream_waits(last);
}

} // namespace lz::runtime::cuda
