#pragma once
/// Statistics and control of the caching allocators, one a device (S50 to S53). Memory queries launch
/// nothing.

#include "lazuli/core/export.h"
#include "lazuli/device/device.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace lz {

/// Bytes in live blocks: tensors that are ready, and the arenas of running programs.
LZ_API int64_t memory_allocated(Device device = Device::cpu(), Location loc = Location::current());
/// The most since the start, or since reset_peak_memory_stats.
LZ_API int64_t max_memory_allocated(Device device = Device::cpu(), Location loc = Location::current());
/// Bytes that the allocator holds from the system, in use or cached.
LZ_API int64_t memory_reserved(Device device = Device::cpu(), Location loc = Location::current());
/// The most since the start, or since reset_peak_memory_stats.
LZ_API int64_t max_memory_reserved(Device device = Device::cpu(), Location loc = Location::current());
/// The old name of memory_reserved.
LZ_API int64_t memory_cached(Device device = Device::cpu(), Location loc = Location::current());
/// The old name of max_memory_reserved.
LZ_API int64_t max_memory_cached(Device device = Device::cpu(), Location loc = Location::current());
/// Bytes that the device's system could still give, to this allocator and to others, and all that it has.
LZ_API std::pair<int64_t, int64_t> mem_get_info(Device device = Device::cpu(),
                                                Location loc = Location::current());
/// Makes the peaks what is in use now.
LZ_API void reset_peak_memory_stats(Device device = Device::cpu(), Location loc = Location::current());
/// All counters under PyTorch's names, e.g. `allocated_bytes.all.peak`.
LZ_API std::map<std::string, int64_t> memory_stats(Device device = Device::cpu(),
                                                   Location loc = Location::current());
/// The same as a table for people.
LZ_API std::string memory_summary(Device device = Device::cpu(), Location loc = Location::current());
/// Segments and blocks as JSON.
LZ_API std::string memory_snapshot(Device device = Device::cpu(), Location loc = Location::current());
/// The counters of page-locked memory (S31), under the same names; empty where there is no GPU.
LZ_API std::map<std::string, int64_t> host_memory_stats();
/// Gives page-locked memory that nothing uses back to the system.
LZ_API void empty_host_cache();
/// Gives every unused segment back to the system; live tensors stay where they are.
LZ_API void empty_cache(Device device = Device::cpu(), Location loc = Location::current());
/// At most this share (0 to 1] of the device's memory may be reserved; more is OutOfMemoryError.
LZ_API void set_per_process_memory_fraction(double fraction, Device device = Device::cpu(),
                                            Location loc = Location::current());

/// The same of a GPU, by PyTorch's names: of the current one unless told.
namespace cuda {
/// lz::memory_allocated of a GPU.
inline int64_t memory_allocated(Device device = Device::cuda(), Location loc = Location::current()) {
    return lz::memory_allocated(device, loc);
}
/// lz::max_memory_allocated of a GPU.
inline int64_t max_memory_allocated(Device device = Device::cuda(), Location loc = Location::current()) {
    return lz::max_memory_allocated(device, loc);
}
/// lz::memory_reserved of a GPU.
inline int64_t memory_reserved(Device device = Device::cuda(), Location loc = Location::current()) {
    return lz::memory_reserved(device, loc);
}
/// lz::max_memory_reserved of a GPU.
inline int64_t max_memory_reserved(Device device = Device::cuda(), Location loc = Location::current()) {
    return lz::max_memory_reserved(device, loc);
}
/// lz::memory_cached of a GPU.
inline int64_t memory_cached(Device device = Device::cuda(), Location loc = Location::current()) {
    return lz::memory_cached(device, loc);
}
/// lz::max_memory_cached of a GPU.
inline int64_t max_memory_cached(Device device = Device::cuda(), Location loc = Location::current()) {
    return lz::max_memory_cached(device, loc);
}
/// lz::mem_get_info of a GPU.
inline std::pair<int64_t, int64_t> mem_get_info(Device device = Device::cuda(),
                                                Location loc = Location::current()) {
    return lz::mem_get_info(device, loc);
}
/// lz::reset_peak_memory_stats of a GPU.
inline void reset_peak_memory_stats(Device device = Device::cuda(), Location loc = Location::current()) {
    lz::reset_peak_memory_stats(device, loc);
}
/// lz::memory_stats of a GPU.
inline std::map<std::string, int64_t> memory_stats(Device device = Device::cuda(),
                                                   Location loc = Location::current()) {
    return lz::memory_stats(device, loc);
}
/// lz::memory_summary of a GPU.
inline std::string memory_summary(Device device = Device::cuda(), Location loc = Location::current()) {
    return lz::memory_summary(device, loc);
}
/// lz::memory_snapshot of a GPU.
inline std::string memory_snapshot(Device device = Device::cuda(), Location loc = Location::current()) {
    return lz::memory_snapshot(device, loc);
}
/// lz::empty_cache of a GPU.
inline void empty_cache(Device device = Device::cuda(), Location loc = Location::current()) {
    lz::empty_cache(device, loc);
}
/// lz::set_per_process_memory_fraction of a GPU.
inline void set_per_process_memory_fraction(double fraction, Device device = Device::cuda(),
                                            Location loc = Location::current()) {
    lz::set_per_process_memory_fraction(fraction, device, loc);
}
} // namespace cuda

} // namespace lz
