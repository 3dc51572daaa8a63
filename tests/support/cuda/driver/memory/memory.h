#pragma once
/// Device and page-locked memory.

#include "tests/support/cuda/driver/context.h"
#include "tests/support/cuda/driver/memory/address_space.h"

#include <algorithm>

namespace lz::fake_cuda {

/// A block of device memory; refuses when there is none left.
uint64_t allocate_device_block(Context &context, size_t bytes, BlockKind kind);
void free_device_block(uint64_t address);
void drop_memory_of(Context &context);
/// Bytes of a device that cuMemCreate made and that are alive.
size_t physical_bytes_of(int device);
size_t live_physical_handles();
/// All live handles but contexts (lazuli_fake_cuda_live).
uint64_t live_handles();
/// Counts bytes against the device's memory; refuses what is too much.
void take_memory(Context &context, size_t bytes);

/// Checks that all of a range lies in blocks that a context's device may touch. Refuses with
/// CUDA_ERROR_INVALID_VALUE.
void check_range(uint64_t address, size_t bytes, const Context &context, const char *name);

/// Calls f(host pointer, bytes) for each piece of a range, in order; a range outside of all blocks is the
/// host's own, one piece. False: part of it is no memory.
template <class F>
bool for_pieces(uint64_t address, size_t bytes, F &&f) {
    if (bytes != 0 && !address_space().find(address) && !address_space().holds(address)) {
        f(reinterpret_cast<unsigned char *>(address), bytes);
        return true;
    }
    while (bytes != 0) {
        const auto block = address_space().find(address);
        if (!block)
            return false;
        const size_t count = std::min<uint64_t>(bytes, block->end - address);
        f(block->host + (address - block->begin), count);
        address += count;
        bytes -= count;
    }
    return true;
}

} // namespace lz::fake_cuda
