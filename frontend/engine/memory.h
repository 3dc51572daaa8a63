#pragma once
/// The numbers and controls of a device's allocator, for the public API (which may not see the runtime).

#include "ir/types/type.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace lz::engine {

struct MemoryTotals {
    int64_t allocated = 0, max_allocated = 0, reserved = 0, max_reserved = 0; ///< bytes
};

MemoryTotals memory_totals(ir::Device device);
void reset_peak_memory(ir::Device device);
/// Bytes that the system could still give, and all that the device has.
std::pair<int64_t, int64_t> memory_info(ir::Device device);
std::map<std::string, int64_t> memory_stats(ir::Device device);
std::string memory_summary(ir::Device device);
std::string memory_snapshot(ir::Device device);
void empty_cache(ir::Device device);
/// Throws Failure(State) unless 0 < fraction <= 1.
void set_memory_fraction(double fraction, ir::Device device);

/// Of pinned memory of the host; empty where there is no GPU.
std::map<std::string, int64_t> host_memory_stats();
void empty_host_cache();

} // namespace lz::engine
