#pragma once
/// Four virtual GPUs with random delays, unless the environment says otherwise: include in one file of a
/// binary.

#include "frontend/engine/engine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace lz::test {

/// Before anything uses the engine.
inline const bool virtual_gpus_asked_for = [] {
    setenv("LAZULI_VIRTUAL_GPUS", "4", 0);
    setenv("LAZULI_VIRTUAL_DELAY", "1", 0);
    setenv("LAZULI_VERIFY", "1", 0);
    setenv("LAZULI_QUICK", "0", 0); // calls of devices are counted, and the emitted code is what races
    return true;
}();

/// First line of a test that needs them: skips aloud where there can be none (builds without the JIT).
#define LZ_NEEDS_GPUS()                                                                                      \
    if (const std::string &why = engine::Engine::get().why_no_gpu(); !why.empty())                           \
    GTEST_SKIP() << why

} // namespace lz::test
