#include "runtime/profiler/profiler.h"

#include "ir/diagnostic.h"
#include "ir/stream.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>

namespace lz::runtime {

namespace detail {
std::atomic<bool> profiling{false};
std::atomic<bool> virtual_times{false};
} // namespace detail

namespace {

struct Profile {
    std::mutex mutex;
    std::vector<ProfileEvent> events;
};

/// Never destroyed: threads may still record when main has returned.
Profile &profile() {
    static auto *p = new Profile;
    return *p;
}

using Json = nlohmann::ordered_json;

/// Chrome's pid of an event: 0 is the host, devices follow.
int process_of(const ProfileEvent &event) {
    if (event.host)
        return 0;
    return event.device.kind == ir::DeviceKind::Cpu ? 1 : 2 + event.device.index;
}

std::string stream_name(ir::Device device, int32_t stream) {
    if (device.kind != ir::DeviceKind::Cpu) {
        if (stream == ir::kCopyInStream)
            return "copies in";
        if (stream == ir::kCopyOutStream)
            return "copies out";
        if (stream == ir::kCopyPeerStream)
            return "copies to peers";
        if (stream == ir::kPeersCopyStream)
            return "copies of peers";
    }
    return fmt::format("stream {}", stream);
}

Json name_of(const char *what, int process, int track, const std::string &name) {
    return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}};
}

} // namespace

int64_t profile_clock() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

int32_t profile_thread() {
    static std::atomic<int32_t> next{0};
    thread_local int32_t mine = next.fetch_add(1, std::memory_order_relaxed);
    return mine;
}

uint64_t profile_arrow() {
    static std::atomic<uint64_t> next{0};
    return next.fetch_add(1, std::memory_order_relaxed) + 1;
}

void profile_virtual_times(bool on) {
    detail::virtual_times.store(on, std::memory_order_relaxed);
}

void start_profile() {
    std::lock_guard lock(profile().mutex);
    if (detail::profiling.load(std::memory_order_relaxed))
        throw ir::Failure(ir::ErrorKind::State,
                          "A profile is being collected already; stop it before another one is started.");
    profile().events.clear();
    detail::profiling.store(true, std::memory_order_relaxed);
}

std::vector<ProfileEvent> stop_profile() {
    std::lock_guard lock(profile().mutex);
    detail::profiling.store(false, std::memory_order_relaxed);
    std::vector<ProfileEvent> events = std::exchange(profile().events, {});
    std::ranges::sort(events, [](const ProfileEvent &a, const ProfileEvent &b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; // what encloses comes first
    });
    return events;
}

void record_event(ProfileEvent event) {
    if (event.host && detail::virtual_times.load(std::memory_order_relaxed))
        return;
    std::lock_guard lock(profile().mutex);
    if (detail::profiling.load(std::memory_order_relaxed))
        profile().events.push_back(std::move(event));
}

std::string row_name(const ProfileEvent &event) {
    return event.host ? fmt::format("host thread {}", event.track)
                      : ir::to_string(event.device) + " " + stream_name(event.device, event.track);
}

std::string trace_json(const std::vector<ProfileEvent> &events) {
    int64_t origin = INT64_MAX;
    for (const ProfileEvent &event : events)
        origin = std::min(origin, event.begin);
    auto microseconds = [origin](int64_t at) { return static_cast<double>(at - origin) / 1000; };
    Json out = Json::array();
    std::set<std::pair<int, int>> tracks;
    for (const ProfileEvent &event : events) {
        int process = process_of(event);
        if (tracks.lower_bound({process, INT32_MIN}) == tracks.lower_bound({process + 1, INT32_MIN}))
            out.push_back(name_of("process_name", process, event.track,
                                  event.host ? "host" : ir::to_string(event.device)));
        if (tracks.insert({process, event.track}).second)
            out.push_back(name_of("thread_name", process, event.track,
                                  event.host ? fmt::format("thread {}", event.track)
                                             : stream_name(event.device, event.track)));
        Json args = Json::object();
        for (const auto &[key, value] : event.args)
            args[key] = value;
        out.push_back({{"name", event.name},
                       {"cat", event.category},
                       {"ph", "X"},
                       {"pid", process},
                       {"tid", event.track},
                       {"ts", microseconds(event.begin)},
                       {"dur", static_cast<double>(event.end - event.begin) / 1000},
                       {"args", std::move(args)}});
        // Arrows bind to the event around them: out of its end, into its begin.
        const auto arrow = [&](uint64_t number, const char *phase, int64_t at) {
            out.push_back({{"name", "wait"},
                           {"cat", "wait"},
                           {"ph", phase},
                           {"id", number},
                           {"pid", process},
                           {"tid", event.track},
                           {"ts", microseconds(at)}});
        };
        for (const uint64_t number : event.arrows_out)
            arrow(number, "s", event.end);
        for (const uint64_t number : event.arrows_in) {
            arrow(number, "f", event.begin);
            out.back()["bp"] = "e";
        }
    }
    Json trace = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(out)}};
    // User's labels may hold anything: what is not UTF-8 is replaced, not thrown over.
    return trace.dump(1, ' ', false, Json::error_handler_t::replace);
}

} // namespace lz::runtime
