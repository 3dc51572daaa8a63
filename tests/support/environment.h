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

} // namespace lz::test
