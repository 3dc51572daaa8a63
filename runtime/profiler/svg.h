#pragma once
/// Profiles as pictures.

#include "runtime/profiler/profiler.h"

#include <string>
#include <vector>

namespace lz::runtime {

/// A row a device and stream (and a host thread), a bar an event, coloured by
/// category, and the arrows between them.
std::string trace_svg(const std::vector<ProfileEvent> &events);

} // namespace lz::runtime
