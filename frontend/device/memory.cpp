#include "lazuli/device/memory.h"

#include "frontend/engine/memory.h"
#include "frontend/record/record.h"
#include "frontend/record/sync/sync.h"

namespace lz {
namespace {

/// Dead pending operations of this thread still hold their inputs until someone looks.
engine::MemoryTotals use(const Device &device, Location loc) {
    detail::pending_count();
    return engine::memory_totals(detail::to_ir(device, loc));
}

} // namespace

int64_t memory_allocated(Device device, Location loc) {
    return use(device, loc).allocated;
}
int64_t max_memory_allocated(Device device, Location loc) {
    return use(device, loc).max_allocated;
}
int64_t memory_reserved(Device device, Location loc) {
    return use(device, loc).reserved;
}
int64_t max_memory_reserved(Device device, Location loc) {
    return use(device, loc).max_reserved;
}
int64_t memory_cached(Device device, Location loc) {
    return use(device, loc).reserved;
}
int64_t max_memory_cached(Device device, Location loc) {
    return use(device, loc).max_reserved;
}

std::pair<int64_t, int64_t> mem_get_info(Device device, Location loc) {
    return engine::memory_info(detail::to_ir(device, loc));
}

void reset_peak_memory_stats(Device device, Location loc) {
    engine::reset_peak_memory(detail::to_ir(device, loc));
}

std::map<std::string, int64_t> memory_stats(Device device, Location loc) {
    return engine::memory_stats(detail::to_ir(device, loc));
}
std::map<std::string, int64_t> host_memory_stats() {
    return engine::host_memory_stats();
}
void empty_host_cache() {
    engine::empty_host_cache();
}
std::string memory_summary(Device device, Location loc) {
    return engine::memory_summary(detail::to_ir(device, loc));
}
std::string memory_snapshot(Device device, Location loc) {
    return engine::memory_snapshot(detail::to_ir(device, loc));
}
void empty_cache(Device device, Location loc) {
    engine::empty_cache(detail::to_ir(device, loc));
}

void set_per_process_memory_fraction(double fraction, Device device, Location loc) {
    detail::translated(loc, [&] { engine::set_memory_fraction(fraction, detail::to_ir(device, loc)); });
}

} // namespace lz
