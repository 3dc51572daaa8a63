#include "frontend/engine/streams.h"

#include "frontend/engine/devices.h"
#include "frontend/engine/engine.h"
#include "runtime/api/parallel.h"
#include "runtime/executor/user_event.h"
#include "runtime/streams/group.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

namespace lz::engine {
namespace {

runtime::Backend &backend(ir::Device device) {
    return Engine::get().devices().backend(device);
}

/// Who needs a number that streams of the user's can have.
struct Number {
    uint32_t open = 0, holds = 0;
    int priority = 0;
    bool used = false; ///< something may be on it, also when it is free

    bool free() const { return open == 0 && holds == 0; }
};
using Numbers = std::array<Number, ir::kMaxStreams>;

/// Those of all devices.
struct UserStreams {
    std::mutex mutex;
    std::array<std::unique_ptr<Numbers>, 256> devices;

    Numbers &of(ir::Device device) {
        std::unique_ptr<Numbers> &numbers = devices[device.index];
        if (!numbers)
            numbers = std::make_unique<Numbers>();
        return *numbers;
    }
    Number &at(ir::StreamRef stream) { return of(stream.device)[static_cast<size_t>(stream.stream)]; }

    static UserStreams &get() {
        static UserStreams *const streams = new UserStreams;
        return *streams;
    }
};

std::span<Number> of_users(Numbers &numbers) {
    return std::span(numbers).subspan(ir::kFirstUserStream);
}

/// One that pending work alone needs, or that shares best.
Number &number_to_share(Numbers &numbers, int priority) {
    const auto users = of_users(numbers);
    return *std::ranges::min_element(users, {}, [&](const Number &n) {
        return std::tuple(n.open > 0, std::abs(n.priority - priority), n.open + n.holds);
    });
}

/// One user less.
void let_go(ir::StreamRef stream, uint32_t Number::*use) noexcept {
    UserStreams &streams = UserStreams::get();
    const std::lock_guard lock(streams.mutex);
    Number &number = streams.at(stream);
    --(number.*use);
    if (number.free()) // under the lock: numbers are free here and at the device, or nowhere
        backend(stream.device).destroy_stream(stream.stream);
}

} // namespace

UserStream open_stream(ir::Device device, int priority) {
    runtime::check_not_forked();
    priority = runtime::StreamGroup::clamp_priority(priority);
    UserStreams &streams = UserStreams::get();
    const std::lock_guard lock(streams.mutex);
    Numbers &numbers = streams.of(device);
    if (std::ranges::any_of(of_users(numbers), &Number::free)) {
        const int32_t stream = backend(device).create_stream(priority);
        numbers[static_cast<size_t>(stream)] = {.open = 1, .holds = 0, .priority = priority, .used = true};
        return {stream, priority};
    }
    Number &shared = number_to_share(numbers, priority);
    ++shared.open;
    return {static_cast<int32_t>(&shared - numbers.data()), shared.priority};
}

void close_stream(ir::StreamRef stream) noexcept {
    let_go(stream, &Number::open);
}
void hold_stream(ir::StreamRef stream) noexcept {
    UserStreams &streams = UserStreams::get();
    const std::lock_guard lock(streams.mutex);
    ++streams.at(stream).holds;
}
void release_stream(ir::StreamRef stream) noexcept {
    let_go(stream, &Number::holds);
}

void check_not_forked() {
    runtime::check_not_forked();
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
    {
        UserStreams &users = UserStreams::get();
        const std::lock_guard lock(users.mutex);
        const Numbers &numbers = users.of(device);
        for (int32_t s = 0; s < ir::kMaxStreams; ++s)
            if (s < ir::kFirstUserStream || numbers[static_cast<size_t>(s)].used)
                streams.push_back(s);
    }
    runtime::Backend &gpu = backend(device);
    for (const int32_t s : streams)
        gpu.synchronize(s, gpu.record(s));
}

ir::Point foreign_point(ir::Device device, void *foreign) {
    // A stream that computes would hold up work that has nothing to do with it.
    const ir::StreamRef stream{device, ir::kPeersCopyStream};
    backend(device).wait_foreign(stream.stream, foreign);
    return record(stream);
}

void foreign_waits(void *foreign, const ir::Point &point) {
    backend(point.stream.device).foreign_waits(foreign, point.stream.stream, point.tick);
}

struct EventHandle::Impl {
    runtime::UserEvent event;
};

EventHandle::EventHandle(bool timing) : impl_(new Impl{runtime::UserEvent(timing)}) {}
EventHandle::~EventHandle() = default;

int64_t EventHandle::word() const {
    return runtime::effect_word(&impl_->event);
}
bool EventHandle::timing() const {
    return impl_->event.timing();
}
bool EventHandle::recorded() const {
    return impl_->event.get().backend != nullptr;
}
void EventHandle::expect() {
    impl_->event.expect();
}
void EventHandle::resolve() {
    impl_->event.resolve();
}
bool EventHandle::reached() const {
    if (impl_->event.expected())
        return false;
    const runtime::UserEvent::Moment moment = impl_->event.get();
    return !moment.backend || moment.backend->reached(moment.point.stream.stream, moment.point.tick);
}
void EventHandle::synchronize() const {
    if (impl_->event.expected()) {
        runtime::check_not_forked();
        impl_->event.await_records();
    }
    const runtime::UserEvent::Moment moment = impl_->event.get();
    if (moment.backend)
        moment.backend->synchronize(moment.point.stream.stream, moment.point.tick);
}
double EventHandle::elapsed_ms(const EventHandle &end) const {
    const runtime::UserEvent::Moment from = impl_->event.get(), to = end.impl_->event.get();
    const ir::Device here = from.point.stream.device, there = to.point.stream.device;
    if (here != there && !from.backend->properties().is_virtual)
        throw ir::Failure(ir::ErrorKind::Device,
                          "elapsed_time: one event was recorded on " + ir::to_string(here) +
                              " and the other on " + ir::to_string(there) +
                              ", whose clocks are not one; record both on the same device");
    const int64_t began = from.time->time();
    // A moment that is read twice may be rounded in two ways: a clock of CUDA begins anew every second.
    const int64_t ended = from.time == to.time ? began : to.time->time();
    return static_cast<double>(ended - began) * 1e-6;
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
