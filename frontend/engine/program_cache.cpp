#include "frontend/engine/program_cache.h"

#include <algorithm>

namespace lz::engine {

ProgramCache::Map::iterator ProgramCache::locate(std::span<const uint64_t> key, uint64_t hash,
                                                 uint32_t target) {
    auto [it, end] = entries_.equal_range(mixed(hash, target));
    for (; it != end; ++it)
        if (it->second.target == target && std::ranges::equal(it->second.key, key))
            return it;
    return entries_.end();
}

ExecutablePtr ProgramCache::find(std::span<const uint64_t> key, uint64_t hash, uint32_t target) {
    const std::lock_guard lock(mutex_);
    const auto it = locate(key, hash, target);
    if (it == entries_.end() || !it->second.executable)
        return nullptr;
    it->second.used = ++clock_;
    hits_.store(hits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return it->second.executable;
}

/// Down to three quarters of the limit, so that it does not run at every new program. What is forgotten is
/// destroyed by the caller, without the lock: that may wait for a device.
std::vector<ExecutablePtr> ProgramCache::forget_oldest() {
    std::vector<uint64_t> ages;
    for (const auto &[hash, entry] : entries_)
        ages.push_back(entry.used);
    const auto cut = ages.begin() + static_cast<ptrdiff_t>(ages.size() - limit_ / 4 * 3);
    std::ranges::nth_element(ages, cut);
    const uint64_t oldest_kept = *cut;
    std::vector<ExecutablePtr> forgotten;
    forgotten.reserve(entries_.size());
    std::erase_if(entries_, [&](auto &item) {
        const bool old = item.second.executable && item.second.used < oldest_kept;
        if (old)
            forgotten.push_back(std::move(item.second.executable));
        return old;
    });
    return forgotten;
}

void ProgramCache::clear() {
    std::vector<ExecutablePtr> forgotten; // destroyed without the lock
    const std::lock_guard lock(mutex_);
    forgotten.reserve(entries_.size());
    std::erase_if(entries_, [&](auto &item) {
        if (!item.second.executable)
            return false;
        forgotten.push_back(std::move(item.second.executable));
        return true;
    });
}

void ProgramCache::forget_hits() {
    const std::lock_guard lock(mutex_);
    hits_.store(0, std::memory_order_relaxed);
}

size_t ProgramCache::size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
}

} // namespace lz::engine
