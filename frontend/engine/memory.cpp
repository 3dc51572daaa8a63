#include "frontend/engine/memory.h"

#include "frontend/engine/devices.h"
#include "frontend/engine/engine.h"
#include "runtime/allocator/caching_allocator.h"

namespace lz::engine {
namespace {

runtime::CachingAllocator &allocator(ir::Device device) {
    return Engine::get().allocator(device);
}

} // namespace

MemoryTotals memory_totals(ir::Device device) {
    const runtime::AllocatorStats stats = allocator(device).stats();
    const runtime::Stat &allocated = stats.allocated_bytes[runtime::StatPool::All];
    const runtime::Stat &reserved = stats.reserved_bytes[runtime::StatPool::All];
    return {allocated.current, allocated.peak, reserved.current, reserved.peak};
}

std::pair<int64_t, int64_t> memory_info(ir::Device device) {
    const runtime::Backend &backend = Engine::get().devices().backend(device);
    return {static_cast<int64_t>(backend.free_memory()), static_cast<int64_t>(backend.total_memory())};
}

void reset_peak_memory(ir::Device device) {
    allocator(device).reset_peak_stats();
}

std::map<std::string, int64_t> memory_stats(ir::Device device) {
    const auto named = allocator(device).stats().named();
    return {named.begin(), named.end()};
}

std::string memory_summary(ir::Device device) {
    return allocator(device).memory_summary();
}
std::string memory_snapshot(ir::Device device) {
    return allocator(device).memory_snapshot();
}
void empty_cache(ir::Device device) {
    allocator(device).empty_cache();
}

std::map<std::string, int64_t> host_memory_stats() {
    const runtime::CachingAllocator *const pinned = Engine::get().pinned_allocator();
    if (!pinned)
        return {};
    const auto named = pinned->stats().named();
    return {named.begin(), named.end()};
}
void empty_host_cache() {
    if (runtime::CachingAllocator *const pinned = Engine::get().pinned_allocator())
        pinned->empty_cache();
}

void set_memory_fraction(double fraction, ir::Device device) {
    allocator(device).set_memory_fraction(fraction);
}

} // namespace lz::engine
