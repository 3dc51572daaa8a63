#include "runtime/cuda/clock.h"

#include "runtime/profiler/profiler.h"
#include "runtime/streams/threads.h"

#include <cmath>
#include <utility>

namespace lz::runtime::cuda {

namespace {
/// Up to here an f32 of milliseconds tells tenths of a microsecond.
constexpr float kLongAgo = 1000;
} // namespace

void EventClock::begin() {
    const std::lock_guard lock(mutex_);
    if (base_)
        return;
    const Entered entered(device_, "entering its context");
    device_.check(device_.driver().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
                  "making a stream");
    try {
        base_ = make_base();
    } catch (...) {
        device_.driver().cuStreamDestroy(stream_);
        throw;
    }
    base_time_ = profile_clock();
}

EventClock::~EventClock() {
    if (!base_ || in_forked_child())
        return;
    const Current current(device_.driver(), device_.context());
    device_.driver().cuEventDestroy(base_);
    device_.driver().cuStreamDestroy(stream_);
}

/// The context is current.
CUevent EventClock::make_base() const {
    const Driver &driver = device_.driver();
    CUevent event = nullptr;
    device_.check(driver.cuEventCreate(&event, CU_EVENT_DEFAULT), "making an event");
    try {
        device_.check(driver.cuEventRecord(event, stream_), "recording an event");
        device_.check(driver.cuEventSynchronize(event), "waiting for an event");
    } catch (...) {
        driver.cuEventDestroy(event);
        throw;
    }
    return event;
}

int64_t EventClock::time_of(CUevent event) {
    const Entered entered(device_, "entering its context");
    const std::lock_guard lock(mutex_);
    const auto since_base = [&](CUevent later) {
        float milliseconds = 0;
        device_.check(device_.driver().cuEventElapsedTime(&milliseconds, base_, later), "reading a clock");
        return milliseconds;
    };
    const auto nanoseconds = [](float milliseconds) {
        return static_cast<int64_t>(std::llround(double{milliseconds} * 1e6));
    };
    const float milliseconds = since_base(event);
    const int64_t time = base_time_ + nanoseconds(milliseconds);
    if (milliseconds > kLongAgo) {
        const CUevent now = make_base();
        base_time_ += nanoseconds(since_base(now));
        device_.driver().cuEventDestroy(std::exchange(base_, now));
    }
    return time;
}

} // namespace lz::runtime::cuda
