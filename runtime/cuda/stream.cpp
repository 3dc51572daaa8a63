#include "runtime/cuda/stream.h"

#include "runtime/api/parallel.h"
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
        ring_.resize(kSmallestRing);
        for (Moment &moment : ring_)
            moment.event = make_event();
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
    ring_.clear();
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
    const Moment &before = ring_[record_locked() % ring_.size()];
    device_.check(device_.driver().cuStreamWaitEvent(handles_[level], before.event->get(), 0),
                  "changing a priority");
    handle_ = handles_[level];
}

// --- moments

std::shared_ptr<const OwnedEvent> CudaStream::make_event() const {
    return std::make_shared<const OwnedEvent>(device_, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
}

uint64_t CudaStream::record() noexcept {
    const std::lock_guard lock(mutex_);
    return record_locked();
}

uint64_t CudaStream::record_locked() noexcept {
    if (!dirty_)
        return ticks_;
    dirty_ = false;
    try {
        const Current current(device_.driver(), device_.context());
        Moment &next = next_moment();
        next.tick = ++ticks_;
        device_.note(device_.driver().cuEventRecord(next.event->get(), handle_), "recording an event");
    } catch (const std::exception &) { // the ring cannot grow: nobody could wait for what was put
        ++ticks_;
        device_.note(CUDA_ERROR_OUT_OF_MEMORY, "recording an event");
    }
    return ticks_;
}

/// The context is current. What is asked for after a sticky error is told that error.
bool CudaStream::has_come(const Moment &moment) {
    if (reached_.load(std::memory_order_relaxed) >= moment.tick)
        return true;
    const CUresult result = device_.driver().cuEventQuery(moment.event->get());
    if (result == CUDA_SUCCESS)
        reached_.store(moment.tick, std::memory_order_release);
    return result == CUDA_SUCCESS || is_sticky(result);
}

/// Where the next one is put down: in the place of one that has come and that nobody holds.
CudaStream::Moment &CudaStream::next_moment() {
    const auto is_free = [&](const Moment &moment) {
        return moment.event.use_count() == 1 && has_come(moment);
    };
    if (Moment &next = ring_[(ticks_ + 1) % ring_.size()]; is_free(next))
        return next;
    std::vector<Moment> larger(2 * ring_.size());
    for (Moment &moment : ring_)
        larger[moment.tick % larger.size()] = moment;
    for (Moment &moment : larger)
        if (!moment.event)
            moment.event = make_event();
    ring_ = std::move(larger);
    return ring_[(ticks_ + 1) % ring_.size()];
}

/// The event of a moment, or null when that has come.
std::shared_ptr<const OwnedEvent> CudaStream::still_to_come(uint64_t tick) {
    const std::lock_guard lock(mutex_);
    if (reached_.load(std::memory_order_relaxed) >= tick)
        return nullptr;
    return ring_[tick % ring_.size()].event;
}

/// Whether `tick` has come, or never will because the device is lost.
bool CudaStream::is_over(uint64_t tick) {
    check_not_forked(); // a thread that is not there any more may have held the lock
    if (device_.group()->lost() || reached_.load(std::memory_order_acquire) >= tick)
        return true;
    const std::lock_guard lock(mutex_);
    if (device_.group()->lost() || reached_.load(std::memory_order_relaxed) >= tick)
        return true;
    const OwnedEvent &event = *ring_[tick % ring_.size()].event;
    const Current current(device_.driver(), device_.context());
    const CUresult result = device_.driver().cuEventQuery(event.get());
    if (result == CUDA_ERROR_NOT_READY)
        return false;
    // Whatever the error is: nobody knows what of the work is done. A stream of another device may wait for
    // this one; it goes on when this one counts as lost, and would never go on if the error were ignored.
    device_.note(result, "work on it");
    if (!device_.group()->lost())
        reached_.store(tick, std::memory_order_release);
    return true;
}

/// Whether the thread beside the stream still has something. On a lost device it begins nothing any more.
/// What it does itself it does not wait for.
bool CudaStream::uses_host() const {
    const StreamQueue *const thread = made_thread_.load(std::memory_order_acquire);
    return thread && thread_id_.load() != std::this_thread::get_id() && !thread->passed(thread->ticks());
}

bool CudaStream::reached(uint64_t tick) {
    if (!is_over(tick))
        return false;
    if (device_.group()->lost() && uses_host()) [[unlikely]]
        return false;
    device_.group()->check();
    return true;
}

void CudaStream::synchronize(uint64_t tick) {
    wait_until(tick, [&] { return reached(tick); });
}

template <class Over>
void CudaStream::wait_until(uint64_t tick, Over over) {
    const auto until = std::chrono::steady_clock::now() + kSpin;
    while (!over()) {
        if (std::chrono::steady_clock::now() < until) {
            std::this_thread::yield();
            continue;
        }
        do_what_is_left();
        if (device_.group()->lost()) { // maybe since `over` was asked
            if (uses_host()) {
                StreamQueue *const thread = made_thread_.load(std::memory_order_acquire);
                thread->await(thread->ticks());
            }
        } else if (const auto event = still_to_come(tick)) {
            const Current current(device_.driver(), device_.context());
            device_.note(device_.driver().cuEventSynchronize(event->get()), "work on it");
        }
    }
}

/// What the thread beside the stream waits for. A lost device has nothing that it could wait for.
void CudaStream::wait_for_device(uint64_t tick) noexcept {
    thread_id_ = std::this_thread::get_id();
    try {
        wait_until(tick, [&] { return is_over(tick); });
    } catch (const std::exception &) { // the context could not be entered: the device is lost
    }
}

void CudaStream::wait(CudaStream &other, uint64_t tick) {
    if (&other == this || other.reached(tick))
        return;
    // One stream's lock after the other's, never both: two streams may wait for each other's pasts.
    const auto event = other.still_to_come(tick);
    if (!event)
        return;
    const Entered entered(device_, "entering its context");
    put("making a stream wait",
        [&](CUstream stream) { return device_.driver().cuStreamWaitEvent(stream, event->get(), 0); });
}

void CudaStream::wait(uint64_t *word, uint64_t value) {
    const Entered entered(device_, "entering its context");
    put("making a stream wait", [&](CUstream stream) {
        return device_.driver().cuStreamWaitValue64(stream, reinterpret_cast<CUdeviceptr>(word), value,
                                                    CU_STREAM_WAIT_VALUE_GEQ);
    });
}

void CudaStream::wait_foreign(CUstream foreign) {
    const OwnedEvent moment(device_, CU_EVENT_DISABLE_TIMING); // the driver keeps it for who waits
    const Entered entered(device_, "entering its context");
    device_.check(device_.driver().cuEventRecord(moment.get(), foreign),
                  "recording an event on another library's stream");
    put("making a stream wait",
        [&](CUstream stream) { return device_.driver().cuStreamWaitEvent(stream, moment.get(), 0); });
}

void CudaStream::foreign_waits(CUstream foreign, uint64_t tick) {
    if (reached(tick))
        return;
    const auto event = still_to_come(tick);
    if (!event)
        return;
    const Entered entered(device_, "entering its context");
    device_.check(device_.driver().cuStreamWaitEvent(foreign, event->get(), 0),
                  "making another library's stream wait");
}

// --- the thread beside it

StreamQueue &CudaStream::thread() {
    if (!thread_)
        thread_ = std::make_shared<StreamQueue>(device_.group(), number_, StreamQueue::Options{});
    made_thread_.store(thread_.get(), std::memory_order_release);
    return *thread_;
}

CudaStream::Beside::~Beside() {
    if (put_ > awaited_)
        stream_.thread_->await(stream_.thread_->ticks());
}

void CudaStream::Beside::wait(uint64_t tick) {
    stream_.thread().put([&stream = stream_, tick] { stream.wait_for_device(tick); });
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
    put_ = value;
    return value;
}

void CudaStream::Beside::stream_waits(uint64_t value) {
    stream_.wait(stream_.device_.own_word(stream_.number_), value);
    awaited_ = std::max(awaited_, value);
}

void CudaStream::call_host(std::function<void()> work) {
    Beside beside(*this);
    beside.wait(record());
    beside.stream_waits(beside.run(std::move(work)));
}

} // namespace lz::runtime::cuda
