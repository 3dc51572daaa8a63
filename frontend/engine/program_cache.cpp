#include "engine/program_cache.h"

#include <algorithm>

namespace lz::engine {

ProgramCache::Map::iterator ProgramCache::locate(std::span<const uint64_t> key, uint64_t hash) {
    auto [it, end] = entries_.equal_range(hash);
    for (; it != end; ++it)
        if (std::ranges::equal(it->second.key, key))
            return it;
    return entries_.end();
}

ExecutablePtr ProgramCache::find(std::span<const uint64_t> key, uint64_t hash) {
    const std::lock_guard lock(mutex_);
    const auto it = locate(key, hash);
    if (it == entries_.end() || !it->second.executable)
        return nullptr;
    it->second.used = ++clock_;
    hits_.store(hits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return it->second.executable;
}

/// Down to three quarters of the limit, so that it does not run at every new program.
void ProgramCache::forget_oldest() {
    std::vector<uint64_t> ages;
    for (const auto &[hash, entry] : entries_)
        ages.push_back(entry.used);
    const auto cut = ages.begin() + static_cast<ptrdiff_t>(ages.size() - limit_ / 4 * 3);
    std::ranges::nth_element(ages, cut);
    const uint64_t oldest_kept = *cut;
    std::erase_if(entries_,
                  [&](const auto &item) { return item.second.executable && item.second.used < oldest_kept; });
}

void ProgramCache::clear() {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const auto &item) { return item.second.executable != nullptr; });
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
