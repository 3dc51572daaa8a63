#pragma once
/// A stream that runs on a thread of the host: the worker streams of the CPU, and all streams of virtual
/// GPUs.
///
/// Items are done one after the other in the order in which they were put; a tick is a number of items. The
/// thread starts with the first item and is parked while there are none; nothing spins. Items lie in a ring
/// of slots whose memory is used again, so that putting one allocates nothing once the ring has warmed up. A
/// full ring blocks who puts.

#include "runtime/api/backend.h"
#include "runtime/streams/group.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lz::runtime {

class StreamQueue : public std::enable_shared_from_this<StreamQueue> {
public:
    struct Options {
        size_t max_queued = 1024;
        /// Set: each item waits a random moment before it begins (a missing sync shows).
        std::optional<uint64_t> delay_seed = {};
    };
    /// What an item is: kernels and library calls give way to more urgent streams.
    enum class Kind : uint8_t { Work, Copy, Host };
    using RunFn = void (*)(void *arguments);

    StreamQueue(std::shared_ptr<StreamGroup> group, StreamId number, Options options);
    /// What was put is done first, unless the process is ending.
    ~StreamQueue();
    StreamQueue(const StreamQueue &) = delete;
    StreamQueue &operator=(const StreamQueue &) = delete;

    // All functions may be called from any thread, but none that waits from this stream's own. In a forked
    // child they throw Failure(State) (S65).

    /// An item with `bytes` of arguments (aligned to 16), which `fill(void *arguments)` writes before this
    /// returns, returning the time span that `done` is told, or nullopt: then it is told when the item ran.
    /// `fill` may throw: then nothing was put. When `run` throws, the device is lost. `done` has returned
    /// when the item's tick is reached.
    template <class Fill>
    void put(Kind kind, size_t bytes, RunFn run, OnDone done, Fill &&fill) {
        std::unique_lock lock(sync_->mutex, std::defer_lock);
        Item &slot = acquire(lock, bytes);
        const std::optional<TimeSpan> span =
            std::forward<Fill>(fill)(static_cast<void *>(slot.arguments.get()));
        slot.kind = static_cast<uint8_t>(kind);
        slot.priority = static_cast<int8_t>(priority());
        slot.run = run;
        slot.done = std::move(done);
        slot.has_span = span.has_value();
        slot.span = span.value_or(TimeSpan{});
        commit(lock);
    }
    /// A function to be called in order.
    void put(std::function<void()> callback);
    /// Goes on when `tick` of the other is reached; the other is not this one.
    void put_wait(std::shared_ptr<StreamQueue> other, uint64_t tick);
    void put_wait(Backend &other, StreamId of, uint64_t tick);

    /// Waits until there is room for an item, for callers that put one while they hold a lock.
    void make_room();
    /// Items put so far.
    uint64_t ticks() const { return put_.load(std::memory_order_acquire); }
    /// Whether so many items have been done (or, on a lost device, dropped).
    bool passed(uint64_t tick) const { return done_.load(std::memory_order_acquire) >= tick; }
    /// Waits for that. When the process is ending and the thread is gone, does the items itself.
    void await(uint64_t tick);

    /// As Backend::reached and Backend::synchronize: on a lost device they throw, once `tick` has passed.
    bool reached(uint64_t tick) const;
    void synchronize(uint64_t tick);

    /// Of what is put from now on: an item keeps the priority that it was put with, because a number that is
    /// given again brings another priority while work of its last owner may still be here.
    void set_priority(int priority) { priority_.store(StreamGroup::clamp_priority(priority)); }
    int priority() const { return priority_.load(); }

    /// The end of the process: the thread stops after the item that it is doing.
    void begin_stop();
    void join();
    /// Then: the items that are left, unless this thread is doing them.
    void do_what_is_left();

private:
    static constexpr uint8_t kWait = 3; ///< a fourth kind

    struct Item {
        uint8_t kind = 0;
        int8_t priority = 0;
        bool has_span = false;
        RunFn run = nullptr;
        std::unique_ptr<std::byte[]> arguments;
        size_t capacity = 0;
        TimeSpan span;
        OnDone done;
        std::function<void()> callback;
        // A wait.
        std::shared_ptr<StreamQueue> other;
        Backend *foreign = nullptr;
        StreamId of = 0;
        uint64_t tick = 0;
    };
    struct Sync {
        std::mutex mutex;
        std::condition_variable work, progress;
        std::mutex doing; ///< held by who does items
    };

    Item &acquire(std::unique_lock<std::mutex> &lock, size_t bytes);
    void commit(std::unique_lock<std::mutex> &lock);
    void serve();
    bool perform(Item &slot);
    bool perform_wait(Item &slot);
    void finish();
    bool park_until(uint64_t tick);
    void do_until(uint64_t tick);
    void set_busy(int priority);
    void delay();

    const std::shared_ptr<StreamGroup> group_;
    const StreamId number_;
    const Options options_;
    std::unique_ptr<Sync> sync_;
    std::vector<Item> ring_;
    std::unique_ptr<std::thread> thread_;
    bool started_ = false; ///< a thread was, or never will be
    bool idle_ = false;    ///< the thread is parked; guarded, as the three above
    std::atomic<bool> stopping_{false};
    std::atomic<std::thread::id> doer_{}; ///< who does items after the thread
    std::atomic<uint64_t> put_{0}, done_{0};
    std::atomic<uint64_t> wake_at_{UINT64_MAX}; ///< the first tick that somebody waits for
    std::atomic<int> priority_{0};
    // Of who does items.
    int busy_priority_ = 0; ///< that the group counts this stream with; 0: not at all
    uint64_t random_ = 0;
};

} // namespace lz::runtime
