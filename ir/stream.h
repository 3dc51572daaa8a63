#pragma once
/// Numbers of streams. Those that every GPU has mean the same in every Program and on every device; what the
/// user's stand for in a Program, a run may say (ir/program/run.h: Bindings::streams).

#include "ir/types/type.h"

#include <cstdint>
#include <string>

namespace lz::ir {

/// Node::stream of work for which the user named no stream.
inline constexpr int32_t kNoStream = -1;

/// Streams that every GPU has. Unnamed work runs on 0 to kComputeStreams - 1; what the user calls the default
/// stream is 0.
inline constexpr int32_t kDefaultStream = 0;
inline constexpr int32_t kComputeStreams = 4;
inline constexpr int32_t kCopyInStream = 4;   ///< from the host
inline constexpr int32_t kCopyOutStream = 5;  ///< to the host
inline constexpr int32_t kCopyPeerStream = 6; ///< between two GPUs, of the one that makes the copy
/// Nothing runs here: it waits for the copies that peers make into or out of the device, which are its work,
/// too, and for other libraries' streams.
inline constexpr int32_t kPeersCopyStream = 7;
/// Streams that the user makes are numbered from here, below kMaxStreams; numbers of streams that are gone
/// are given again.
inline constexpr int32_t kFirstUserStream = 8;
inline constexpr int32_t kMaxStreams = 72;

/// Streams of the CPU: in Programs there is only 0. A run that has to wait for a GPU puts its CPU steps on 1,
/// a thread of its own; else they run on the calling thread, where nothing is ever pending.
inline constexpr int32_t kHostStream = 0;
inline constexpr int32_t kHostWorkerStream = 1;

/// A stream of a device.
struct StreamRef {
    Device device;
    /// Fills what would be padding: clang 22 passes the struct in one register, and took all of it for
    /// undefined where its padding was (at -O1 with ThreadSanitizer).
    uint16_t zero = 0;
    int32_t stream = kDefaultStream;

    constexpr StreamRef() = default;
    constexpr StreamRef(Device d, int32_t s) : device(d), stream(s) {}
    friend bool operator==(StreamRef, StreamRef) = default;
};

/// `cuda:0 stream 4`.
inline std::string to_string(StreamRef s) {
    return to_string(s.device) + " stream " + std::to_string(s.stream);
}

/// A moment on a stream: when the first `tick` things that were put on it have been done. Tick 0 is always
/// past. Points of one stream are ordered by their ticks; nothing has to be given back.
struct Point {
    StreamRef stream;
    uint64_t tick = 0;
};

} // namespace lz::ir
