#pragma once
/// What pending operations alone keep in memory.

#include "frontend/record/recorder.h"

#include <cstdint>

namespace lz::detail {

/// Bytes of stored values that nobody but the thread's pending operations keeps alive.
int64_t kept_bytes(const Recorder &recorder);

} // namespace lz::detail
