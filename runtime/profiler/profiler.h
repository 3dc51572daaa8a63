#pragma once
/// A timeline of what ran: events collected while a profile is on, written as a trace for chrome://tracing or
/// Perfetto. One profile at a time in a process.

#include "ir/types/type.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lz::runtime {

/// Something that took time on one track. A track is a stream of a device, or a thread of the host
/// (recording, compiling).
struct ProfileEvent {
    std::string name;
    std::string category; ///< `kernel`, `library`, `copy`, `compile`, `record`, ...
    bool host = false;
    ir::Device device;          ///< unless host
    int32_t track = 0;          ///< the stream, or the thread's number (profile_thread)
    int64_t begin = 0, end = 0; ///< profile_clock
    /// An arrow is drawn from the event that has a number in `arrows_out` to those that have it in
    /// `arrows_in`.
    std::vector<uint64_t> arrows_out, arrows_in;
    std::vector<std::pair<std::string, std::string>> args; ///< shown when the event is clicked
};

/// Nanoseconds of a clock that never goes back.
int64_t profile_clock();
/// A small number of the calling thread, from 0 in the order of first calls.
int32_t profile_thread();
/// A number for an arrow, never given before.
uint64_t profile_arrow();

namespace detail {
extern std::atomic<bool> profiling;
extern std::atomic<bool> virtual_times;
} // namespace detail
/// Whether a profile is on: one load. What is expensive to collect is collected only then.
inline bool profiling() {
    return detail::profiling.load(std::memory_order_relaxed);
}

/// The times of streams are those of a virtual clock from now on, and beside them those of the host's own
/// doings (ProfileEvent::host) mean nothing: they are left out.
void profile_virtual_times(bool on);

/// Throws Failure(State) when a profile is on already.
void start_profile();
/// Ends it and returns what was collected, by begin; nothing when none was on.
std::vector<ProfileEvent> stop_profile();
/// Adds an event; dropped when no profile is on. From any thread.
void record_event(ProfileEvent event);

/// Where an event is drawn: `cuda:0 stream 1`, `cuda:0 copies in`, `host thread 0`.
std::string row_name(const ProfileEvent &event);
/// Chrome's trace event format: times in microseconds from the first event on, a process a device, a thread a
/// stream; arrows are flow events.
std::string trace_json(const std::vector<ProfileEvent> &events);

} // namespace lz::runtime
