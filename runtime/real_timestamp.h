#pragma once
/// A Timestamp of the profiler's clock, taken by a stream when it comes to it.

#include "runtime/profiler.h"
#include "runtime/stream_queue.h"

#include <atomic>

namespace lz::runtime {

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

} // namespace lz::runtime
