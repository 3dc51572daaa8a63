#pragma once
/// The profiler, for the public API (which may not see the runtime).

#include <memory>
#include <string>

namespace lz::engine {

/// Throws Failure(State) when a profile is on already.
void start_profile();
/// What ran when, in both forms.
struct Timeline {
    std::string json; ///< Chrome's trace event format
    std::string svg;  ///< a picture
};
/// Ends the profile.
Timeline stop_profile();

class HostEvent;

/// A named range of the calling thread (ProfileRange).
class HostRange {
public:
    explicit HostRange(const std::string &name);
    ~HostRange();
    /// Whether anybody looks.
    static bool wanted();

private:
    std::unique_ptr<HostEvent> event_;
};

} // namespace lz::engine
