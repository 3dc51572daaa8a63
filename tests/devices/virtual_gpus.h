#pragma once
/// Four virtual GPUs with random delays, unless the environment says otherwise: include in one file of a
/// binary.

#include <cstdlib>

namespace lz::test {

/// Before anything uses the engine.
inline const bool virtual_gpus_asked_for = [] {
    setenv("LAZULI_VIRTUAL_GPUS", "4", 0);
    setenv("LAZULI_VIRTUAL_DELAY", "1", 0);
    setenv("LAZULI_VERIFY", "1", 0);
    return true;
}();

} // namespace lz::test
