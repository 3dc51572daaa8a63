#pragma once
/// Streams and events of GPUs (S41 to S43). None is needed for a right answer: what depends on each other is
/// ordered by the compiler, across streams too (S42). Streams say what may overlap, events when something was
/// reached, and how long it took.
///
/// All of it is recorded like any other work, and launched at the next sync; `synchronize`, `query` and
/// `elapsed_time` launch what is pending on the calling thread first, and throw what failed.

#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/device/device.h"

#include <functional>
#include <iosfwd>
#include <memory>

namespace lz {

namespace detail {
struct StreamState;
struct EventState;
} // namespace detail

namespace cuda {

class Event;

/// What an event may be told.
struct EventOptions {
    bool timing = false; ///< keep the time, for `elapsed_time`
};

/// A queue of a GPU: what is recorded on it runs in order, and may overlap with other streams. Copies of a
/// Stream are the same stream, and moving copies: there is no empty one. It is gone when the last copy is,
/// and what was recorded on it has run. A device has 64 queues for them. Who makes more at a time shares the
/// queue of another one, and equals it, as where PyTorch's pool is used up. Throws DeviceError for a CPU.
class LZ_API Stream {
public:
    /// A new stream. Lower priorities are more urgent: -1 is high, 0 is normal; what is beyond -5 to 0 counts
    /// as the nearest of them. One that shares a queue has that queue's priority, the nearest there is.
    explicit Stream(const Device &device = Device::cuda(), int priority = 0,
                    Location loc = Location::current());
    /// The same stream.
    Stream(const Stream &) = default;
    /// The same stream.
    Stream &operator=(const Stream &) = default;

    /// Its GPU.
    Device device() const;
    /// As it counts: -5 to 0.
    int priority() const;
    /// Number of the stream on its device; 0 is the default stream.
    int id() const;

    /// Waits until everything recorded on it so far has run; on a default stream, everything for which no
    /// stream was named.
    void synchronize(Location loc = Location::current()) const;
    /// Whether it has run; does not wait.
    bool query(Location loc = Location::current()) const;
    /// What is recorded on this stream from now on runs after what has been recorded on the other one.
    void wait_stream(const Stream &other, Location loc = Location::current()) const;
    /// ... after the last record of the event: of this thread's before here, and of other threads' that have
    /// been launched when this is launched, as in CUDA. A record that is pending on another thread is not
    /// waited for: that thread has to sync first, or this one to call `event.synchronize()`. An event that
    /// was never recorded has happened.
    void wait_event(const Event &event, Location loc = Location::current()) const;
    /// A moment of this stream, as Event::record.
    void record_event(const Event &event, Location loc = Location::current()) const;
    /// The same with a new event.
    Event record_event(const EventOptions &options = {}, Location loc = Location::current()) const;
    /// Calls it on a thread of the runtime when what was recorded on the stream before has run; what is
    /// recorded after it waits. It must not throw, and not use Lazuli. One that nobody has synced when `main`
    /// returns need not be called: `synchronize` before.
    void add_callback(std::function<void()> function, Location loc = Location::current()) const;

    friend LZ_API bool operator==(const Stream &a, const Stream &b);

private:
    friend class Event;
    friend class StreamGuard;
    friend LZ_API Stream default_stream(const Device &device, Location loc);
    friend LZ_API Stream current_stream(const Device &device, Location loc);
    friend LZ_API void set_stream(const Stream &stream);
    struct Handle { ///< not a pointer alone, which 0 could be: it is the index of a device
        std::shared_ptr<detail::StreamState> state;
    };
    explicit Stream(Handle handle) : state_(std::move(handle.state)) {}

    std::shared_ptr<detail::StreamState> state_;
};
/// `<stream 8 of cuda:0>`.
LZ_API std::ostream &operator<<(std::ostream &out, const Stream &stream);

/// The stream of work for which no stream is named. The compiler may spread such work over several queues;
/// the default stream stands for all of them: waiting for it waits for each, a callback on it stands between
/// all work of before and after, and what it waits for comes before all of its later work, in later runs too.
/// A copy between two GPUs is work of both; it waits for what the one that is read waits for.
LZ_API Stream default_stream(const Device &device = Device::cuda(), Location loc = Location::current());
/// The stream on which the calling thread records work of the device.
LZ_API Stream current_stream(const Device &device = Device::cuda(), Location loc = Location::current());
/// Makes it that, and its device the current one.
LZ_API void set_stream(const Stream &stream);

/// Another current stream, and current device, for this thread until the end of the scope.
class LZ_API StreamGuard {
public:
    /// Makes it the current one.
    explicit StreamGuard(const Stream &stream);
    ~StreamGuard();
    StreamGuard(const StreamGuard &) = delete;
    StreamGuard &operator=(const StreamGuard &) = delete;

private:
    Stream before_;
    int device_before_;
};

/// A moment on a stream. Copies of an Event are the same event, and moving copies. It can be recorded again:
/// the last record counts.
class LZ_API Event {
public:
    /// Never recorded.
    explicit Event(const EventOptions &options = {});
    /// The same event.
    Event(const Event &) = default;
    /// The same event.
    Event &operator=(const Event &) = default;

    /// On the current stream of the current device, or the given one.
    void record(Location loc = Location::current()) const;
    void record(const Stream &stream, Location loc = Location::current()) const;
    /// The stream goes on after the last record: as Stream::wait_event.
    void wait(Location loc = Location::current()) const;
    void wait(const Stream &stream, Location loc = Location::current()) const;
    /// Waits until it has been reached; returns at once when it was never recorded. A record that is pending
    /// on another thread is waited for until that thread launches it (with a sync, `query` or `synchronize`
    /// of its own, or when it ends): do not call this where that thread is waiting for the caller.
    void synchronize(Location loc = Location::current()) const;
    /// Whether it has been reached; true when it was never recorded, false while a record is pending on
    /// another thread.
    bool query(Location loc = Location::current()) const;
    /// Milliseconds from this event to `end`, by the device's clock, which virtual GPUs share; waits for both
    /// as `synchronize` does. Throws StateError unless both were made with `timing` and have been recorded,
    /// and DeviceError for events of two CUDA devices.
    double elapsed_time(const Event &end, Location loc = Location::current()) const;

private:
    std::shared_ptr<detail::EventState> state_;
};

} // namespace cuda

using cuda::current_stream;
using cuda::default_stream;
using cuda::Event;
using cuda::EventOptions;
using cuda::Stream;
using cuda::StreamGuard;

} // namespace lz
