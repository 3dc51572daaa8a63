#pragma once
/// The host's own doings in timelines: a profile's, and those of tools that listen to NVTX.

#include "runtime/profiler/nvtx.h"
#include "runtime/profiler/profiler.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lz::engine {

/// An event from its construction to its end, on the track of the thread. Costs two loads when nobody looks.
class HostEvent {
public:
    HostEvent(const char *category, std::string name)
        : on_(runtime::profiling()), category_(category), begin_(on_ ? runtime::profile_clock() : 0) {
        if (runtime::nvtx_listens()) [[unlikely]]
            range_.emplace(name);
        if (on_)
            name_ = std::move(name);
    }
    ~HostEvent() {
        if (!on_)
            return;
        runtime::ProfileEvent event;
        event.name = std::move(name_);
        event.category = category_;
        event.host = true;
        event.track = runtime::profile_thread();
        event.begin = begin_;
        event.end = runtime::profile_clock();
        runtime::record_event(std::move(event));
    }
    HostEvent(const HostEvent &) = delete;
    HostEvent &operator=(const HostEvent &) = delete;

    /// Whether anybody looks.
    static bool wanted() { return runtime::profiling() || runtime::nvtx_listens(); }

private:
    bool on_;
    const char *category_;
    std::string name_;
    int64_t begin_;
    std::optional<runtime::NvtxRange> range_;
};

} // namespace lz::engine
