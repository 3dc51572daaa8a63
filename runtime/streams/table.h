#pragma once
/// The streams of one device by number (ir/stream.h), each made when it is first used.

#include "runtime/streams/queue.h"

#include <array>
#include <atomic>
#include <bitset>
#include <memory>
#include <mutex>

namespace lz::runtime {

class StreamTable {
public:
    StreamTable(std::shared_ptr<StreamGroup> group, StreamQueue::Options options)
        : group_(std::move(group)), options_(options) {}

    /// Throws Failure(Device) for a number that no stream has.
    StreamQueue &at(StreamId stream) {
        const auto index = static_cast<size_t>(stream);
        if (index < queues_.size())
            if (StreamQueue *queue = queues_[index].load(std::memory_order_acquire)) [[likely]]
                return *queue;
        return make(stream);
    }

    /// A stream of the user's with the lowest number that is free. Throws Failure(Device) when there is none.
    StreamId create(int priority);
    /// Its number is free again. Who gets it next waits for what is still on it.
    void destroy(StreamId stream) noexcept;
    /// Everything that was put on any stream has been done.
    void drain();
    /// Calls f(queue) for each stream that was ever used.
    template <class F>
    void for_each(F f) {
        for (auto &slot : queues_)
            if (StreamQueue *queue = slot.load(std::memory_order_acquire))
                f(*queue);
    }

    StreamGroup &group() { return *group_; }

private:
    StreamQueue &make(StreamId stream);

    const std::shared_ptr<StreamGroup> group_;
    const StreamQueue::Options options_;
    std::mutex mutex_;
    std::array<std::shared_ptr<StreamQueue>, ir::kMaxStreams> owners_;
    std::array<std::atomic<StreamQueue *>, ir::kMaxStreams> queues_{};
    std::bitset<ir::kMaxStreams> taken_; ///< of the user's
};

} // namespace lz::runtime
