#include "tests/support/device_environment.h"

#include <cstdlib>

namespace {

/// Before the engine starts, unless the environment says otherwise.
[[maybe_unused]] const bool has_devices = [] {
    ::setenv("LAZULI_VIRTUAL_GPUS", "2", 0);
    ::setenv("LAZULI_VERIFY", "1", 0);
    ::setenv("LAZULI_QUICK", "0", 0); // tests count the calls of a device, and no thread beside makes any
    return true;
}();

} // namespace
