#pragma once
/// Streams, events and moments, for the frontend. All functions may be called from any thread; they concern
/// work that has been launched, and launch nothing.

#include "ir/stream.h"

#include <functional>
#include <memory>
#include <span>

namespace lz::engine {

/// A stream of the user's: its number on its device, and the priority that work on that has.
struct UserStream {
    int32_t number;
    int priority;
};
/// Opens a stream of the user's on a GPU that is there. Lower priorities are more urgent. It has the lowest
/// number that is free, and with it the queue, behind what is still on it, and the cached memory of its last
/// owner: a loop that opens a stream in each turn makes neither a thread nor a pool of memory a turn. (Which
/// number it is does not matter to Programs: Bindings::streams.) When none is, it shares one, as PyTorch's
/// streams share those of a pool: if it can, one that only pending work still needs, else one that other open
/// streams have, of the nearest priority and with the fewest of them. What shares a number runs one after the
/// other. Throws Failure(Device) when the device refuses, and Failure(State) in a forked child.
UserStream open_stream(ir::Device device, int priority);
/// Without open streams and holds a number is free. What is on it runs first.
void close_stream(ir::StreamRef stream) noexcept;
/// Pending work names the number: it stays taken until as many calls of `release_stream`.
void hold_stream(ir::StreamRef stream) noexcept;
void release_stream(ir::StreamRef stream) noexcept;

/// Throws Failure(State) in a forked child, where nothing runs (S65): for before locks that another thread of
/// the parent may have held.
void check_not_forked();

/// The moment after everything that is on the stream.
ir::Point record(ir::StreamRef stream);
bool reached(const ir::Point &point);
/// Waits; throws Failure(Cuda) when the device is lost.
void synchronize(std::span<const ir::Point> points);
/// Waits for everything on all streams of the device, also those that are closed. Throws as `synchronize`,
/// and Failure(State) in a forked child.
void synchronize_device(ir::Device device);

/// The moment when what another library has put so far on a stream of its own (a CUstream of the device) is
/// over, for notes of memory that it wrote or read. Throws Failure(Device) for a device without such streams.
ir::Point foreign_point(ir::Device device, void *foreign);
/// The other library's stream goes on after the point. Throws likewise.
void foreign_waits(void *foreign, const ir::Point &point);

/// What the user's record_event and wait_event refer to.
class EventHandle {
public:
    explicit EventHandle(bool timing);
    ~EventHandle();
    EventHandle(const EventHandle &) = delete;
    EventHandle &operator=(const EventHandle &) = delete;

    /// The runtime word of the effect; the event must live until the effect has run.
    int64_t word() const;
    bool timing() const;
    /// A record of it is pending; `resolve` says that it has been launched or given up.
    void expect();
    void resolve();
    /// Whether a launched record has set it.
    bool recorded() const;
    /// True when it was never recorded, as in CUDA; false while a record is pending on any thread.
    bool reached() const;
    /// Waits until no record is pending and the last one has been reached. Throws Failure(State) in a forked
    /// child, where the threads are not that have to launch.
    void synchronize() const;
    /// Milliseconds from this one to `end`; both timed, recorded and reached. Throws Failure(Device) for two
    /// devices that have no clock in common, as virtual GPUs have.
    double elapsed_ms(const EventHandle &end) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// What a host_callback refers to.
class Callback {
public:
    explicit Callback(std::function<void()> function);
    ~Callback();
    Callback(const Callback &) = delete;
    Callback &operator=(const Callback &) = delete;
    int64_t word() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace lz::engine
