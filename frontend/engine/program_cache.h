#pragma once
/// Compiled Programs by the structure of the recording.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace lz::engine {

class Executable;
using ExecutablePtr = std::shared_ptr<const Executable>;

/// Keys are words; equal words are the same program for the same `target` (a number of the caller's).
/// Bounded: of more than `limit` Programs, or of more than `words` words of their keys, those not used for
/// longest are forgotten. A Program takes some 20 KiB and 0.14 for each word (training steps of 5 to 80
/// layers, by resident memory), so that these are some 700 MB at most. Any thread.
class ProgramCache {
public:
    explicit ProgramCache(size_t limit = 4096, size_t words = size_t{4} << 20)
        : limit_(limit), words_limit_(words) {}

    ExecutablePtr find(std::span<const uint64_t> key, uint64_t hash, uint32_t target = 0);
    /// Calls make() and stores what it gives, unless another thread is at it: then waits for that one. A
    /// failure of make() is thrown here and not kept.
    template <class F>
    ExecutablePtr find_or_make(std::span<const uint64_t> key, uint64_t hash, uint32_t target, F &&make);
    void clear();
    size_t size() const;
    /// How often `find` found one.
    int64_t hits() const { return hits_.load(std::memory_order_relaxed); }
    void forget_hits();

private:
    struct Entry {
        std::vector<uint64_t> key;
        uint32_t target = 0;
        ExecutablePtr executable; ///< null while it is being made
        uint64_t used = 0;
    };
    using Map = std::unordered_multimap<uint64_t, Entry>;

    Map::iterator locate(std::span<const uint64_t> key, uint64_t hash, uint32_t target);
    static uint64_t mixed(uint64_t hash, uint32_t target) { return hash ^ target * 0x9e3779b97f4a7c15u; }
    std::vector<ExecutablePtr> forget_oldest();

    mutable std::mutex mutex_;
    std::condition_variable made_;
    Map entries_;
    uint64_t clock_ = 0;
    std::atomic<int64_t> hits_{0}; ///< written under the mutex
    size_t words_ = 0;             ///< of all keys
    const size_t limit_, words_limit_;
};

template <class F>
ExecutablePtr ProgramCache::find_or_make(std::span<const uint64_t> key, uint64_t hash, uint32_t target,
                                         F &&make) {
    std::unique_lock lock(mutex_);
    for (auto it = locate(key, hash, target); it != entries_.end(); it = locate(key, hash, target)) {
        if (it->second.executable) {
            it->second.used = ++clock_;
            return it->second.executable;
        }
        made_.wait(lock);
    }
    entries_.emplace(mixed(hash, target), Entry{{key.begin(), key.end()}, target, nullptr, ++clock_});
    words_ += key.size();
    lock.unlock();
    ExecutablePtr executable;
    try {
        executable = make();
    } catch (...) {
        lock.lock();
        entries_.erase(locate(key, hash, target));
        words_ -= key.size();
        made_.notify_all();
        throw;
    }
    lock.lock();
    locate(key, hash, target)->second.executable = executable;
    made_.notify_all();
    std::vector<ExecutablePtr> forgotten;
    if (entries_.size() > limit_ || words_ > words_limit_)
        forgotten = forget_oldest();
    lock.unlock();
    return executable;
}

} // namespace lz::engine
