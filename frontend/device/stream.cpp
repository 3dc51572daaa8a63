#include "lazuli/device/stream.h"

#include "frontend/engine/streams.h"
#include "frontend/record/record.h"
#include "frontend/record/recorder.h"
#include "frontend/record/sync/sync.h"
#include "ir/op.h"
#include "lazuli/core/error.h"
#include "lazuli/device/cuda.h"

#include <ostream>
#include <utility>
#include <vector>

namespace lz {
namespace detail {

/// A stream with an owner; the default ones are always there.
struct StreamState {
    StreamState(ir::StreamRef ref, int priority) : ref(ref), priority(priority) {}
    ~StreamState() {
        if (ref.stream != ir::kDefaultStream)
            engine::close_stream(ref);
    }
    StreamState(const StreamState &) = delete;
    StreamState &operator=(const StreamState &) = delete;

    const ir::StreamRef ref;
    const int priority;
};

struct EventState {
    explicit EventState(bool timing) : event(timing) {}
    engine::EventHandle event;
};

} // namespace detail

namespace cuda {
namespace {

using detail::EventState;
using detail::Recorder;
using detail::StreamState;

ir::Device gpu(const Device &device, const char *function, Location loc) {
    if (device.is_cpu())
        throw DeviceError(std::string(function) + ": streams belong to GPUs, and the device given is cpu",
                          loc);
    return detail::to_ir(device, loc);
}

std::shared_ptr<StreamState> make_stream(ir::Device device, int priority, Location loc) {
    const engine::UserStream stream =
        detail::translated(loc, [&] { return engine::open_stream(device, priority); });
    return std::make_shared<StreamState>(ir::StreamRef{device, stream.number}, stream.priority);
}

/// The moment after everything on it; the default stream stands for all of those that the user did not make.
std::vector<ir::Point> moments(ir::StreamRef stream) {
    if (stream.stream != ir::kDefaultStream)
        return {engine::record(stream)};
    std::vector<ir::Point> points;
    for (int32_t s = 0; s < ir::kFirstUserStream; ++s)
        points.push_back(engine::record({stream.device, s}));
    return points;
}

/// Pending work is launched, then looked at by `look`; then what failed meanwhile is thrown.
template <class F>
auto launched(Location loc, F &&look) {
    detail::launch_all(loc);
    auto seen = detail::translated(loc, std::forward<F>(look));
    detail::settle_done();
    return seen;
}

/// A stream that a pending effect names: its number stays taken, also when nobody has the stream any more.
class PendingStream {
public:
    PendingStream(const StreamState &stream) : ref_(stream.ref) {
        if (ref_.stream >= ir::kFirstUserStream)
            engine::hold_stream(ref_);
    }
    ~PendingStream() {
        if (ref_.stream >= ir::kFirstUserStream)
            engine::release_stream(ref_);
    }
    PendingStream(const PendingStream &) = delete;
    PendingStream &operator=(const PendingStream &) = delete;

private:
    const ir::StreamRef ref_;
};

// What recorded effects refer to, gone when they have been launched.
struct PendingWaitStream {
    PendingStream on, of;
};
struct PendingCallback {
    std::shared_ptr<engine::Callback> callback;
    PendingStream on;
};
struct PendingWait {
    std::shared_ptr<EventState> event;
    PendingStream on;
};
struct PendingRecord {
    PendingRecord(std::shared_ptr<EventState> of, const StreamState &stream)
        : event(std::move(of)), on(stream) {
        event->event.expect();
    }
    ~PendingRecord() { event->event.resolve(); }
    PendingRecord(const PendingRecord &) = delete;
    PendingRecord &operator=(const PendingRecord &) = delete;

