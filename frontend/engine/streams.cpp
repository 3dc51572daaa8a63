#include "engine/streams.h"

#include "engine/devices.h"
#include "engine/engine.h"
#include "runtime/api/parallel.h"
#include "runtime/stream_group.h"
#include "runtime/user_event.h"

#include <array>
#include <atomic>
#include <mutex>

namespace lz::engine {
namespace {

runtime::Backend &backend(ir::Device device) {
    return Engine::get().devices().backend(device);
}

/// Which of the user's streams there are, by device.
struct LiveStreams {
    std::mutex mutex;
    std::array<std::array<bool, ir::kMaxStreams>, 256> live{};
    static LiveStreams &get() {
        static LiveStreams *const streams = new LiveStreams;
        return *streams;
    }
};

} // namespace

int stream_priority(int asked) {
    return runtime::StreamGroup::clamp_priority(asked);
}

int32_t create_stream(ir::Device device, int priority) {
    runtime::check_not_forked();
    const int32_t stream = backend(device).create_stream(priority);
    LiveStreams &streams = LiveStreams::get();
    const std::lock_guard lock(streams.mutex);
    streams.live[device.index][static_cast<size_t>(stream)] = true;
    return stream;
}

void destroy_stream(ir::StreamRef stream) noexcept {
    LiveStreams &streams = LiveStreams::get();
    {
        const std::lock_guard lock(streams.mutex);
        streams.live[stream.device.index][static_cast<size_t>(stream.stream)] = false;
    }
    backend(stream.device).destroy_stream(stream.stream);
}

ir::Point record(ir::StreamRef stream) {
    return {stream, backend(stream.device).record(stream.stream)};
}

bool reached(const ir::Point &point) {
    return backend(point.stream.device).reached(point.stream.stream, point.tick);
}

void synchronize(std::span<const ir::Point> points) {
    for (const ir::Point &p : points)
        backend(p.stream.device).synchronize(p.stream.stream, p.tick);
}

void synchronize_device(ir::Device device) {
    runtime::check_not_forked();
    std::vector<int32_t> streams;
    for (int32_t s = 0; s < ir::kFirstUserStream; ++s)
        streams.push_back(s);
    {
        LiveStreams &live = LiveStreams::get();
        const std::lock_guard lock(live.mutex);
        for (int32_t s = ir::kFirstUserStream; s < ir::kMaxStreams; ++s)
            if (live.live[device.index][static_cast<size_t>(s)])
                streams.push_back(s);
    }
    runtime::Backend &gpu = backend(device);
    for (const int32_t s : streams)
        gpu.synchronize(s, gpu.record(s));
}

struct Event::Impl {
    runtime::UserEvent event;
};

Event::Event(bool timing) : impl_(new Impl{runtime::UserEvent(timing)}) {}
Event::~Event() = default;

int64_t Event::word() const {
    return runtime::effect_word(&impl_->event);
}
bool Event::timing() const {
    return impl_->event.timing();
}
bool Event::recorded() const {
    return impl_->event.get().backend != nullptr;
}
void Event::expect() {
    impl_->event.expect();
}
void Event::resolve() {
    impl_->event.resolve();
}
bool Event::reached() const {
    if (impl_->event.expected())
        return false;
    const runtime::UserEvent::Moment moment = impl_->event.get();
    return !moment.backend || moment.backend->reached(moment.point.stream.stream, moment.point.tick);
}
void Event::synchronize() const {
    if (impl_->event.expected()) {
        runtime::check_not_forked();
        impl_->event.await_records();
    }
    const runtime::UserEvent::Moment moment = impl_->event.get();
    if (moment.backend)
        moment.backend->synchronize(moment.point.stream.stream, moment.point.tick);
}
double Event::elapsed_ms(const Event &end) const {
    return static_cast<double>(end.impl_->event.get().time->time() - impl_->event.get().time->time()) * 1e-6;
}

struct Callback::Impl {
    runtime::UserCallback callback;
};

Callback::Callback(std::function<void()> function) : impl_(new Impl{{std::move(function)}}) {}
Callback::~Callback() = default;
int64_t Callback::word() const {
    return runtime::effect_word(&impl_->callback);
}

} // namespace lz::engine
