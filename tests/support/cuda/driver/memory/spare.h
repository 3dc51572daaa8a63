#pragma once
/// Memory of the host that was released: it has its pages, which take longer to get than to fill again.

#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

namespace lz::fake_cuda {

/// By size; `T` owns the memory. Any thread.
template <class T>
class Spare {
public:
    void put(size_t bytes, T memory) noexcept {
        const std::lock_guard lock(mutex_);
        if (held_ + bytes > kMost)
            return;
        try {
            all_.emplace(bytes, std::move(memory));
            held_ += bytes;
        } catch (const std::bad_alloc &) { // it is released
        }
    }
    std::optional<T> take(size_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto found = all_.find(bytes);
        if (found == all_.end())
            return std::nullopt;
        std::optional<T> memory(std::move(found->second));
        all_.erase(found);
        held_ -= bytes;
        return memory;
    }

private:
    static constexpr size_t kMost = size_t{128} << 20;
    std::mutex mutex_;
    std::multimap<size_t, T> all_;
    size_t held_ = 0;
};

} // namespace lz::fake_cuda
