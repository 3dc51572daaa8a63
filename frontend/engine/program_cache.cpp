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

/// Down to three quarters of the limits, so that it does not run at every new program; the newest stays. What
/// is forgotten is destroyed by the caller, without the lock: that may wait for a device.
std::vector<ExecutablePtr> ProgramCache::forget_oldest() {
    std::vector<Map::iterator> oldest_first;
    for (auto it = entries_.begin(); it != entries_.end(); ++it)
        if (it->second.executable && it->second.used != clock_)
            oldest_first.push_back(it);
    std::ranges::sort(oldest_first, {}, [](const Map::iterator &it) { return it->second.used; });
    std::vector<ExecutablePtr> forgotten;
    forgotten.reserve(oldest_first.size());
    for (const Map::iterator it : oldest_first) {
        if (entries_.size() <= limit_ / 4 * 3 && words_ <= words_limit_ / 4 * 3)
            break;
        words_ -= it->second.key.size();
        forgotten.push_back(std::move(it->second.executable));
        entries_.erase(it);
    }
    return forgotten;
}

void ProgramCache::clear() {
    std::vector<ExecutablePtr> forgotten; // destroyed without the lock
    const std::lock_guard lock(mutex_);
    forgotten.reserve(entries_.size());
    std::erase_if(entries_, [&](auto &item) {
        if (!item.second.executable)
            return false;
        words_ -= item.second.key.size();
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
