#pragma once
/// What tests depend on that is not theirs: settings of the environment, and whether there is a JIT.

#include "codegen/host.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

/// First line of a test about what only compiled code does: skips aloud in builds without the JIT.
#define LZ_NEEDS_JIT()                                                                                       \
    if (!lz::codegen::cpu_jit_available())                                                                   \
    GTEST_SKIP() << "It is about compiled code, and this build has no JIT (LAZULI_CPU_JIT=OFF)."

namespace lz::test {

/// The number in this variable, or `otherwise` where it is not set.
inline int64_t number_from(const char *variable, int64_t otherwise) {
    const char *text = std::getenv(variable);
    return text && *text ? std::atoll(text) : otherwise;
}

} // namespace lz::test
