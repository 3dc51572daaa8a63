#pragma once
/// Handles that the user gets: numbers that point nowhere and are never given out again.

#include "tests/support/cuda/driver/call.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

namespace lz::fake_cuda {

/// Counts handles of all kinds, so that one kind is never taken for another.
inline std::atomic<uint64_t> handle_count{0};

/// Live objects of a kind by handle. Under the driver's lock.
template <class H, class T>
class Handles {
public:
    explicit Handles(const char *kind) : kind_(kind) {}

    H add(std::shared_ptr<T> object) {
        const auto handle =
            (H)(uint64_t{0xcd} << 56 | ++handle_count << 4); // NOLINT: pointers and numbers alike
        live_.emplace(handle, std::move(object));
        return handle;
    }
    const std::shared_ptr<T> &get(H handle) const {
        const auto found = live_.find(handle);
        if (found == live_.end())
            refuse(CUDA_ERROR_INVALID_HANDLE, std::string("this is no live ") + kind_);
        return found->second;
    }
    bool has(H handle) const { return live_.contains(handle); }
    std::shared_ptr<T> remove(H handle) {
        std::shared_ptr<T> object = get(handle);
        live_.erase(handle);
        return object;
    }
    template <class F>
    void remove_if(F &&f) {
        std::erase_if(live_, [&](const auto &entry) { return f(*entry.second); });
    }
    template <class F>
    void each(F &&f) const {
        for (const auto &[handle, object] : live_)
            f(*object);
    }
    size_t size() const { return live_.size(); }

private:
    const char *kind_;
    std::unordered_map<H, std::shared_ptr<T>> live_;
};

} // namespace lz::fake_cuda
