#include "runtime/cuda/stream.h"

#include "runtime/streams/threads.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace lz::runtime::cuda {

namespace {

/// A waiting host asks again and again for this long before it sleeps: waking takes some 20 us.
constexpr auto kSpin = std::chrono::microseconds(60);

} // namespace

CudaStream::CudaStream(const CudaDevice &device, StreamId number)
    : device_(device), number_(number), handles_{} {
    const Entered entered(device_, "entering its context");
    try {
        make(0);
        handle_ = handles_[0];
        for (Moment &moment : ring_)
            device_.check(device_.driver().cuEventCreate(&moment.event,
                                                         CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC),
                          "making an event");
    } catch (...) {
        destroy();
        throw;
    }
}

CudaStream::~CudaStream() {
    if (in_forked_child())
        return;
    thread_.reset(); // its work is done first
    const Current current(device_.driver(), device_.context());
    destroy();
}

void CudaStream::make(size_t level) {
    int least = 0, greatest = 0;
    device_.check(device_.driver().cuCtxGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    device_.check(
        device_.driver().cuStreamCreateWithPriority(&handles_[level], CU_STREAM_NON_BLOCKING,
                                                    std::clamp(-static_cast<int>(level), greatest, least)),
        "making a stream");
}

void CudaStream::destroy() noexcept {
    for (const Moment &moment : ring_)
        if (moment.event)
            device_.driver().cuEventDestroy(moment.event);
    for (const CUstream handle : handles_)
        if (handle)
            device_.driver().cuStreamDestroy(handle);
}

void CudaStream::set_priority(int priority) {
    const auto level = static_cast<size_t>(-StreamGroup::clamp_priority(priority));
    const Entered entered(device_, "entering its context");
    const std::lock_guard lock(mutex_);
    if (!handles_[level])
        make(level);
    if (handle_ == handles_[level])
        return;
    dirty_ = true; // what waited before waits through the new handle too
    const Moment &before = moment(record_locked());
    device_.check(device_.driver().cuStreamWaitEvent(handles_[level], before.event, 0),
                  "changing a priority");
    handle_ = handles_[level];
}

// --- moments

uint64_t CudaStream::record() noexcept {
    const std::lock_guard lock(mutex_);
    return record_locked();
}

uint64_t CudaStream::record_locked() noexcept {
    if (!dirty_)
        return ticks_;
    Moment &moment = ring_[(ticks_ + 1) % kRing];
    const Current current(device_.driver(), device_.context());
    const CUresult result = device_.driver().cuEventRecord(moment.event, handle_);
    if (result != CUDA_SUCCESS)
        device_.note(result, "recording an event");
    moment.tick = ++ticks_;
    dirty_ = false;
    return ticks_;
}

/// An event that comes at `tick`, or after it where the ring no longer has that one.
const CudaStream::Moment &CudaStream::moment(uint64_t tick) const {
    const uint64_t oldest = ticks_ < kRing ? 1 : ticks_ - kRing + 1;
    return ring_[std::max(tick, oldest) % kRing];
}

bool CudaStream::reached(uint64_t tick) {
    if (reached_.load(std::memory_order_acquire) < tick) {
        const std::lock_guard lock(mutex_);
        device_.group()->check();
        const Moment &asked = moment(tick);
        const Current current(device_.driver(), device_.context());
        const CUresult result = device_.driver().cuEventQuery(asked.event);
        if (result == CUDA_ERROR_NOT_READY)
            return false;
        device_.check(result, "work on it");
        if (reached_.load(std::memory_order_relaxed) < asked.tick)
            reached_.store(asked.tick, std::memory_order_release);
    }
    device_.group()->check();
    return true;
}

void CudaStream::synchronize(uint64_t tick) {
    const auto until = std::chrono::steady_clock::now() + kSpin;
    while (!reached(tick)) {
        if (std::chrono::steady_clock::now() < until) {
            std::this_thread::yield();
            continue;
        }
        CUevent event = nullptr;
        {
            const std::lock_guard lock(mutex_);
            event = moment(tick).event;
        }
        // Recorded again meanwhile it comes later, which is no harm: `reached` has the last word.
        const Entered entered(device_, "waiting for it");
        device_.check(device_.driver().cuEventSynchronize(event), "work on it");
    }
}

bool CudaStream::idle() noexcept {
    try {
        return reached(record());
    } catch (...) {
        return true;
    }
}

void CudaStream::wait(CudaStream &other, uint64_t tick) {
    if (&other == this || other.reached(tick))
        return;
    // One after the other, never both: two streams may wait for each other's pasts.
    CUevent event = nullptr;
    {
        const std::lock_guard lock(other.mutex_);
        event = other.moment(tick).event;
    }
    const Entered entered(device_, "entering its context");
    put("making a stream wait",
        [&](CUstream stream) { return device_.driver().cuStreamWaitEvent(stream, event, 0); });
}

void CudaStream::wait(uint64_t *word, uint64_t value) {
    const Entered entered(device_, "entering its context");
    put("making a stream wait", [&](CUstream stream) {
        return device_.driver().cuStreamWaitValue64(stream, reinterpret_cast<CUdeviceptr>(word), value,
                                                    CU_STREAM_WAIT_VALUE_GEQ);
    });
}

// --- the thread beside it

StreamQueue &CudaStream::thread() {
    if (!thread_)
        thread_ = std::make_shared<StreamQueue>(device_.group(), number_, StreamQueue::Options{});
    return *thread_;
}

void CudaStream::Beside::wait(Backend &backend, uint64_t tick) {
    stream_.thread().put_wait(backend, stream_.number_, tick);
}

uint64_t CudaStream::Beside::run(std::function<void()> work) {
    const uint64_t value = ++stream_.word_value_;
    const auto signal = std::make_shared<Signal>(stream_.device_.own_word(stream_.number_), value);
    try {
        stream_.thread().put([signal, work = std::move(work)] { work(); });
    } catch (...) {
        signal->give_up();
        throw;
    }
    return value;
}

void CudaStream::Beside::stream_waits(uint64_t value) {
    stream_.wait(stream_.device_.own_word(stream_.number_), value);
}

void CudaStream::call_host(Backend &backend, std::function<void()> work) {
    Beside beside(*this);
    beside.wait(backend, record());
    beside.stream_waits(beside.run(std::move(work)));
}

} // namespace lz::runtime::cuda
