#pragma once
/// Timestamps of streams that are threads.

#include "runtime/profiler/profiler.h"
#include "runtime/streams/queue.h"

#include <atomic>

namespace lz::runtime {

/// Of the profiler's clock, taken by a stream when it comes to it.
class RealTimestamp final : public Timestamp {
public:
    bool reached() const override { return time_.load(std::memory_order_acquire) != 0; }
    int64_t time() const override { return time_.load(std::memory_order_acquire); }
    void take() { time_.store(profile_clock(), std::memory_order_release); }

    static std::shared_ptr<Timestamp> on(StreamQueue &queue) {
        auto timestamp = std::make_shared<RealTimestamp>();
        queue.put([timestamp] { timestamp->take(); });
        return timestamp;
    }

private:
    std::atomic<int64_t> time_{0};
};

/// Of a virtual clock: known when it is issued, and reached when the stream (null: the host) has come to it.
class VirtualTimestamp final : public Timestamp {
public:
    VirtualTimestamp(std::shared_ptr<StreamQueue> queue, uint64_t tick, int64_t time)
        : queue_(std::move(queue)), tick_(tick), time_(time) {}
    bool reached() const override { return !queue_ || queue_->passed(tick_); }
    int64_t time() const override { return time_; }

private:
    const std::shared_ptr<StreamQueue> queue_;
    const uint64_t tick_;
    const int64_t time_;
};

} // namespace lz::runtime
