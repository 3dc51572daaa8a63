#pragma once
/// A timeline of what ran, for chrome://tracing or Perfetto.

#include "lazuli/core/export.h"
#include "lazuli/core/location.h"

#include <memory>
#include <string>

namespace lz {

/// Collects from its construction to `stop` or its end: recordings, compilations, kernels and library calls,
/// each on its device and stream, kernels with what was fused into them and the user's lines. One at a time:
/// a second throws StateError. Costs next to nothing when there is none.
class LZ_API Profiler {
public:
    explicit Profiler(Location loc = Location::current());
    ~Profiler();
    Profiler(const Profiler &) = delete;
    Profiler &operator=(const Profiler &) = delete;

    /// Waits for what has been launched on GPUs, and launches nothing.
    void stop();
    /// The trace as JSON in Chrome's trace event format. Stops first.
    std::string json();
    /// The timeline as a picture. Stops first.
    std::string svg();
    /// Writes the picture if the path ends in `.svg`, else the trace; throws IoError when the file cannot be
    /// written.
    void save(const std::string &path, Location loc = Location::current());

private:
    bool running_ = true;
    std::string trace_, picture_;
};

/// A named part of the program, from its construction to its end, on the row of the thread that runs it:
///
///     for (int epoch = 0; epoch < 10; ++epoch) {
///         const lz::ProfileRange range("epoch " + std::to_string(epoch));
///         ...
///     }
///
/// In a Profiler's timeline, and for tools that listen to NVTX (Nsight Systems: `nsys profile ./program`),
/// which hear of compilations, programs and the kernels that are launched, too. Ranges of a thread nest.
/// Work is recorded and launched within a range; it may run later. Costs next to nothing when nobody looks.
class LZ_API ProfileRange {
public:
    /// Begins it.
    explicit ProfileRange(const std::string &name);
    ~ProfileRange();
    ProfileRange(const ProfileRange &) = delete;
    ProfileRange &operator=(const ProfileRange &) = delete;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_; ///< null when nobody looks
};

} // namespace lz
