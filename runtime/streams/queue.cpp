#include "runtime/streams/queue.h"

#include "ir/host/float_environment.h"
#include "runtime/api/parallel.h"
#include "runtime/profiler/profiler.h"
#include "runtime/streams/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace lz::runtime {

namespace {

/// What most launches need: a slot that held a wait first has room for one.
constexpr size_t kUsualBytes = 256;
/// More than this is given back when the item is done: each slot of a ring would keep its largest item's.
constexpr size_t kKeptBytes = 2048;

/// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
uint64_t next_random(uint64_t &state) {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

} // namespace

StreamQueue::StreamQueue(std::shared_ptr<StreamGroup> group, StreamId number, Options options)
    : group_(std::move(group)), number_(number), options_(options), sync_(std::make_unique<Sync>()) {
    if (options_.delay_seed) {
        random_ = *options_.delay_seed;
        for (const char c : group_->name())
            random_ = random_ * 31 + static_cast<unsigned char>(c);
        random_ = random_ * 131 + static_cast<uint64_t>(number);
    }
}

StreamQueue::~StreamQueue() {
    if (!thread_)
        return;
    if (in_forked_child()) {     // the thread is not here, and what it waited for cannot be destroyed
        (void)thread_.release(); // NOLINT: left where they are
        (void)sync_.release();   // NOLINT
        return;
    }
    if (!stopping_.load())
        await(ticks());
    begin_stop();
    join();
}

// --- putting

StreamQueue::Item &StreamQueue::acquire(std::unique_lock<std::mutex> &lock, size_t bytes) {
    check_not_forked();
    lock.lock();
    if (!started_) {
        ring_.resize(std::max<size_t>(options_.max_queued, 1));
        thread_ = start_stream_thread(shared_from_this(), fmt::format("lz {}/{}", group_->name(), number_),
                                      [this] { serve(); });
        started_ = true;
        if (!thread_)
            stopping_ = true;
    }
    for (uint64_t put; (put = put_.load(std::memory_order_relaxed)) - done_.load() >= ring_.size();) {
        lock.unlock();
        await(put - ring_.size() + 1);
        lock.lock();
    }
    Item &slot = ring_[put_.load(std::memory_order_relaxed) % ring_.size()];
    if (slot.capacity < bytes || slot.capacity == 0) {
        const size_t capacity = std::max(bytes, kUsualBytes);
        slot.arguments = std::make_unique<std::byte[]>(capacity);
        slot.capacity = capacity;
    }
    return slot;
}

void StreamQueue::make_room() {
    const uint64_t put = ticks();
    if (put - done_.load() >= options_.max_queued)
        await(put - options_.max_queued + 1);
}

void StreamQueue::commit(std::unique_lock<std::mutex> &lock) {
    put_.fetch_add(1, std::memory_order_release);
    const bool wake = idle_;
    lock.unlock();
    if (wake)
        sync_->work.notify_one();
}

void StreamQueue::put(std::function<void()> callback) {
    std::unique_lock lock(sync_->mutex, std::defer_lock);
    Item &slot = acquire(lock, 0);
    slot.kind = static_cast<uint8_t>(Kind::Host);
    slot.run = nullptr;
    slot.callback = std::move(callback);
    commit(lock);
}

void StreamQueue::put_wait(std::shared_ptr<StreamQueue> other, uint64_t tick) {
    std::unique_lock lock(sync_->mutex, std::defer_lock);
    Item &slot = acquire(lock, 0);
    slot.kind = kWait;
    slot.other = std::move(other);
    slot.tick = tick;
    commit(lock);
}

void StreamQueue::put_wait(Backend &other, StreamId of, uint64_t tick) {
    std::unique_lock lock(sync_->mutex, std::defer_lock);
    Item &slot = acquire(lock, 0);
    slot.kind = kWait;
    slot.foreign = &other;
    slot.of = of;
    slot.tick = tick;
    commit(lock);
}

// --- doing

void StreamQueue::serve() {
    const std::lock_guard doing(sync_->doing);
    for (;;) {
        uint64_t end = put_.load(std::memory_order_acquire);
        if (end == done_.load(std::memory_order_relaxed)) {
            set_busy(0);
            std::unique_lock lock(sync_->mutex);
            idle_ = true;
            sync_->work.wait(lock, [&] {
                end = put_.load(std::memory_order_relaxed);
                return stopping_.load() || end != done_.load(std::memory_order_relaxed);
            });
            idle_ = false;
        }
        for (uint64_t next = done_.load(std::memory_order_relaxed); next < end; ++next) {
            if (stopping_.load() || !perform(ring_[next % ring_.size()])) {
                set_busy(0);
                return;
            }
            finish();
        }
        if (stopping_.load()) {
            set_busy(0);
            return;
        }
    }
}

/// False when the process is ending before the item could begin.
bool StreamQueue::perform(Item &slot) {
    const ir::FloatEnvironment environment; // whoever does it, and whatever a callback changes
    if (options_.delay_seed)
        delay();
    const bool wait = slot.kind == kWait, work = slot.kind == static_cast<uint8_t>(Kind::Work);
    if (!group_->lost()) {
        const bool runs = !wait && slot.kind != static_cast<uint8_t>(Kind::Host);
        set_busy(runs ? slot.priority : 0);
        if (wait && !perform_wait(slot))
            return false;
        try {
            if (!wait) {
                if (work)
                    group_->give_way(slot.priority, stopping_);
                const bool timed = slot.done && !slot.has_span;
                if (timed)
                    slot.span.begin = profile_clock();
                if (slot.run)
                    slot.run(slot.arguments.get());
                else
                    slot.callback();
                if (timed)
                    slot.span.end = profile_clock();
                if (slot.done)
                    slot.done(slot.span);
            }
        } catch (const std::exception &error) {
            group_->lose(fmt::format("something on its stream {} threw: {}", number_, error.what()));
        } catch (...) {
            group_->lose(fmt::format("something on its stream {} threw what is no exception.", number_));
        }
    }
    slot.run = nullptr;
    slot.done = {};
    if (slot.capacity > kKeptBytes) {
        slot.arguments.reset();
        slot.capacity = 0;
    }
    slot.callback = nullptr;
    slot.other.reset();
    slot.foreign = nullptr;
    return true;
}

bool StreamQueue::perform_wait(Item &slot) {
    if (slot.foreign) {
        try {
            slot.foreign->synchronize(slot.of, slot.tick);
        } catch (const std::exception &) {
            // The other device is lost, which it says to those who ask it: this one goes on.
        }
        return true;
    }
    if (!stopping_.load())
        return slot.other->park_until(slot.tick);
    slot.other->await(slot.tick);
    return true;
}

void StreamQueue::finish() {
    const uint64_t done = done_.load(std::memory_order_relaxed) + 1;
    // Either this sees who waits, or who waits sees this (both are sequentially consistent).
    done_.store(done);
    if (wake_at_.load() > done)
        return;
    {
        const std::lock_guard lock(sync_->mutex);
        wake_at_.store(UINT64_MAX); // those who wait for more say so again
    }
    sync_->progress.notify_all();
}

/// The group counts the stream with the priority of the item that it is doing, and with no other: work that
/// is less urgent waits for streams that are counted, and would wait for its own.
void StreamQueue::set_busy(int priority) {
    const int before = std::exchange(busy_priority_, priority);
    if (before == priority)
        return;
    if (priority != 0)
        group_->set_busy(priority, true);
    if (before != 0)
        group_->set_busy(before, false);
}

/// Most moments are short, so that the order of streams changes with every item, and some long enough for
/// another stream to run far ahead.
void StreamQueue::delay() {
    const uint64_t random = next_random(random_);
    const uint64_t microseconds = random % 8 == 0  ? (random >> 8) % 600
                                  : random % 8 < 4 ? (random >> 8) % 40
                                                   : 0;
    if (microseconds)
        std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

// --- waiting

/// Whether `tick` has passed: false only when the thread stops before.
bool StreamQueue::park_until(uint64_t tick) {
    if (passed(tick))
        return true;
    std::unique_lock lock(sync_->mutex);
    for (;;) {
        wake_at_.store(std::min(wake_at_.load(), tick));
        if (done_.load() >= tick)
            return true;
        if (stopping_.load())
            return false;
        sync_->progress.wait(lock);
    }
}

void StreamQueue::do_until(uint64_t tick) {
    const std::lock_guard doing(sync_->doing);
    doer_ = std::this_thread::get_id();
    while (!passed(tick) && done_.load() < ticks()) {
        perform(ring_[done_.load() % ring_.size()]);
        finish();
    }
    set_busy(0);
    doer_ = std::thread::id();
}

void StreamQueue::await(uint64_t tick) {
    if (!park_until(tick))
        do_until(tick);
}

bool StreamQueue::reached(uint64_t tick) const {
    if (!passed(tick))
        return false;
    group_->check();
    return true;
}

void StreamQueue::synchronize(uint64_t tick) {
    if (!passed(tick)) {
        check_not_forked();
        await(tick);
    }
    group_->check();
}

// --- the end

void StreamQueue::begin_stop() {
    {
        const std::lock_guard lock(sync_->mutex);
        stopping_ = true;
    }
    sync_->work.notify_all();
    sync_->progress.notify_all();
    group_->wake();
}

void StreamQueue::do_what_is_left() {
    if (stopping_.load() && doer_.load() != std::this_thread::get_id())
        do_until(ticks());
}

void StreamQueue::join() {
    if (thread_ && thread_->joinable())
        thread_->join();
}

} // namespace lz::runtime
