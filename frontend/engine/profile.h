#pragma once
/// The profiler, for the public API (which may not see the runtime).

#include <string>

namespace lz::engine {

/// Throws Failure(State) when a profile is on already.
void start_profile();
/// Ends the profile; its timeline as Chrome trace JSON.
std::string stop_profile();

} // namespace lz::engine
