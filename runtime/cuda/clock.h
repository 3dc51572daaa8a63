#pragma once
/// When work on a GPU ran, by the profiler's clock.

#include "runtime/cuda/device.h"

#include <cstdint>
#include <mutex>

namespace lz::runtime::cuda {

/// The driver tells milliseconds between two events in an f32, so the event that times are told from is not
/// long ago: it is made anew as time goes by.
class EventClock {
public:
    explicit EventClock(const CudaDevice &device) : device_(device) {}
    ~EventClock();
    EventClock(const EventClock &) = delete;
    EventClock &operator=(const EventClock &) = delete;
    /// Before the first event whose time is asked for is recorded; any number of times.
    void begin();
    /// Nanoseconds, of an event of the device that has come.
    int64_t time_of(CUevent event);

private:
    CUevent make_base() const;

    const CudaDevice &device_;
    CUstream stream_ = nullptr;
    std::mutex mutex_;
    CUevent base_ = nullptr; ///< null: not begun
    int64_t base_time_ = 0;
};

} // namespace lz::runtime::cuda
