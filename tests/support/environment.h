#pragma once
/// Settings of tests that the environment may change.

#include <cstdint>
#include <cstdlib>

namespace lz::test {

/// The number in this variable, or `otherwise` where it is not set.
inline int64_t number_from(const char *variable, int64_t otherwise) {
    const char *text = std::getenv(variable);
    return text && *text ? std::atoll(text) : otherwise;
}

/// First line of a test about what only compiled code does: skips aloud in builds without the JIT.
#if LAZULI_CPU_JIT
#define LZ_NEEDS_JIT() static_assert(true)
#else
#define LZ_NEEDS_JIT()                                                                                       \
    GTEST_SKIP() << "It is about compiled code, and this build has no JIT (LAZULI_CPU_JIT=OFF)."
#endif

} // namespace lz::test