    std::shared_ptr<EventState> event;
    PendingStream on;
};

/// Made where it stays: a PendingStream does not move.
template <class T, class... Parts>
std::shared_ptr<void> pending(Parts &&...parts) {
    return std::shared_ptr<T>(new T{std::forward<Parts>(parts)...});
}

void record_effect_of(const EventState &event, const StreamState &stream, std::shared_ptr<void> held,
                      ir::Op op, Location loc) {
    const int64_t device = ir::device_word(stream.ref.device), word = event.event.word();
    detail::record_effect(op, stream.ref, {&device, 1}, {&word, 1}, std::move(held), loc);
}

} // namespace

Stream::Stream(const Device &device, int priority, Location loc)
    : state_(make_stream(gpu(device, "Stream", loc), priority, loc)) {}

Device Stream::device() const {
    return detail::from_ir(state_->ref.device);
}
int Stream::priority() const {
    return state_->priority;
}
int Stream::id() const {
    return state_->ref.stream;
}

void Stream::synchronize(Location loc) const {
    launched(loc, [&] {
        engine::synchronize(moments(state_->ref));
        return true;
    });
}

bool Stream::query(Location loc) const {
    return launched(loc, [&] {
        for (const ir::Point &moment : moments(state_->ref))
            if (!engine::reached(moment))
                return false;
        return true;
    });
}

void Stream::wait_stream(const Stream &other, Location loc) const {
    const int64_t words[] = {ir::device_word(state_->ref.device), ir::device_word(other.state_->ref.device),
                             other.state_->ref.stream};
    detail::record_effect(ir::Op::WaitStream, state_->ref, words, {},
                          pending<PendingWaitStream>(*state_, *other.state_), loc);
}

void Stream::wait_event(const Event &event, Location loc) const {
    event.wait(*this, loc);
}
void Stream::record_event(const Event &event, Location loc) const {
    event.record(*this, loc);
}
Event Stream::record_event(const EventOptions &options, Location loc) const {
    Event event(options);
    event.record(*this, loc);
    return event;
}

void Stream::add_callback(std::function<void()> function, Location loc) const {
    if (!function)
        throw StateError("add_callback: there is no function to call", loc);
    auto callback = std::make_shared<engine::Callback>(std::move(function));
    const int64_t device = ir::device_word(state_->ref.device), word = callback->word();
    detail::record_effect(ir::Op::HostCallback, state_->ref, {&device, 1}, {&word, 1},
                          pending<PendingCallback>(callback, *state_), loc);
}

bool operator==(const Stream &a, const Stream &b) {
    return a.state_->ref == b.state_->ref;
}
std::ostream &operator<<(std::ostream &out, const Stream &stream) {
    return out << "<stream " << stream.id() << " of " << stream.device() << '>';
}

Stream default_stream(const Device &device, Location loc) {
    return Stream(Stream::Handle{std::make_shared<StreamState>(
        ir::StreamRef{gpu(device, "default_stream", loc), ir::kDefaultStream}, 0)});
}

Stream current_stream(const Device &device, Location loc) {
    const ir::Device at = gpu(device, "current_stream", loc);
    if (auto handle = Recorder::current().stream_handle(at))
        return Stream(Stream::Handle{std::static_pointer_cast<StreamState>(handle)});
    return default_stream(detail::from_ir(at), loc);
}

void set_stream(const Stream &stream) {
    const ir::StreamRef ref = stream.state_->ref;
    const bool is_default = ref.stream == ir::kDefaultStream;
    Recorder &recorder = Recorder::current();
    recorder.set_stream(ref.device, is_default ? ir::kNoStream : ref.stream,
                        is_default ? nullptr : stream.state_);
    recorder.set_current_gpu(ref.device.index);
}

StreamGuard::StreamGuard(const Stream &stream)
    : before_(current_stream(stream.device())), device_before_(current_device()) {
    set_stream(stream);
}
StreamGuard::~StreamGuard() {
    set_stream(before_);
    Recorder::current().set_current_gpu(device_before_);
}

Event::Event(const EventOptions &options) : state_(std::make_shared<EventState>(options.timing)) {}

void Event::record(Location loc) const {
    record(current_stream(Device::cuda(), loc), loc);
}
void Event::record(const Stream &stream, Location loc) const {
    record_effect_of(*state_, *stream.state_, pending<PendingRecord>(state_, *stream.state_),
                     ir::Op::RecordEvent, loc);
}
void Event::wait(Location loc) const {
    wait(current_stream(Device::cuda(), loc), loc);
}
void Event::wait(const Stream &stream, Location loc) const {
    record_effect_of(*state_, *stream.state_, pending<PendingWait>(state_, *stream.state_), ir::Op::WaitEvent,
                     loc);
}

void Event::synchronize(Location loc) const {
    launched(loc, [&] {
        state_->event.synchronize();
        return true;
    });
}
bool Event::query(Location loc) const {
    return launched(loc, [&] { return state_->event.reached(); });
}

double Event::elapsed_time(const Event &end, Location loc) const {
    if (!state_->event.timing() || !end.state_->event.timing())
        throw StateError("elapsed_time: both events must be made with timing, as Event({.timing = true})",
                         loc);
    return launched(loc, [&] {
        state_->event.synchronize();
        end.state_->event.synchronize();
        if (!state_->event.recorded() || !end.state_->event.recorded())
            throw StateError("elapsed_time: both events must have been recorded", loc);
        return state_->event.elapsed_ms(end.state_->event);
    });
}

} // namespace cuda
} // namespace lz
